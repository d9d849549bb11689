"""The database's own walls, tried with plain SQL as each login and role: what a person may not do, they cannot do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import audit
from ledger.database import Database, Transaction, sqlstate
from ledger.records import Role
from ledger.states import ActionState
from tests.fix_sends import Sends

DENIED = "42501"
DECIDERS = {Role.SUPPORT, Role.ADMIN}


def denied(sends: Sends, role: Role, sql: str, **values: object) -> str | None:
    """The SQLSTATE that this statement of a person meets, or None when it is allowed."""
    try:
        sends.by_console.run(lambda tx: tx.execute(sql, **values) and None, role=role)
    except DBAPIError as error:
        return sqlstate(error)
    return None


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT content FROM nottwice.action_contents",
        "SELECT * FROM nottwice.action_contents",
        "SELECT provider_key FROM nottwice.actions",
        "SELECT claim_token FROM nottwice.actions",
        "SELECT claim_token FROM nottwice.events",
        "SELECT token FROM nottwice.action_attempts",
        "SELECT body FROM nottwice.event_contents",
        "SELECT body FROM nottwice.conflicts",
        "SELECT body FROM nottwice.quarantine",
        "UPDATE nottwice.actions SET claim_token = NULL",
        "UPDATE nottwice.actions SET content_digest = ''",
        "UPDATE nottwice.actions SET provider_key = 'x'",
        "UPDATE nottwice.action_contents SET content = ''",
        "UPDATE nottwice.action_attempts SET outcome = 'accepted'",
        "DELETE FROM nottwice.actions",
        "INSERT INTO nottwice.actions DEFAULT VALUES",
        "INSERT INTO nottwice.action_attempts DEFAULT VALUES",
        "UPDATE nottwice.audit SET why = ''",
        "DELETE FROM nottwice.audit",
        "INSERT INTO nottwice.audit (at, role, act, entity, entity_id, outcome) VALUES (now(), 'x', 'x', 'action', 1, 'done')",
        "INSERT INTO nottwice.audit_seals VALUES (1, 1, '', '')",
        "INSERT INTO nottwice.audit_unsealed VALUES (1)",
        "DELETE FROM nottwice.audit_unsealed",
        "DELETE FROM nottwice.audit_checks",
        "UPDATE nottwice.people SET name = 'x'",
        "UPDATE nottwice.requests SET requested_by = 1",
        "CREATE TABLE nottwice.t (i int)",
        "TRUNCATE nottwice.audit",
    ],
)
def test_no_person_may(sends: Sends, role: Role, sql: str) -> None:
    assert denied(sends, role, sql) == DENIED


@pytest.mark.parametrize("role", Role)
def test_who_may_change_an_action(sends: Sends, role: Role) -> None:
    action_id = sends.uncertain()
    sql = "UPDATE nottwice.actions SET state = 'closed', settled_at = now(), review_since = NULL, version = version + 1 WHERE id = :id"
    assert denied(sends, role, sql, id=action_id) == DENIED
    assert sends.state(action_id) is ActionState.NEEDS_REVIEW
    may_write = denied(sends, role, "UPDATE nottwice.actions SET verdict = verdict WHERE id = -1") is None
    assert may_write == (role in DECIDERS)


@pytest.mark.parametrize("role", Role)
def test_only_those_who_may_see_recipients_see_them(sends: Sends, role: Role) -> None:
    sends.proposed()
    sees = denied(sends, role, "SELECT recipients FROM nottwice.action_contents") is None
    assert sees == (role in DECIDERS | {Role.AUDITOR})


def test_the_console_without_a_person_reads_and_changes_nothing(sends: Sends) -> None:
    for sql in (
        "SELECT FROM nottwice.actions",
        "SELECT FROM nottwice.audit",
        "UPDATE nottwice.actions SET verdict = ''",
    ):
        with pytest.raises(DBAPIError) as error:
            sends.by_console.run(lambda tx, sql=sql: tx.execute(sql) and None)  # type: ignore[misc]
        assert sqlstate(error.value) == DENIED


LOGINS = ("nottwice_receiver", "nottwice_worker", "nottwice_console")


@pytest.mark.parametrize("name", [*LOGINS, *(f"nottwice_{role}" for role in Role)])
def test_nobody_makes_temporary_tables(sends: Sends, name: str) -> None:
    """Asked of the database that was migrated: what it grants is not copied to those that are made from it."""
    (answer,) = sends.rows(
        """SELECT has_database_privilege(:name, 'template_nottwice', 'TEMPORARY') AS makes,
                  has_database_privilege(:name, 'template_nottwice', 'CONNECT') AS connects""",
        name=name,
    )
    assert answer.connects and not answer.makes


# ── No change without its audit row ───────────────────────────────────────────────────────────────────

CLOSE = """UPDATE nottwice.actions SET state = 'closed', settled_at = now(), review_since = NULL,
                  version = version + :step WHERE id = :id"""


def closing(
    sends: Sends,
    action_id: int,
    *,
    step: int = 1,
    version_off: int = 0,
    before: str = "needs_review",
    after: str = "closed",
) -> Callable[[Transaction], None]:
    """A hand-made decision; the numbers and states can be made wrong."""
    act, version = sends.act(sends.person("Ann")), sends.row(action_id).version

    def body(tx: Transaction) -> None:
        audit.done(
            tx,
            act,
            "closed",
            "action",
            action_id,
            version=version + 1 + version_off,
            before=before,
            after=after,
        )
        tx.execute(CLOSE, id=action_id, step=step)

    return body


def test_a_change_with_its_row_goes_through(sends: Sends) -> None:
    action_id = sends.uncertain()
    sends.by_console.run(closing(sends, action_id), role=Role.SUPPORT)
    assert sends.state(action_id) is ActionState.CLOSED


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": 0, "version_off": -1},
        {"step": 2},
        {"version_off": 1},
        {"before": "approved"},
        {"after": "sent"},
    ],
)
def test_a_row_that_says_something_else_does_not_count(sends: Sends, wrong: dict[str, object]) -> None:
    action_id = sends.uncertain()
    with pytest.raises(DBAPIError, match="no change without its audit row"):
        sends.by_console.run(closing(sends, action_id, **wrong), role=Role.SUPPORT)  # type: ignore[arg-type]
    assert sends.state(action_id) is ActionState.NEEDS_REVIEW


def test_one_row_covers_one_action(sends: Sends) -> None:
    one, other = sends.uncertain(), sends.uncertain()
    body = closing(sends, one)

    def both(tx: Transaction) -> None:
        body(tx)
        tx.execute(CLOSE, id=other, step=1)

    with pytest.raises(DBAPIError, match="no change without its audit row"):
        sends.by_console.run(both, role=Role.SUPPORT)


def test_a_row_from_another_transaction_does_not_count(sends: Sends) -> None:
    action_id = sends.uncertain()
    version = sends.row(action_id).version
    sends.sql("ALTER TABLE nottwice.audit DISABLE TRIGGER an_audit_row_claims_only_what_happened")
    act = sends.act(sends.person("Ann"))
    sends.decide(
        act,
        lambda tx: audit.done(
            tx, act, "closed", "action", action_id, version=version + 1, before="needs_review", after="closed"
        ),
    )
    assert denied(sends, Role.SUPPORT, CLOSE, id=action_id, step=1) == DENIED


def test_a_row_cannot_claim_what_was_not_done(sends: Sends) -> None:
    action_id = sends.uncertain()
    act, version = sends.act(sends.person("Ann")), sends.row(action_id).version
    with pytest.raises(DBAPIError, match="claims a change that was not made"):
        sends.decide(
            act,
            lambda tx: audit.done(
                tx,
                act,
                "closed",
                "action",
                action_id,
                version=version + 1,
                before="needs_review",
                after="closed",
            ),
        )
    assert sends.audit(action_id) == []


# ── Processes ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_receiver_knows_no_actions(sends: Sends, login_url: Callable[[str], str]) -> None:
    receiver = Database(login_url("nottwice_receiver"))
    try:
        for sql in (
            "SELECT FROM nottwice.actions",
            "SELECT FROM nottwice.action_contents",
            "SELECT FROM nottwice.audit",
        ):
            with pytest.raises(DBAPIError) as error:
                receiver.run(lambda tx, sql=sql: tx.execute(sql) and None)  # type: ignore[misc]
            assert sqlstate(error.value) == DENIED
    finally:
        receiver.close()


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM nottwice.actions",
        "DELETE FROM nottwice.action_attempts",
        "DELETE FROM nottwice.evidence",
        "UPDATE nottwice.evidence SET proof = true",
        "UPDATE nottwice.action_contents SET content = ''",
        "UPDATE nottwice.audit SET why = ''",
        "DELETE FROM nottwice.audit",
        "DELETE FROM nottwice.audit_seals",
        "INSERT INTO nottwice.audit_unsealed VALUES (1)",
        "INSERT INTO nottwice.audit_checks (entries, hash, unsealed) VALUES (1, '', 0)",
        "SET ROLE nottwice_admin",
        "SELECT nottwice.next_generation(1, 0)",
        "SELECT nottwice.reveal(1)",
    ],
)
def test_no_worker_may(sends: Sends, sql: str) -> None:
    with pytest.raises(DBAPIError) as error:
        sends.by_worker.run(lambda tx: tx.execute(sql) and None)
    assert sqlstate(error.value) == DENIED
