"""The record: no change without its row, no row without its change, and a chain that shows what was touched."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import audit, decisions
from ledger.database import Database
from ledger.errors import Incomplete, NotAllowed
from ledger.records import Act, Decision, Role, canonical_json
from ledger.states import ActionState
from tests.fix_sends import EMAIL, KEYED, TO_APPROVE, Sends

S = ActionState
PEOPLE = ", ".join(f"nottwice_{role.value}" for role in Role)
Attempted = Callable[[Sends, Act], object]


def closes(sends: Sends, act: Act) -> object:
    action_id = sends.uncertain()
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.DO_NOT_SEND, act))


def resends(sends: Sends, act: Act) -> object:
    action_id = sends.uncertain(KEYED)
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.RESEND_SAME_KEY, act))


def approves(sends: Sends, act: Act) -> object:
    action_id = sends.proposed(TO_APPROVE)
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.approve(tx, action_id, seen, act))


def declines(sends: Sends, act: Act) -> object:
    action_id = sends.proposed(TO_APPROVE)
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.decline(tx, action_id, seen, act))


def asks(sends: Sends, act: Act) -> object:
    action_id = sends.uncertain()
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.ask_new_key(tx, action_id, seen, act))


def reveals(sends: Sends, act: Act) -> object:
    return audit.reveal_action(sends.by_console, sends.proposed(), act)


ATTEMPTED: tuple[Attempted, ...] = (closes, resends, approves, declines, asks, reveals)


def seal_now(database: Database, limit: int = 500) -> int:
    """Seal once no transaction of the server, another test's included, is older than the newest audit row."""
    horizon = """SELECT coalesce(max(transaction) < pg_snapshot_xmin(pg_current_snapshot()), true) AS past
                 FROM nottwice.audit"""
    deadline = time.monotonic() + 10
    while not database.run(lambda tx: tx.one(horizon).past):
        assert time.monotonic() < deadline, "a transaction of this server stays open"
        time.sleep(0.01)
    return database.run(lambda tx: audit.seal(tx, limit))


def standing(sends: Sends) -> tuple[list[str], int, int]:
    """The states of all actions that no process moves, and how many requests and audit rows there are."""
    states = sends.rows("SELECT state FROM nottwice.actions ORDER BY id")
    counts = sends.rows(
        "SELECT (SELECT count(*) FROM nottwice.requests) AS r, (SELECT count(*) FROM nottwice.audit) AS a"
    )[0]
    return [row.state for row in states], counts.r, counts.a


@pytest.mark.parametrize("attempted", ATTEMPTED)
def test_aud_01_no_act_without_its_audit_row(sends: Sends, attempted: Attempted) -> None:
    ann = sends.person("Ann")
    sends.sql(f"REVOKE INSERT ON nottwice.audit FROM {PEOPLE}")
    with pytest.raises(DBAPIError, match="permission denied for table audit"):
        attempted(sends, sends.act(ann))
    states, requests, entries = standing(sends)
    assert set(states) <= {S.NEEDS_REVIEW, S.PROPOSED, S.APPROVED}
    assert (requests, entries) == (0, 0)
    sends.sql(f"GRANT INSERT ON nottwice.audit TO {PEOPLE}")
    attempted(sends, sends.act(ann))
    assert standing(sends)[2] == 1


def test_an_entry_cannot_be_changed_or_removed(sends: Sends) -> None:
    closes(sends, sends.act(sends.person("Ann")))
    for sql in ("UPDATE nottwice.audit SET why = 'other'", "DELETE FROM nottwice.audit"):
        with pytest.raises(DBAPIError, match="never changed"):
            sends.sql(sql)


# ── Reveal ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_is_shown_behind_its_entry(sends: Sends) -> None:
    action_id, act = sends.proposed(), sends.act(sends.person("Ann"))
    assert audit.reveal_action(sends.by_console, action_id, act) == canonical_json(EMAIL.content())
    (entry,) = sends.audit(action_id)
    assert (entry.act, entry.outcome, entry.entity_version) == ("reveal", "done", None)


