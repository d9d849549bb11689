"""What brings stuck events back: the sweep's rescue and a person's requeue; and the query that finds the forgotten."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from ledger import audit, work
from ledger.database import Database, Transaction
from ledger.errors import AlreadyDecided, NotAllowed, NotNow, Stale
from ledger.events import recovery
from ledger.records import Act, Person, Role
from ledger.sign_in import people
from tests.fix_events import Ledger, worker

W = worker()


# ── Rescue ────────────────────────────────────────────────────────────────────────────────────────────


def test_rescue_takes_expired_claims_and_no_others(book: Ledger) -> None:
    book.stored("dead", "alive")
    (other,) = book.stored("waiting")
    dead, alive = (one.event.id for one in book.claim(W, 2))
    book.expire(dead)
    assert book.rescue() == {dead: "pending"}
    row = book.event(dead)
    assert (row.state, row.alone, row.attempts, row.claim_token) == ("pending", True, 1, None)
    assert "no sign until the lease ran out" in row.last_error
    assert (book.event(alive).state, book.event(other).alone) == ("processing", False)
    ended = book.rows("SELECT event_id, attempt, worker, ending FROM nottwice.event_attempts")
    assert ended == [(dead, 1, W.id, "rescued")]
    assert book.rescue() == {}
    assert book.value("SELECT sum(n) FROM nottwice.counters WHERE metric = 'rescued'") == 1


def test_a_worker_keeps_crashing_on_one_event(book: Ledger) -> None:
    """Set aside at the attempt limit; the events that were claimed beside it the first time are not."""
    book.stored("killer", "n1", "n2")
    killer, *beside = (one.event.id for one in book.claim(W))
    book.expire(killer, *beside)
    assert set(book.rescue().values()) == {"pending"}
    for attempt in range(2, 6):
        while (one := book.claim_one(W, idle=True)).event.id != killer:
            book.complete(one)
        assert one.attempt == attempt and book.claim(W) == []  # nothing that is not alone
        book.expire(killer)
        assert book.rescue() == {killer: "failed" if attempt == 5 else "pending"}
    row = book.event(killer)
    assert (row.state, row.attempts) == ("failed", 5) and "last attempt" in row.last_error
    assert {book.event(event_id).state for event_id in beside} == {"completed"}
    assert {book.event(event_id).attempts for event_id in beside} == {2}


def test_completion_forgets_that_an_event_was_rescued(book: Ledger) -> None:
    (event_id,) = book.stored("a")
    book.claim(W)
    book.expire(event_id)
    book.rescue()
    book.complete(book.claim_one(W, idle=True))
    row = book.event(event_id)
    assert (row.alone, row.last_error) == (False, None)


def test_rescue_in_small_bites_reaches_everybody(book: Ledger) -> None:
    ids = book.stored(*(f"k{n}" for n in range(25)))
    book.claim(W, 25)
    book.expire(*ids)
    assert [len(book.rescue(10)) for _ in range(4)] == [10, 10, 5, 0]


def test_a_batch_full_of_locked_rows_does_not_hide_the_rest(book: Ledger, many: Ledger) -> None:
    ids = book.stored(*(f"k{n}" for n in range(6)))
    book.claim(W)
    book.expire(*ids)
    first = sorted(ids)[:4]
    with book.database.transaction() as tx:
        tx.execute("SELECT FROM nottwice.events WHERE id = ANY (:ids) FOR NO KEY UPDATE", ids=first)
        with many.database.engine.connect() as other:
            sweep = Transaction(other)
            sweep.execute("SET LOCAL lock_timeout = '1s'")  # it must not wait
            rescued = work.rescue(sweep, limit=4)
            other.commit()
    assert {one.id for one in rescued} == set(ids) - set(first)


# ── Requeue ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def console(opened_as: Callable[[str], Database]) -> Database:
    return opened_as("nottwice_console")


def somebody(console: Database, name: str, role: Role = Role.ENGINEER) -> Person:
    return console.run(lambda tx: people.person(tx, "local", name, name.title(), f"{name}@example.com", role))


def act(person: Person) -> Act:
    return Act(person, uuid4(), "the bug is fixed", ("its error",))


def requeue(console: Database, event_id: int, version: int, decision: Act) -> int:
    return console.run(lambda tx: work.requeue(tx, event_id, version, decision), role=decision.person.role)


def failed(book: Ledger, key: str = "a") -> tuple[int, int]:
    """The id and version of an event that was set aside."""
    book.stored(key)
    one = book.claim_one(W)
    book.database.run(lambda tx: work.set_aside(tx, one.lease, error="no"))
    return one.event.id, book.event(one.event.id).version


@pytest.mark.parametrize("role", [Role.ENGINEER, Role.ADMIN])
def test_requeue_raises_the_limit_and_rewinds_nothing(book: Ledger, console: Database, role: Role) -> None:
    event_id, version = failed(book)
    ana = somebody(console, "ana", role)
    audit_id = requeue(console, event_id, version, act(ana))
    row = book.event(event_id)
    assert (row.state, row.attempts, row.attempts_max, row.version) == ("pending", 1, 10, version + 1)
    assert (row.ended_at, row.last_error) == (None, "no")
    assert book.claim_one(W).attempt == 2
    ((who, what, before, after, at_version, why),) = book.rows(
        """SELECT person_id, act, state_before, state_after, entity_version, why FROM nottwice.audit WHERE id = :id""",
        id=audit_id,
    )
    assert (who, what, before, after, at_version) == (ana.id, "try again", "failed", "pending", version + 1)
    assert why == "the bug is fixed"


def test_requeue_gives_attempts_to_one_that_used_them_all(book: Ledger, console: Database) -> None:
    (event_id,) = book.stored("a")
    for _ in range(5):
        one = book.claim_one(W)
        book.database.run(lambda tx, one=one: work.fail(tx, one, error="no", base_s=0.0, chance=0.0))
    requeue(console, event_id, book.event(event_id).version, act(somebody(console, "ana")))
    one = book.claim_one(W)
    assert (one.attempt, one.attempts_max) == (6, 10)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SUPPORT, Role.AUDITOR])
def test_other_roles_are_refused_by_the_ledger_and_by_the_database(
    book: Ledger, console: Database, role: Role, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_id, version = failed(book)
    person = somebody(console, "ana", role)
    with pytest.raises(NotAllowed):
        requeue(console, event_id, version, act(person))
    monkeypatch.setattr(recovery, "REQUEUERS", frozenset(Role))
    with pytest.raises(Exception, match="permission denied"):
        requeue(console, event_id, version, act(person))
    assert book.event(event_id).version == version
    assert book.value("SELECT count(*) FROM nottwice.audit") == 0


def test_requeue_refuses_what_changed_since(book: Ledger, console: Database) -> None:
    event_id, version = failed(book)
    ana = somebody(console, "ana")
    with pytest.raises(Stale, match="changed while you had it open"):
        requeue(console, event_id, version - 1, act(ana))
    with pytest.raises(NotNow, match="gone"):
        requeue(console, event_id + 1000, version, act(ana))
    (waiting,) = book.stored("waiting")
    with pytest.raises(NotNow, match="it is pending"):
        requeue(console, waiting, book.event(waiting).version, act(ana))
    assert book.value("SELECT count(*) FROM nottwice.audit") == 0


def test_the_second_person_is_told_who_was_first(book: Ledger, console: Database) -> None:
    event_id, version = failed(book)
    requeue(console, event_id, version, act(somebody(console, "ana")))
    with pytest.raises(AlreadyDecided, match="Ana was first: try again") as told:
        requeue(console, event_id, version, act(somebody(console, "bo")))
    assert (told.value.who, told.value.same_form) == ("Ana", False)


def test_the_same_form_twice_is_one_decision(book: Ledger, console: Database) -> None:
    event_id, version = failed(book)
    once = act(somebody(console, "ana"))
    requeue(console, event_id, version, once)
    with pytest.raises(AlreadyDecided) as told:
        requeue(console, event_id, version, once)
    assert told.value.same_form
    assert book.value("SELECT count(*) FROM nottwice.audit WHERE outcome = 'done'") == 1


def test_aud_01_no_requeue_without_its_audit_row(
    book: Ledger, console: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the database: a function that forgot the audit changes nothing."""
    event_id, version = failed(book)
    ana = somebody(console, "ana")
    monkeypatch.setattr(audit, "done", lambda *_, **__: 0)
    with pytest.raises(Exception, match="no change without its audit row"):
        requeue(console, event_id, version, act(ana))
    assert (book.event(event_id).state, book.event(event_id).version) == ("failed", version)


