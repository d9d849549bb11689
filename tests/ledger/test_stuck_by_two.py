"""Many events take two people: who may ask and agree, what the database holds by itself, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import audit
from ledger.database import Database, Transaction, sqlstate
from ledger.errors import AlreadyDecided, Incomplete, NotAllowed, NotNow, Stale
from ledger.events import by_two, recovery
from ledger.events.by_two import TRY_AGAIN, Request
from ledger.records import Act, Person, Role
from ledger.sign_in import people
from tests.fix_events import Ledger

ABOVE = 3


@pytest.fixture
def console(opened_as: Callable[[str], Database], book: Ledger) -> Database:
    book.run("INSERT INTO nottwice.reprocess_limit (second_person_above) VALUES (:n)", n=ABOVE)
    return opened_as("nottwice_console")


def somebody(console: Database, name: str, role: Role = Role.ENGINEER) -> Person:
    return console.run(lambda tx: people.person(tx, "local", name, name, "", role))


def failed(book: Ledger, n: int) -> list[tuple[int, int]]:
    """So many that are set aside, each with its version."""
    ids = book.stored(*(f"k{i}" for i in range(n)))
    book.run("UPDATE nottwice.events SET state = 'failed', due_at = NULL, ended_at = now(), attempts = 5")
    return [(id_, 1) for id_ in sorted(ids)]


def act(person: Person, why: str = "the shop answers") -> Act:
    return Act(person, uuid4(), why)


def asked(console: Database, person: Person, rows: list[tuple[int, int]]) -> int:
    return console.run(
        lambda tx: by_two.ask(tx, TRY_AGAIN, rows, act(person), expires_s=60), role=person.role
    )


def agreed(console: Database, person: Person, request_id: int) -> Request:
    return console.run(lambda tx: by_two.agree(tx, request_id, act(person)), role=person.role)


def alone(console: Database, person: Person, row: tuple[int, int]) -> int:
    return console.run(lambda tx: recovery.requeue(tx, *row, act(person)), role=person.role)


def test_c9_the_database_counts_one_persons_acts_of_the_hour(book: Ledger, console: Database) -> None:
    rows, eva, bo = failed(book, 6), somebody(console, "Eva"), somebody(console, "Bo", Role.ADMIN)
    for row in rows[:ABOVE]:
        assert not console.run(lambda tx: by_two.second_because(tx, eva, 1), role=eva.role)
        alone(console, eva, row)
    because = console.run(lambda tx: by_two.second_because(tx, eva, 2), role=eva.role)
    assert because == (
        "These are 2 events, and you acted on 3 within the hour: together more than 3. A second person must agree."
    )
    with pytest.raises(DBAPIError) as refused:
        alone(console, eva, rows[3])
    assert sqlstate(refused.value) == "42501" and book.event(rows[3][0]).state == "failed"
    alone(console, bo, rows[4])  # each person has a number of their own
    book.run("ALTER TABLE nottwice.audit DISABLE TRIGGER USER")
    book.run("UPDATE nottwice.audit SET at = at - interval '61 min'")
    book.run("ALTER TABLE nottwice.audit ENABLE TRIGGER USER")
    alone(console, eva, rows[3])


def test_c9_another_person_agrees_and_carries_the_list_out(book: Ledger, console: Database) -> None:
    """What changed since it was asked is left alone; each has its own row in the audit, in the second one's name."""
    rows, eva, bo = failed(book, 6), somebody(console, "Eva"), somebody(console, "Bo")
    request_id = asked(console, eva, rows)
    assert [one.id for one in console.run(by_two.waiting, role=eva.role)] == [request_id]
    with pytest.raises(NotAllowed, match="You asked for this yourself"):
        agreed(console, eva, request_id)
    book.run("UPDATE nottwice.events SET version = version + 1 WHERE id = :id", id=rows[2][0])
    request = agreed(console, bo, request_id)
    assert (request.rows, request.asked_by, request.act) == (tuple(rows), "Eva", TRY_AGAIN)
    for event_id, version in request.rows:
        try:
            console.run(
                lambda tx, r=(event_id, version): by_two.carry_out(tx, request, *r, act(bo)), role=bo.role
            )  # type: ignore[misc]
        except Stale:
            assert event_id == rows[2][0]
    assert book.value("SELECT count(*) FROM nottwice.events WHERE state = 'pending'") == 5
    assert book.rows("SELECT act, entity, detail FROM nottwice.audit ORDER BY id")[:3] == [
        ("asked a second person: try again", "request", "6 events"),
        ("agreed: try again", "request", "6 events"),
        ("try again", "event", f"request {request_id}"),
    ]
    assert console.run(lambda tx: by_two.second_because(tx, bo, ABOVE), role=bo.role) == ""
    with pytest.raises(AlreadyDecided, match="Bo was first"):
        agreed(console, somebody(console, "Cy"), request_id)


