"""Leases are renewed while they are held, and judged by a clock that started before the database's did."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from ledger import actions, work
from ledger.database import Database
from ledger.records import EventLease, Worker
from tests.fix_worker import Notes, Workshop
from worker.heartbeat import Heartbeat, clock

LEASE_S = 30.0
BEATING_S = 4.5  # of a lease that the thread keeps: a beat may be three seconds late


class Heart:
    """A heartbeat and the claims it keeps. Time passes when a test says so, for this process and for the database."""

    def __init__(self, workshop: Workshop, lease_s: float) -> None:
        self.workshop, self.lease_s, self._passed_s = workshop, lease_s, 0.0
        self.database = Database(workshop.url, pool_size=2, pre_ping=False)
        self.worker = Worker(uuid4(), "w", (("shop", "sale"),))
        self.heartbeat = Heartbeat(self.database, self.worker, lease_s=lease_s)

    def claim(self, **hold: float) -> EventLease:
        asked_at = self.clock()
        (claimed,) = self.database.run(lambda tx: work.claim(tx, self.worker, limit=1, lease_s=self.lease_s))
        self.heartbeat.hold(claimed.lease, asked_at, **hold)
        return claimed.lease

    def clock(self) -> float:
        return clock() + self._passed_s

    def pass_s(self, seconds: float) -> None:
        self._passed_s += seconds
        for table in ("events", "actions"):
            earlier = f"UPDATE nottwice.{table} SET lease_until = lease_until - make_interval(secs => :s)"
            self.workshop.run(f"{earlier} WHERE lease_until IS NOT NULL", s=seconds)


@pytest.fixture
def hearts(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], Heart]]:
    """A heart for a length of leases; one a test, since the clock is its own."""
    made: list[Heart] = []

    def build(lease_s: float) -> Heart:
        made.append(Heart(workshop, lease_s))
        monkeypatch.setattr("worker.heartbeat.clock", made[-1].clock)
        return made[-1]

    yield build
    for one in made:
        one.heartbeat.stop()
        one.database.close()


@pytest.fixture
def heart(hearts: Callable[[float], Heart]) -> Heart:
    """One that a test beats by hand."""
    return hearts(LEASE_S)


def test_what_is_held_outlives_its_lease(workshop: Workshop, hearts: Callable[[float], Heart]) -> None:
    """Renewed by the thread, which gives a sign of life with each beat."""
    workshop.accept("sale")
    heart = hearts(BEATING_S)
    lease = heart.claim()
    first = workshop.value("SELECT CAST(lease_until AS text) FROM nottwice.events")
    heart.heartbeat.start()
    workshop.until(
        f"SELECT clock_timestamp() > '{first}' AND lease_until > clock_timestamp() FROM nottwice.events"
    )
    assert heart.heartbeat.is_sure(lease)
    assert workshop.value("SELECT count(*) FROM nottwice.workers WHERE seen_at > started_at") == 1


def test_what_was_released_is_not_renewed(workshop: Workshop, heart: Heart) -> None:
    workshop.accept("sale")
    lease = heart.claim()
    heart.heartbeat.release(lease)
    before = workshop.value("SELECT lease_until FROM nottwice.events")
    heart.heartbeat.beat()
    assert workshop.value("SELECT lease_until FROM nottwice.events") == before
    assert not heart.heartbeat.is_sure(lease)


def test_without_a_beat_we_are_not_sure_before_the_database_forgets(workshop: Workshop, heart: Heart) -> None:
    """The margin: a call is never started on a lease that may run out first."""
    workshop.accept("sale")
    lease = heart.claim()
    assert heart.heartbeat.is_sure(lease)
    while heart.heartbeat.is_sure(lease):
        heart.pass_s(LEASE_S / 100)
    assert workshop.value("SELECT lease_until > clock_timestamp() FROM nottwice.events")


def test_a_lease_that_ran_out_is_not_renewed_and_forgotten(
    workshop: Workshop, heart: Heart, notes: Notes
) -> None:
    (event,) = workshop.accept("sale")
    lease = heart.claim()
    heart.pass_s(1.1 * LEASE_S)
    heart.heartbeat.beat()
    assert notes.of("lease ran out", event_id=event)
    assert not heart.heartbeat.is_sure(lease)
    assert workshop.value("SELECT lease_until < now() FROM nottwice.events")
    assert str(lease.token) not in str(notes.all), "a claim token is nobody's to read"


def test_a_row_locked_by_its_own_commit_is_not_lost(workshop: Workshop, heart: Heart, notes: Notes) -> None:
    """The group that completes it may still be undone; then the lease must be there."""
    workshop.accept("sale")
    lease = heart.claim()
    with workshop.database.transaction() as tx:
        work.complete(tx, [lease], writer=uuid4())
        beat = threading.Thread(target=heart.heartbeat.beat)
        beat.start()
        beat.join(40)
        assert not beat.is_alive(), "it waits for no lock"
        tx.connection.get_transaction().rollback()  # type: ignore[union-attr]
    heart.pass_s(0.5 * LEASE_S)
    heart.heartbeat.beat()
    assert heart.heartbeat.is_sure(lease)
    assert not notes.of("lease ran out")


def test_a_call_is_renewed_up_to_its_deadline_and_no_longer(workshop: Workshop, heart: Heart) -> None:
    workshop.accept("sale")
    heart.claim(renew_for_s=0.0)
    before = workshop.value("SELECT lease_until FROM nottwice.events")
    heart.heartbeat.beat()
    assert workshop.value("SELECT lease_until FROM nottwice.events") == before


def test_the_heart_goes_on_after_an_error(
    workshop: Workshop, hearts: Callable[[float], Heart], notes: Notes
) -> None:
    """One beat meets a server that cut the connection; the next one renews."""
    workshop.accept("sale")
    heart = hearts(BEATING_S)
    lease = heart.claim()
    first = workshop.value("SELECT CAST(lease_until AS text) FROM nottwice.events")
    workshop.cut()
    heart.heartbeat.start()
    notes.wait_for("heartbeat missed")
    workshop.until(f"SELECT lease_until > '{first}' FROM nottwice.events")
    assert heart.heartbeat.is_sure(lease)


def test_actions_and_events_are_renewed_in_one_beat(
    workshop: Workshop, heart: Heart, propose_one: Callable[[], None]
) -> None:
    workshop.accept("sale")
    propose_one()
    events_lease = heart.claim()
    asked_at = heart.clock()
    claimed = heart.database.run(lambda tx: actions.claim(tx, heart.worker, ["post"], lease_s=LEASE_S))
    assert claimed is not None
    heart.heartbeat.hold(claimed.lease, asked_at)
    heart.pass_s(0.6 * LEASE_S)
    heart.heartbeat.beat()
    heart.pass_s(0.6 * LEASE_S)
    assert heart.heartbeat.is_sure(events_lease) and heart.heartbeat.is_sure(claimed.lease)
    assert workshop.value("SELECT lease_until > now() FROM nottwice.actions")
