"""Set aside and handed back by a person: who may, what is fenced, what the record keeps, and who is told what."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import work
from ledger.database import Database, Transaction, sqlstate
from ledger.errors import AlreadyDecided, Declined, Incomplete, LeaseLost, NotAllowed, NotNow, Stale
from ledger.events import by_hand, order, recovery
from ledger.records import Act, Person, Role
from ledger.sign_in import people
from tests.fix_events import Ledger, worker

W = worker()
Deed = Callable[[Transaction, int, int, Act], int]


@pytest.fixture
def console(opened_as: Callable[[str], Database]) -> Database:
    return opened_as("nottwice_console")


def somebody(console: Database, role: Role = Role.ENGINEER, name: str = "Eva") -> Person:
    return console.run(lambda tx: people.person(tx, "local", name, name, "", role))


def acts(
    console: Database, deed: Deed, event_id: int, version: int, person: Person, why: str = "it hangs"
) -> int:
    act = Act(person, uuid4(), why)
    return console.run(lambda tx: deed(tx, event_id, version, act), role=person.role)


def attempts(book: Ledger, event_id: int) -> list[tuple[object, ...]]:
    return book.rows(
        "SELECT attempt, ending, worker FROM nottwice.event_attempts WHERE event_id = :id ORDER BY id",
        id=event_id,
    )


@pytest.mark.parametrize("claimed", [False, True])
def test_what_is_set_aside_waits_for_a_person(book: Ledger, console: Database, claimed: bool) -> None:
    (event_id,) = book.stored("a")
    lease = book.claim_one(W).lease if claimed else None
    row, eva = book.event(event_id), somebody(console)
    acts(console, by_hand.put_aside, event_id, row.version, eva)
    after = book.event(event_id)
    assert (after.state, after.version, after.claim_token) == ("failed", row.version + 1, None)
    assert after.last_error == by_hand.BY_HAND and after.ended_at is not None
    assert attempts(book, event_id) == ([(1, "put_aside", W.id)] if claimed else [])
    assert book.rows("SELECT act, entity_version, state_before, state_after, why FROM nottwice.audit") == [
        ("set aside", row.version + 1, row.state, "failed", "it hangs")
    ]
    if lease:
        with pytest.raises(LeaseLost):
            book.database.run(lambda tx: work.retry_later(tx, lease, delay_s=1, error="late"))
    assert book.claim(W) == [] and book.violations() == []
    acts(console, recovery.requeue, event_id, after.version, eva)
    assert book.claim_one(W).event.id == event_id


@pytest.mark.parametrize("expired", [False, True])
def test_what_is_handed_back_is_due_and_its_old_worker_can_end_nothing(
    book: Ledger, console: Database, expired: bool
) -> None:
    (event_id,) = book.stored("a")
    old = book.claim_one(W)
    if expired:
        book.expire(event_id)
    row = book.event(event_id)
    acts(console, by_hand.hand_back, event_id, row.version, somebody(console))
    after = book.event(event_id)
    assert (after.state, after.attempts, after.alone) == ("pending", 1, expired)
    assert attempts(book, event_id) == [(1, "taken_back", W.id)]
    assert book.complete(old) == set()
    assert book.database.run(lambda tx: work.renew(tx, [old.lease], lease_s=30)) == set()
    assert book.violations() == []
    again = book.claim_one(W, idle=True)
    assert again.attempt == 2 and book.complete(again) == {event_id}


def test_on_its_last_attempt_it_gets_one_more(book: Ledger, console: Database) -> None:
    (event_id,) = book.stored("a")
    book.claim_one(W)
    book.run("UPDATE nottwice.events SET attempts = attempts_max")
    acts(console, by_hand.hand_back, event_id, book.event(event_id).version, somebody(console))
    row = book.event(event_id)
    assert (row.state, row.attempts, row.attempts_max) == ("pending", 5, 6)


def test_who_waits_behind_one_that_was_set_aside_is_let_go(book: Ledger, console: Database) -> None:
    first, second = book.stored("a", "b", ordering_digest=b"\1" * 32)
    book.claim_one(W)
    assert book.claim(W) == [] and book.event(second).waits_behind == first
    acts(console, by_hand.put_aside, first, book.event(first).version, somebody(console))
    assert book.database.run(order.free_forgotten).freed == 1
    found = book.claim_one(W)
    assert (found.event.id, found.event.passed_over) == (second, first)


def test_one_that_is_lined_up_can_be_set_aside(book: Ledger, console: Database) -> None:
    _, second = book.stored("a", "b", ordering_digest=b"\1" * 32)
    book.claim_one(W)
    book.claim(W)
    acts(console, by_hand.put_aside, second, book.event(second).version, somebody(console))
    assert (book.event(second).state, book.event(second).waits_behind) == ("failed", 0)


@pytest.mark.parametrize("deed", [by_hand.put_aside, by_hand.hand_back])
@pytest.mark.parametrize("role", [Role.VIEWER, Role.SUPPORT, Role.AUDITOR])
def test_who_may_not_is_refused_by_the_ledger(
    book: Ledger, console: Database, deed: Deed, role: Role
) -> None:
    (event_id,) = book.stored("a")
    book.claim_one(W)
    row = book.event(event_id)
    with pytest.raises(NotAllowed, match="Engineer or admin"):
        acts(console, deed, event_id, row.version, somebody(console, role))
    assert book.event(event_id) == row


@pytest.mark.parametrize("role", Role)
def test_who_may_not_is_refused_by_the_database(book: Ledger, console: Database, role: Role) -> None:
    """Past the ledger's functions: without its audit row nobody ends a claim, and most roles not at all."""
    (event_id,) = book.stored("a")
    book.claim_one(W)
    for sql in (
        "SELECT nottwice.note_claim_ended_by_hand(:id, 'put_aside')",
        """UPDATE nottwice.events SET state = 'failed', ended_at = now(), claim_token = NULL, claimed_by = NULL, claimed_at = NULL,
                  lease_until = NULL, version = version + 1 WHERE id = :id""",
        "UPDATE nottwice.events SET waits_behind = 0 WHERE id = :id",
        "INSERT INTO nottwice.event_attempts (event_id, attempt, worker, token_digest, claimed_at, ending) "
        "VALUES (:id, 1, gen_random_uuid(), '', now(), 'put_aside')",
    ):
        with pytest.raises(DBAPIError) as refused:
            console.run(lambda tx, sql=sql: tx.execute(sql, id=event_id) and None, role=role)  # type: ignore[misc]
        assert sqlstate(refused.value) == "42501", sql
    assert book.event(event_id).state == "processing" and attempts(book, event_id) == []


