"""Fifty rounds behind a barrier for each pair of functions that can meet on one event."""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import uuid4

import pytest

from ledger import work
from ledger.database import Transaction
from ledger.errors import LeaseLost
from ledger.figures import counters
from ledger.records import ClaimedEvent, EventLease, Rescued
from tests.fix_events import WAIT_S, Crowd, Ledger, worker
from tests.ledger.test_inbox_races import say_again

ROUNDS = 50
W = worker()
Crowds = Callable[[int], Crowd]


def complete(book: Ledger, *claimed: ClaimedEvent) -> set[int]:
    """By a connection of its own, as far as counters go."""
    leases = [one.lease for one in claimed]
    return {
        lease.event_id for lease in book.database.run(lambda tx: work.complete(tx, leases, writer=uuid4()))
    }


def rescue(book: Ledger) -> list[Rescued]:
    return book.database.run(work.rescue)


def test_claim_against_claim(many: Ledger, crowd: Crowds) -> None:
    """Eight workers, ten events: each event has exactly one owner, and none is left over in the end."""
    together, workers = crowd(8), [worker(name=str(n)) for n in range(8)]
    for turn in range(ROUNDS):
        ids = many.stored(*(f"{turn} {n}" for n in range(10)))
        taken = together.at_once([lambda w=w: many.claim(w, 3) for w in workers])
        got = [one for claimed in taken if not isinstance(claimed, Exception) for one in claimed]
        assert [error for error in taken if isinstance(error, Exception)] == []
        assert len({one.event.id for one in got}) == len(got)
        got += many.claim(W, 10)  # who offered a row and did not take it had it locked for that moment
        assert sorted(one.event.id for one in got) == sorted(ids)
        assert complete(many, *got) == set(ids)


def test_four_workers_share_sixty_events(many: Ledger, crowd: Crowds) -> None:
    together, workers = crowd(4), [worker(name=str(n)) for n in range(4)]
    many.run("CREATE TABLE public.effects (event_id bigint)")

    def work_until_empty(n: int) -> int:
        done = 0
        while many.value("SELECT count(*) FROM nottwice.events WHERE state = 'pending'"):
            for one in many.claim(workers[n], 3):
                many.database.run(lambda tx, one=one: handle(tx, one))
                done += 1
        return done

    def handle(tx: Transaction, one: ClaimedEvent) -> None:
        assert work.complete(tx, [one.lease], writer=uuid4()) == {one.lease}
        tx.execute("INSERT INTO public.effects VALUES (:id)", id=one.event.id)

    ids = many.stored(*(f"e{n}" for n in range(60)))
    done = together.at_once([lambda n=n: work_until_empty(n) for n in range(4)])
    assert sum(n for n in done if isinstance(n, int)) == 60
    assert sorted(id_ for (id_,) in many.rows("SELECT event_id FROM public.effects")) == sorted(ids)


def test_complete_against_rescue(many: Ledger, crowd: Crowds) -> None:
    """Never a completed event that runs again, never a rescued one that counts as done."""
    together = crowd(3)
    for turn in range(ROUNDS):
        (event_id,) = many.stored(str(turn))
        one = many.claim_one(W)
        many.expire(event_id)
        done, *rescues = together.at_once([lambda one=one: complete(many, one), *[lambda: rescue(many)] * 2])
        times = sum(len(rescued) for rescued in rescues if isinstance(rescued, list))
        row = many.event(event_id)
        assert (done, times, row.state, row.alone) in [
            ({event_id}, 0, "completed", False),
            (set(), 1, "pending", True),
        ]
        many.run("DELETE FROM nottwice.event_attempts")
        many.run("UPDATE nottwice.events SET due_at = now() + interval '1 h' WHERE state = 'pending'")


def test_a_rescue_that_read_before_a_completion_does_not_undo_it(many: Ledger, crowd: Crowds) -> None:
    """The completion holds the row while the sweep passes: skipped, and afterwards there is nothing to rescue."""
    (event_id,) = many.stored("a")
    one = many.claim_one(W)
    many.expire(event_id)
    held, passed = threading.Event(), threading.Event()

    def completing() -> None:
        with many.database.transaction() as tx:
            assert work.complete(tx, [one.lease], writer=many.writer)
            held.set()
            assert passed.wait(WAIT_S)

    def sweeping() -> list[Rescued]:
        assert held.wait(WAIT_S)
        try:
            return rescue(many)
        finally:
            passed.set()

    assert crowd(2).at_once([completing, sweeping]) == [None, []]
    assert rescue(many) == [] and many.event(event_id).state == "completed"


def test_a_completion_that_waited_for_a_rescue_is_refused(many: Ledger, crowd: Crowds) -> None:
    (event_id,) = many.stored("a")
    one = many.claim_one(W)
    many.expire(event_id)
    rescued = threading.Event()

    def sweeping() -> None:
        with many.database.transaction() as tx:
            assert work.rescue(tx)
            rescued.set()
            many.until_somebody_waits()

    def completing() -> set[int]:
        assert rescued.wait(WAIT_S)
        return complete(many, one)

    assert crowd(2).at_once([sweeping, completing]) == [None, set()]
    assert many.event(event_id).state == "pending"


