"""What nobody handles: left for others, counted apart, closed when its key is over its time, and in nobody's way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledger import workers
from ledger.database import Database, Transaction
from ledger.events import order
from ledger.inbox import unhandled
from ledger.views import status
from tests.fix_events import Ledger, worker
from tests.ledger.test_order import ids_of, stored

W = worker()
DAY_S = 86_400.0
KEPT_S = 31 * DAY_S


def close(book: Ledger, limit: int = 100) -> dict[tuple[str, str], int]:
    return dict(book.database.run(lambda tx: unhandled.close(tx, kept_s=KEPT_S, limit=limit)))


def age(book: Ledger, days: float, *ids: int) -> None:
    book.run(
        "UPDATE nottwice.events SET due_at = now() - make_interval(secs => :s), accepted_at = now() - make_interval(secs => :s) "
        "WHERE id = ANY (:ids)",
        s=days * DAY_S,
        ids=list(ids),
    )


@pytest.fixture
def staffed(book: Ledger) -> Ledger:
    """A ledger with a worker for paid invoices."""
    book.database.run(lambda tx: workers.register(tx, W))
    return book


def test_a_namespace_closes_them_by_its_own_time(staffed: Ledger) -> None:
    plain, slow = (staffed.stored(name, namespace=name, type="nobody's")[0] for name in ("acme", "slow"))
    age(staffed, 40, plain, slow)
    own = {"slow": 60 * DAY_S}
    closed = staffed.database.run(lambda tx: unhandled.close(tx, kept_s=KEPT_S, of_namespaces=own))
    assert closed.total() == 1 and staffed.event(slow).state == "pending"


def test_an_old_event_of_a_kind_nobody_handles_is_closed_as_unhandled(staffed: Ledger) -> None:
    old, young = staffed.stored("old", "young", type="nobody's")
    age(staffed, 31.01, old)
    age(staffed, 30.99, young)
    assert status_of(staffed) == (2, 2)
    assert close(staffed) == {("shop", "nobody's"): 1}
    row = staffed.event(old)
    assert (row.state, row.ending, row.due_at, row.attempts) == ("completed", "unhandled", None, 0)
    assert row.ended_at is not None and staffed.event(young).state == "pending"
    assert status_of(staffed) == (1, 1) and close(staffed) == {}


def status_of(book: Ledger) -> tuple[int, int]:
    """Pending ones, and those of them that nobody handles."""
    found = book.database.run(status.status)
    return found["events"]["pending"], found["unhandled"]


def test_what_somebody_handles_is_never_closed_however_old(staffed: Ledger) -> None:
    (mine,) = staffed.stored("mine")
    (other,) = staffed.stored("other", type="refund")
    staffed.database.run(lambda tx: workers.register(tx, worker(("shop", "refund"), name="other")))
    age(staffed, 400, mine, other)
    assert close(staffed) == {}


def test_while_no_worker_ever_came_everything_waits_for_the_first_one(book: Ledger) -> None:
    (old,) = book.stored("old")
    age(book, 400, old)
    assert close(book) == {}
    assert book.event(old).state == "pending"


def test_it_is_closed_in_small_batches_and_what_is_locked_the_next_time(
    staffed: Ledger, many: Ledger
) -> None:
    ids = staffed.stored(*(f"u{n}" for n in range(25)), type="a") + staffed.stored(
        "b", type="b", namespace="other"
    )
    age(staffed, 40, *ids)
    with staffed.database.engine.connect() as other:
        Transaction(other).execute("SELECT FROM nottwice.events WHERE id = :id FOR UPDATE", id=ids[0])
        closed = [sum(close(many, 10).values()) for _ in range(4)]
        other.rollback()
    assert closed == [10, 10, 5, 0]
    assert close(many) == {("shop", "a"): 1}


def test_one_that_held_up_its_lane_lets_it_go(staffed: Ledger) -> None:
    """Its last worker was there when the lane was looked at, and is not any more."""
    other = worker(("shop", "refund"), name="other")
    staffed.database.run(lambda tx: workers.register(tx, other))
    first, second = stored(staffed, "a", "k1", type="refund") + stored(staffed, "a", "k2")
    assert staffed.claim(W) == [] and staffed.event(second).waits_behind == first
    staffed.run("DELETE FROM nottwice.workers WHERE id = :id", id=other.id)
    age(staffed, 40, first)
    assert close(staffed) == {("shop", "refund"): 1}
    (one,) = staffed.claim(W)
    assert (one.event.id, one.event.passed_over, one.event.overtaken_by) == (second, None, None)


def test_a_handler_that_comes_later_finds_them_and_is_told_that_they_are_late(staffed: Ledger) -> None:
    first, second = stored(staffed, "a", "k1", type="refund") + stored(staffed, "a", "k2")
    staffed.complete(staffed.claim_one(W))
    (late,) = staffed.claim(worker(("shop", "refund")))
    assert (late.event.id, late.event.overtaken_by) == (first, second)


def test_the_workers_login_may_do_all_of_it(staffed: Ledger, login_url: Callable[[str], str]) -> None:
    ids = stored(staffed, "a", "k1", "k2") + stored(staffed, "a", "u", type="nobody's")
    age(staffed, 40, ids[2])
    database = Database(login_url("nottwice_worker"))
    own = Ledger(database)
    try:
        one = own.claim_one(W)
        assert own.claim(W) == [] and sum(close(own).values()) == 1
        own.complete(one)
        assert database.run(order.free_forgotten).freed == 0
        assert ids_of(own.claim(W)) == [ids[1]]
        told = database.run(lambda tx: workers.wait_for_work(tx, W.handles, (), patience_s=0, pause_s=0.01))
        assert not told.due and told.duties == frozenset()
    finally:
        database.close()