@pytest.mark.parametrize(
    "how", ["not agreed", "of another list", "somebody else's", "another act", "long ago", "another version"]
)
def test_nobody_carries_out_what_was_not_agreed(book: Ledger, console: Database, how: str) -> None:
    """Whatever the entry's detail claims: the database looks at the request."""
    rows, eva, bo = failed(book, 2), somebody(console, "Eva"), somebody(console, "Bo")
    request_id = asked(console, eva, rows[:1] if how == "of another list" else rows)
    if how != "not agreed":
        agreed(console, bo, request_id)
    if how == "long ago":
        book.run("ALTER TABLE nottwice.stuck_requests DISABLE TRIGGER USER")
        book.run("UPDATE nottwice.stuck_requests SET decided_at = now() - interval '61 min'")
        book.run("ALTER TABLE nottwice.stuck_requests ENABLE TRIGGER USER")
    who = eva if how in ("somebody else's", "not agreed") else bo
    claimed = "set aside" if how == "another act" else "try again"
    event_id, version = rows[1]
    with pytest.raises(DBAPIError) as refused:
        console.run(
            lambda tx: audit.done(
                tx, act(who), claimed, "event", event_id,
                version=version + (2 if how == "another version" else 1), before="failed", after="pending",
                detail=f"request {request_id}",
            ),
            role=who.role,
        )  # fmt: skip
    assert sqlstate(refused.value) == "42501"


def test_a_request_without_its_audit_row_is_none(book: Ledger, console: Database) -> None:
    eva = somebody(console, "Eva")
    request_id = asked(console, eva, failed(book, 1))
    for sql in (
        """INSERT INTO nottwice.stuck_requests (act, event_ids, versions, why, requested_by, expires_at)
           VALUES ('try again', '{1}', '{1}', 'x', :eva, now())""",
        """UPDATE nottwice.stuck_requests SET decision = 'disagreed', decided_by = :eva, decided_at = now(), version = 2
           WHERE id = :id""",
    ):
        with pytest.raises(DBAPIError) as refused:
            console.run(
                lambda tx, sql=sql: tx.execute(sql, eva=eva.id, id=request_id) and None, role=eva.role
            )  # type: ignore[misc]
        assert sqlstate(refused.value) == "42501"


def test_who_agrees_is_never_who_asked_whatever_the_ledger_says(book: Ledger, console: Database) -> None:
    eva = somebody(console, "Eva")
    request_id = asked(console, eva, failed(book, 1))
    with pytest.raises(DBAPIError) as refused:
        book.run(
            """UPDATE nottwice.stuck_requests SET decision = 'agreed', decided_by = requested_by, decided_at = now(), version = 2
               WHERE id = :id""",
            id=request_id,
        )
    assert "who_agrees_to_many_is_somebody_else" in str(refused.value)


