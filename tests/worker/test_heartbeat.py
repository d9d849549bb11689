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

LEASE_S = 1.5  # what is over in a third of it may take three times as long on a busy machine


class Heart:
    """A heartbeat and the claims it keeps."""

    def __init__(self, workshop: Workshop) -> None:
        self.database = Database(workshop.url, pool_size=2, pre_ping=False)
        self.worker = Worker(uuid4(), "w", (("shop", "sale"),))
        self.heartbeat = Heartbeat(self.database, self.worker, lease_s=LEASE_S)

    def claim(self, **hold: float) -> EventLease:
        asked_at = clock()
        (claimed,) = self.database.run(lambda tx: work.claim(tx, self.worker, limit=1, lease_s=LEASE_S))
        self.heartbeat.hold(claimed.lease, asked_at, **hold)
        return claimed.lease


@pytest.fixture
def heart(workshop: Workshop) -> Iterator[Heart]:
    made = Heart(workshop)
    yield made
    made.heartbeat.stop()
    made.database.close()


def wait(seconds: float) -> None:
    """What is under test is time itself."""
    threading.Event().wait(seconds)


def test_what_is_held_outlives_its_lease(workshop: Workshop, heart: Heart) -> None:
    workshop.accept("sale")
    lease = heart.claim()
    heart.heartbeat.start()
    wait(2.5 * LEASE_S)
    assert heart.heartbeat.is_sure(lease)
    assert workshop.value("SELECT lease_until > now() FROM nottwice.events")
    assert (
        workshop.value("SELECT count(*) FROM nottwice.workers WHERE seen_at > now() - interval '0.5 s'") == 1
    )


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
        wait(0.005)
    assert workshop.value("SELECT lease_until > clock_timestamp() FROM nottwice.events")


def test_a_lease_that_ran_out_is_not_renewed_and_forgotten(
    workshop: Workshop, heart: Heart, notes: Notes
) -> None:
    (event,) = workshop.accept("sale")
    lease = heart.claim()
    wait(1.1 * LEASE_S)
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
    wait(0.5 * LEASE_S)
    heart.heartbeat.beat()
    assert heart.heartbeat.is_sure(lease)
    assert not notes.of("lease ran out")


def test_a_call_is_renewed_up_to_its_deadline_and_no_longer(workshop: Workshop, heart: Heart) -> None:
    workshop.accept("sale")
    heart.claim(renew_for_s=0.0)
    before = workshop.value("SELECT lease_until FROM nottwice.events")
    heart.heartbeat.beat()
    assert workshop.value("SELECT lease_until FROM nottwice.events") == before


def test_the_heart_goes_on_after_an_error(workshop: Workshop, heart: Heart, notes: Notes) -> None:
    """One beat meets a server that cut the connection; the next one renews."""
    workshop.accept("sale")
    lease = heart.claim()
    workshop.cut()
    heart.heartbeat.start()
    notes.wait_for("heartbeat missed")
    wait(LEASE_S)
    assert heart.heartbeat.is_sure(lease)


def test_actions_and_events_are_renewed_in_one_beat(
    workshop: Workshop, heart: Heart, propose_one: Callable[[], None]
) -> None:
    workshop.accept("sale")
    propose_one()
    events_lease = heart.claim()
    asked_at = clock()
    claimed = heart.database.run(lambda tx: actions.claim(tx, heart.worker, ["post"], lease_s=LEASE_S))
    assert claimed is not None
    heart.heartbeat.hold(claimed.lease, asked_at)
    wait(0.6 * LEASE_S)
    heart.heartbeat.beat()
    wait(0.6 * LEASE_S)
    assert heart.heartbeat.is_sure(events_lease) and heart.heartbeat.is_sure(claimed.lease)
    assert workshop.value("SELECT lease_until > now() FROM nottwice.actions")