CASES: list[tuple[str, Deed, type[Declined], str]] = [
    ("pending", by_hand.hand_back, NotNow, "No worker has it: it is pending."),
    ("failed", by_hand.put_aside, NotNow, "It is set aside already."),
    ("completed", by_hand.put_aside, NotNow, "It is completed already."),
    ("completed", by_hand.hand_back, NotNow, "No worker has it: it is completed."),
]


@pytest.mark.parametrize(("state", "deed", "error", "words"), CASES)
def test_what_does_not_fit_its_state_is_refused(
    book: Ledger, console: Database, state: str, deed: Deed, error: type[Declined], words: str
) -> None:
    (event_id,) = book.stored("a")
    if state != "pending":
        ending = "'done'" if state == "completed" else "NULL"
        book.run(
            f"UPDATE nottwice.events SET state = '{state}', due_at = NULL, ended_at = now(), ending = {ending}"
        )
    row = book.event(event_id)
    with pytest.raises(error, match=words):
        acts(console, deed, event_id, row.version, somebody(console))
    assert book.event(event_id) == row and book.value("SELECT count(*) FROM nottwice.audit") == 0


def test_a_recompute_is_cancelled_not_set_aside(book: Ledger, console: Database) -> None:
    (event_id,) = book.stored("a")
    book.run("UPDATE nottwice.events SET mode = 'recompute'")
    with pytest.raises(NotNow, match="Cancel that run instead"):
        acts(console, by_hand.put_aside, event_id, 1, somebody(console))


@pytest.mark.parametrize("deed", [by_hand.put_aside, by_hand.hand_back])
def test_without_a_reason_nothing_is_done(book: Ledger, console: Database, deed: Deed) -> None:
    (event_id,) = book.stored("a")
    book.claim_one(W)
    with pytest.raises(Incomplete, match="Please say why"):
        acts(console, deed, event_id, book.event(event_id).version, somebody(console), why=" ")


def test_a_stale_page_changes_nothing(book: Ledger, console: Database) -> None:
    (event_id,) = book.stored("a")
    claimed, version = book.claim_one(W), book.event(event_id).version
    book.complete(claimed)
    with pytest.raises(Stale, match="it is completed now"):
        acts(console, by_hand.hand_back, event_id, version, somebody(console))
    with pytest.raises(NotNow, match="nothing here"):
        acts(console, by_hand.hand_back, 999, 1, somebody(console))


def test_the_loser_is_told_who_was_first(book: Ledger, console: Database) -> None:
    (event_id,) = book.stored("a")
    book.claim_one(W)
    version, eva, bo = book.event(event_id).version, somebody(console), somebody(console, Role.ADMIN, "Bo")
    acts(console, by_hand.put_aside, event_id, version, eva)
    with pytest.raises(AlreadyDecided, match="Eva was first: set aside") as lost:
        acts(console, by_hand.hand_back, event_id, version, bo)
    assert not lost.value.same_form


def test_ui_05_the_same_form_twice_is_one_act(book: Ledger, console: Database) -> None:
    (event_id,) = book.stored("a")
    book.claim_one(W)
    act, version = Act(somebody(console), uuid4(), "it hangs"), book.event(event_id).version
    for twin in (False, True):
        with pytest.raises(AlreadyDecided) if twin else nullcontext() as told:
            console.run(lambda tx: by_hand.hand_back(tx, event_id, version, act), role=Role.ENGINEER)
    assert told.value.same_form  # type: ignore[union-attr]
    assert book.value("SELECT count(*) FROM nottwice.audit") == 1


def test_a_worker_that_completes_at_the_same_instant_wins_or_loses_whole(
    book: Ledger, console: Database, crowd: Callable[[int], object]
) -> None:
    """Twenty rounds: either it is done and the person is told, or it is set aside and the worker's group lacks it."""
    two, eva = crowd(2), somebody(console)
    for n in range(20):
        (event_id,) = book.stored(f"race {n}")
        claimed, version = book.claim_one(W), book.event(event_id).version
        done, aside = two.at_once(  # type: ignore[attr-defined]
            [
                lambda claimed=claimed: book.complete(claimed),
                lambda e=event_id, v=version: acts(console, by_hand.put_aside, e, v, eva),
            ]
        )
        state = book.event(event_id).state
        assert (state, done, isinstance(aside, int)) in (
            ("completed", {event_id}, False),
            ("failed", set(), True),
        ), (state, done, aside)
    assert book.violations() == []