def test_a_request_is_declined_withdrawn_or_runs_out(book: Ledger, console: Database) -> None:
    rows, eva, bo = failed(book, 1), somebody(console, "Eva"), somebody(console, "Bo")
    for who, decision in ((eva, "withdrawn"), (bo, "disagreed")):
        request_id = asked(console, eva, rows)
        console.run(lambda tx, r=request_id, w=who: by_two.decline(tx, r, act(w)), role=who.role)  # type: ignore[misc]
        assert (
            book.value("SELECT decision FROM nottwice.stuck_requests WHERE id = :id", id=request_id)
            == decision
        )
    request_id = asked(console, eva, rows)
    book.run("UPDATE nottwice.stuck_requests SET expires_at = now() WHERE decision IS NULL")
    with pytest.raises(NotNow, match="has run out"):
        agreed(console, bo, request_id)
    assert console.run(by_two.waiting, role=bo.role) == []


def test_by_sql_a_request_is_answered_once_in_time_and_now(book: Ledger, console: Database) -> None:
    """With an audit row that says so, too: a second answer, one that comes late, and one that reaches ahead."""
    rows, eva, bo = failed(book, 1), somebody(console, "Eva"), somebody(console, "Bo")
    declined, late, early = (asked(console, eva, rows) for _ in range(3))
    console.run(lambda tx: by_two.decline(tx, declined, act(bo)), role=bo.role)
    book.run("UPDATE nottwice.stuck_requests SET expires_at = now() WHERE id = :id", id=late)
    for request_id, version, when in (
        (declined, 3, "0 s"),
        (late, 2, "0 s"),
        (early, 2, "10 years"),
        (early, 3, "0 s"),
    ):
        with pytest.raises(DBAPIError, match="answered once, and in time") as refused:
            console.run(lambda tx, r=request_id, v=version, w=when: _answers(tx, bo, r, v, w), role=bo.role)  # type: ignore[misc]
        assert sqlstate(refused.value) == "42501"
    assert book.value("SELECT count(*) FROM nottwice.stuck_requests WHERE decision = 'agreed'") == 0
    console.run(lambda tx: _answers(tx, bo, early, 2, "0 s"), role=bo.role)


def _answers(tx: Transaction, person: Person, request_id: int, version: int, ahead: str) -> None:
    audit.done(
        tx, act(person), "agreed: try again", "request", request_id, version=version, before="waiting", after="agreed"
    )  # fmt: skip
    tx.execute(
        """UPDATE nottwice.stuck_requests SET decision = 'agreed', decided_by = :person, version = :version,
                  decided_at = now() + CAST(:ahead AS interval) WHERE id = :id""",
        id=request_id, person=person.id, version=version, ahead=ahead,
    )  # fmt: skip


def test_c9_no_act_on_an_event_goes_uncounted_under_another_name(book: Ledger, console: Database) -> None:
    rows, eva = failed(book, ABOVE + 1), somebody(console, "Eva")
    for word in ("whatever", "Try again", "recompute"):
        with pytest.raises(DBAPIError, match="no person changes an event by such an act") as refused:
            console.run(lambda tx, w=word: _named(tx, w, rows, act(eva)), role=eva.role)  # type: ignore[misc]
        assert sqlstate(refused.value) == "42501"
    assert book.value("SELECT count(*) FROM nottwice.audit") == 0


def _named(tx: Transaction, word: str, rows: list[tuple[int, int]], doing: Act) -> None:
    for event_id, version in rows:
        audit.done(
            tx, doing, word, "event", event_id, version=version + 1, before="failed", after="failed", further=True
        )  # fmt: skip
    tx.execute(
        "UPDATE nottwice.events SET version = version + 1 WHERE id = ANY (:ids)", ids=[n for n, _ in rows]
    )