def test_a_reveal_needs_an_entry_that_was_committed_before(sends: Sends) -> None:
    action_id, act = sends.proposed(), sends.act(sends.person("Ann"))

    def at_once(tx: audit.Transaction) -> None:
        entry = audit.done(tx, act, "reveal", "action", action_id, version=None, before=None, after=None)
        tx.execute("SELECT nottwice.reveal_action(:id)", id=entry)

    with pytest.raises(DBAPIError, match="nothing is shown"):
        sends.decide(act, at_once)
    assert sends.audit(action_id) == []


def test_a_reveal_is_of_the_role_that_asked(sends: Sends) -> None:
    action_id, act = sends.proposed(), sends.act(sends.person("Ann"))
    audit.reveal_action(sends.by_console, action_id, act)
    (entry,) = sends.audit(action_id)
    with pytest.raises(DBAPIError, match="nothing is shown"):
        sends.by_console.run(
            lambda tx: tx.execute("SELECT nottwice.reveal_action(:id)", id=entry.id) and None,
            role=Role.AUDITOR,
        )


def test_viewers_see_no_text_and_some_say_why(sends: Sends) -> None:
    action_id = sends.proposed()
    with pytest.raises(NotAllowed):
        audit.reveal_action(sends.by_console, action_id, sends.act(sends.person("Vi", Role.VIEWER)))
    for role in (Role.ENGINEER, Role.AUDITOR):
        silent = Act(sends.person("Eve", role), uuid4())
        with pytest.raises(Incomplete):
            audit.reveal_action(sends.by_console, action_id, silent)
        assert audit.reveal_action(sends.by_console, action_id, sends.act(silent.person, "Ticket 7"))
    assert len(sends.audit(action_id)) == 2


# ── Seals ─────────────────────────────────────────────────────────────────────────────────────────────


def entries(sends: Sends, n: int) -> list[int]:
    act = sends.act(sends.person("Ann", Role.SUPPORT))
    return [
        sends.decide(act, lambda tx, i=i: audit.refused(tx, act, "try", "action", i, "no"))  # type: ignore[misc]
        for i in range(1, n + 1)
    ]


def verified(sends: Sends) -> audit.Verification:
    return sends.by_owner.run(audit.verify)


def test_the_chain_of_a_whole_record(sends: Sends) -> None:
    entries(sends, 5)
    assert seal_now(sends.by_worker, 3) == 3
    assert seal_now(sends.by_worker) == 2
    assert sends.by_worker.run(audit.seal) == 0
    steps: list[int] = []
    found = sends.by_owner.run(lambda tx: audit.verify(tx, steps.append))
    assert (found.entries, found.broken, found.unsealed) == (5, None, 0)
    assert steps == [1, 2, 3, 4, 5]


def test_an_auditor_verifies_through_the_console(sends: Sends) -> None:
    entries(sends, 2)
    seal_now(sends.by_worker)
    assert sends.by_console.run(audit.verify, role=Role.AUDITOR).broken is None


@pytest.mark.parametrize(
    ("touch", "named"),
    [
        ("UPDATE nottwice.audit SET why = 'other' WHERE id = {2}", "Audit row {2} was changed"),
        ("UPDATE nottwice.audit SET looked_at = '{{x}}' WHERE id = {0}", "Audit row {0} was changed"),
        ("UPDATE nottwice.audit SET at = at + interval '1 us' WHERE id = {1}", "Audit row {1} was changed"),
        ("UPDATE nottwice.audit_seals SET hash = '\\x00' WHERE audit_id = {1}", "Audit row {1} was changed"),
        ("DELETE FROM nottwice.audit_seals WHERE audit_id = {1}", "Entry 2 of the chain is missing"),
    ],
)
def test_what_was_touched_is_named(sends: Sends, touch: str, named: str) -> None:
    ids = entries(sends, 4)
    seal_now(sends.by_worker)
    for table in ("audit", "audit_seals"):
        sends.sql(f"ALTER TABLE nottwice.{table} DISABLE TRIGGER USER")
    sends.sql(touch.format(*ids))
    found = verified(sends)
    assert found.broken is not None
    assert named.format(*ids) in found.broken