# ── Violations ────────────────────────────────────────────────────────────────────────────────────────


def test_r5_a_lease_that_ran_out_belongs_to_nobody(book: Ledger) -> None:
    (event_id,) = book.stored("a")
    assert book.violations() == []
    book.claim(W)
    assert book.violations() == []
    book.expire(event_id)
    assert book.violations() == [f"event {event_id} is processing"]
    assert book.database.run(lambda tx: work.invariant_violations(tx, late_s=60.0)) == []
    book.rescue()
    assert book.violations() == []


@pytest.mark.leaves_rows
@pytest.mark.parametrize(
    "damage",
    [
        "state = 'pending', due_at = NULL",
        "state = 'pending', due_at = now(), attempts = attempts_max",
        "state = 'processing', due_at = NULL",
        "state = 'completed', due_at = NULL",
        "state = 'failed', due_at = NULL",
    ],
)
def test_r5_finds_rows_that_the_constraints_would_not_let_in(database: Database, damage: str) -> None:
    book = Ledger(database)
    (event_id,) = book.stored("a")
    constraints = book.rows(
        "SELECT conname FROM pg_constraint WHERE conrelid = CAST('nottwice.events' AS regclass) AND contype = 'c'"
    )
    for (name,) in constraints:
        book.run(f"ALTER TABLE nottwice.events DROP CONSTRAINT {name}")
    book.run(f"UPDATE nottwice.events SET {damage}")
    (found,) = book.violations()
    assert found.startswith(f"event {event_id} is")