def test_a_late_completion_against_the_new_owners(many: Ledger, crowd: Crowds) -> None:
    """After reassignment: the old worker completes, fails and renews while the new one completes."""
    together = crowd(4)
    for turn in range(ROUNDS):
        (event_id,) = many.stored(str(turn))
        old = many.claim_one(W)
        many.expire(event_id)
        rescue(many)
        new = many.claim_one(worker(name="new"), idle=True)
        results = together.at_once(
            [
                lambda old=old: complete(many, old),
                lambda old=old: many.database.run(lambda tx: work.set_aside(tx, old.lease, error="stale")),
                lambda old=old: many.database.run(lambda tx: work.renew(tx, [old.lease], lease_s=900)),
                lambda new=new: complete(many, new),
            ]
        )
        assert results[0] == set() and isinstance(results[1], LeaseLost) and results[2] == set()
        assert results[3] == {event_id}
        row = many.event(event_id)
        assert (row.state, row.attempts) == ("completed", 2)


def test_renew_against_rescue(many: Ledger, crowd: Crowds) -> None:
    """A lease that ends about now: whoever is first, it is either renewed or rescued."""
    together = crowd(2)
    for turn in range(ROUNDS):
        (event_id,) = many.stored(str(turn))
        one = many.claim_one(W)
        many.run(
            "UPDATE nottwice.events SET lease_until = clock_timestamp() + interval '3 ms' WHERE id = :id",
            id=event_id,
        )
        renewed, rescued = together.at_once(
            [
                lambda one=one: many.database.run(lambda tx: work.renew(tx, [one.lease], lease_s=900)),
                lambda: rescue(many),
            ]
        )
        row = many.event(event_id)
        if rescued:
            assert row.state == "pending"
        elif renewed:
            assert row.state == "processing"
        assert isinstance(renewed, set) and isinstance(rescued, list)
        many.run("UPDATE nottwice.events SET lease_until = now() + interval '1 h' WHERE state = 'processing'")
        many.run("UPDATE nottwice.events SET due_at = now() + interval '1 h' WHERE state = 'pending'")


def test_groups_in_opposite_order_do_not_deadlock(many: Ledger, crowd: Crowds) -> None:
    """Two groups that both think they hold the same events; without the retry of `run`, so that a deadlock would show."""
    together = crowd(4)
    for turn in range(ROUNDS):
        many.stored(*(f"{turn} {n}" for n in range(20)))
        claimed = many.claim(W, 20)

        def end(leases: list[EventLease]) -> set[EventLease]:
            with many.database.transaction() as tx:
                return work.complete(tx, leases, writer=uuid4())

        def beat(leases: list[EventLease]) -> set[EventLease]:
            with many.database.transaction() as tx:
                return work.renew(tx, leases, lease_s=60)

        leases = [one.lease for one in claimed]
        backwards = leases[::-1]
        ended = together.at_once(
            [
                lambda leases=leases, end=end: end(leases),
                lambda backwards=backwards, end=end: end(backwards),
                lambda leases=leases, beat=beat: beat(leases),
                lambda backwards=backwards, beat=beat: beat(backwards),
            ]
        )
        assert [error for error in ended if isinstance(error, Exception)] == []
        assert sorted(len(done) for done in ended[:2] if isinstance(done, set)) == [0, 20]


def test_counters_of_writers_never_meet(many: Ledger, crowd: Crowds) -> None:
    """One transaction holds its counter open; another writer counts the same metric without waiting."""
    with many.database.transaction() as tx:
        counters.bump(tx, uuid4(), "acme", "completed")
        (passed,) = crowd(1).at_once(
            [lambda: many.database.run(lambda tx: impatient(tx))],
        )
    assert passed is None
    assert many.value("SELECT sum(n) FROM nottwice.counters") == 2


def impatient(tx: Transaction) -> None:
    tx.execute("SET LOCAL lock_timeout = '50ms'")
    counters.bump(tx, uuid4(), "acme", "completed")


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_dbx_03_claim_goes_through_on_the_third_try(book: Ledger, code: str) -> None:
    (event_id,) = book.stored("a")
    say_again(book, "UPDATE", "events", 2, code)
    one = book.claim_one(W)
    assert (one.event.id, one.attempt, book.event(event_id).attempts) == (event_id, 1, 1)


@pytest.mark.parametrize("code", ["40001", "40P01"])
@pytest.mark.parametrize("table", ["events", "counters"])
def test_dbx_03_complete_goes_through_on_the_third_try(book: Ledger, table: str, code: str) -> None:
    book.run("CREATE TABLE public.effects (event_id bigint)")
    (event_id,) = book.stored("a")
    one = book.claim_one(W)
    say_again(book, "UPDATE" if table == "events" else "INSERT", table, 2, code)

    def apply(tx: Transaction) -> None:
        tx.execute("INSERT INTO public.effects VALUES (:id)", id=one.event.id)
        assert work.complete(tx, [one.lease], writer=book.writer)

    book.database.run(apply)
    assert (book.event(event_id).state, book.value("SELECT count(*) FROM public.effects")) == ("completed", 1)