def test_a_missing_row_is_named(sends: Sends) -> None:
    ids = entries(sends, 3)
    seal_now(sends.by_worker)
    sends.sql("ALTER TABLE nottwice.audit_seals DROP CONSTRAINT audit_seals_audit_id_fkey")
    sends.sql("ALTER TABLE nottwice.audit DISABLE TRIGGER USER")
    sends.sql("DELETE FROM nottwice.audit WHERE id = :id", id=ids[1])
    found = verified(sends)
    assert (found.entries, found.broken) == (
        1,
        f"Audit row {ids[1]} is missing (entry 2 of the chain names it).",
    )


def test_no_later_commit_slips_in_before_what_is_sealed(sends: Sends, database_url: str) -> None:
    """A row of a transaction that is still open holds back the newer ones: they come after it, not before."""
    act = sends.act(sends.person("Ann"))
    other = Database(database_url)
    try:
        with other.engine.connect() as slow, slow.begin() as open_:
            slow.exec_driver_sql(
                """INSERT INTO nottwice.audit (role, act, entity, entity_id, outcome) VALUES ('policy', 'slow', 'action', 1, 'refused')"""
            )
            sends.decide(act, lambda tx: audit.refused(tx, act, "quick", "action", 2, "no"))
            assert sends.by_worker.run(audit.seal) == 0
            open_.commit()
    finally:
        other.close()
    assert seal_now(sends.by_worker) == 2
    order = sends.rows(
        "SELECT a.act FROM nottwice.audit_seals s JOIN nottwice.audit a ON a.id = s.audit_id ORDER BY s.sequence"
    )
    assert [row.act for row in order] == ["slow", "quick"]


def test_one_sealer_at_a_time(sends: Sends) -> None:
    entries(sends, 2)
    seal_now(sends.by_worker)
    entries(sends, 2)
    with sends.by_worker.engine.connect() as first, first.begin():
        first.exec_driver_sql("SELECT FROM nottwice.maintenance WHERE duty = 'seal' FOR UPDATE")
        assert sends.by_owner.run(audit.seal) == 0
    assert seal_now(sends.by_owner) == 2


def test_rows_from_before_a_restore_are_sealed(sends: Sends) -> None:
    """A dump keeps the numbers of transactions of the old server; the new one counts from the start."""
    entries(sends, 1)
    sends.sql("ALTER TABLE nottwice.audit DISABLE TRIGGER USER")
    sends.sql("UPDATE nottwice.audit SET transaction = '99999999999'")
    assert sends.by_worker.run(audit.seal) == 1
    assert verified(sends).broken is None


def test_what_waits_too_long_for_its_seal_is_counted(sends: Sends) -> None:
    entries(sends, 2)
    assert verified(sends).unsealed == 0
    sends.sql("ALTER TABLE nottwice.audit DISABLE TRIGGER USER")
    sends.sql("UPDATE nottwice.audit SET at = at - interval '2 min'")
    assert verified(sends).unsealed == 2


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────────


def test_the_listing_pages_by_id_newest_first(sends: Sends) -> None:
    ids = entries(sends, 5)
    page = sends.by_console.run(lambda tx: audit.listing(tx, limit=2), role=Role.AUDITOR)
    assert [row.id for row in page] == ids[:-3:-1]
    rest = sends.by_console.run(lambda tx: audit.listing(tx, before=page[-1].id), role=Role.AUDITOR)
    assert [row.id for row in rest] == ids[2::-1]
    one = sends.by_console.run(lambda tx: audit.listing(tx, entity="action", entity_id=3), role=Role.AUDITOR)
    assert [(row.id, row.who, row.sealed) for row in one] == [(ids[2], "Ann", False)]