def test_c9_who_agreed_and_was_interrupted_carries_on_within_the_hour(
    book: Ledger, console: Database
) -> None:
    rows, eva, bo = failed(book, 4), somebody(console, "Eva"), somebody(console, "Bo")
    request_id = asked(console, eva, rows)
    request = agreed(console, bo, request_id)
    console.run(lambda tx: by_two.carry_out(tx, request, *rows[0], act(bo)), role=bo.role)
    book.run("UPDATE nottwice.events SET version = version + 1 WHERE id = :id", id=rows[1][0])
    left = agreed(console, bo, request_id)
    assert (left.rows, left.behind, request.behind) == (tuple(rows[2:]), 2, None)
    assert console.run(lambda tx: by_two.unfinished(tx, bo), role=bo.role) == [left]
    assert console.run(lambda tx: by_two.unfinished(tx, eva), role=eva.role) == []
    for who in (eva, somebody(console, "Cy")):
        with pytest.raises(AlreadyDecided, match="Bo was first"):
            agreed(console, who, request_id)
    for row in left.rows:
        console.run(lambda tx, r=row: by_two.carry_out(tx, left, *r, act(bo)), role=bo.role)  # type: ignore[misc]
    assert console.run(lambda tx: by_two.unfinished(tx, bo), role=bo.role) == []
    with pytest.raises(AlreadyDecided, match="Bo was first"):
        agreed(console, bo, request_id)
    assert book.value("SELECT count(*) FROM nottwice.audit WHERE entity = 'request'") == 2


def test_nobody_carries_on_after_the_hour(book: Ledger, console: Database) -> None:
    rows, eva, bo = failed(book, 1), somebody(console, "Eva"), somebody(console, "Bo")
    request_id = asked(console, eva, rows)
    agreed(console, bo, request_id)
    book.run("UPDATE nottwice.stuck_requests SET decided_at = now() - interval '61 min'")
    assert console.run(lambda tx: by_two.unfinished(tx, bo), role=bo.role) == []
    with pytest.raises(AlreadyDecided, match="Bo was first"):
        agreed(console, bo, request_id)


def test_c9_one_human_signed_in_another_way_is_no_second_person(book: Ledger, console: Database) -> None:
    """By the ledger in words, and by the database, whatever the ledger says."""
    bo = console.run(lambda tx: people.person(tx, "local", "bo", "Bo", "Bo@Example.com", Role.ENGINEER))
    twin = console.run(
        lambda tx: people.person(tx, "https://id.example", "7", "Bo L", "bo@example.COM ", Role.ADMIN)
    )
    request_id = asked(console, bo, failed(book, 1))
    with pytest.raises(NotAllowed, match="signed in another way with the same e-mail address"):
        agreed(console, twin, request_id)
    with pytest.raises(DBAPIError, match="under another sign-in") as refused:
        console.run(lambda tx: _answers(tx, twin, request_id, 2, "0 s"), role=twin.role)
    assert sqlstate(refused.value) == "42501"
    agreed(console, somebody(console, "Eva"), request_id)


def test_what_cannot_be_asked(book: Ledger, console: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, eva = failed(book, 2), somebody(console, "Eva")
    with pytest.raises(NotAllowed, match="Engineer or admin"):
        asked(console, somebody(console, "Ana", Role.SUPPORT), rows)
    with pytest.raises(Incomplete, match="say why"):
        console.run(lambda tx: by_two.ask(tx, TRY_AGAIN, rows, act(eva, " "), expires_s=60), role=eva.role)
    monkeypatch.setattr(by_two, "LISTED_MAX", 1)
    for wrong in (rows, []):
        with pytest.raises(NotNow, match="names 1 to 1 events"):
            asked(console, eva, wrong)


@pytest.mark.parametrize("wrong", [0, -5, 999_999, 2**62, 2**63, 2**70])
def test_a_request_names_events_that_exist_each_once(book: Ledger, console: Database, wrong: int) -> None:
    rows, eva = failed(book, 2), somebody(console, "Eva")
    with pytest.raises(NotNow, match=f"Event {wrong} does not exist"):
        asked(console, eva, [*rows, (wrong, 1)])
    with pytest.raises(NotNow, match="stands on this list twice"):
        asked(console, eva, [*rows, rows[0]])
    assert book.value("SELECT count(*) FROM nottwice.stuck_requests") == 0
