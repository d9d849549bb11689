"""Where claims begin: behind what was claimed lately, but never for long, so that nothing due is passed by."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from ledger import work
from ledger.database import Database
from ledger.events.front import LOOK_EVERY_S, LOOK_EVERY_S_MAX, Front
from ledger.records import ClaimedEvent, Event, EventLease, Worker
from tests.fix_worker import Workshop

KINDS = (("shop", "sale"), ("shop", "refund"))


class Clerk:
    """Claims with a front, whose clock stands still unless it is told."""

    def __init__(self, workshop: Workshop) -> None:
        self.database, self.now = Database(workshop.url, pool_size=1), 100.0
        self.worker = Worker(uuid4(), "clerk", KINDS)
        self.front = Front(self.worker, clock=lambda: self.now)

    def claim(self, limit: int) -> list[int]:
        claimed = self.database.run(
            lambda tx: work.claim(tx, self.worker, limit=limit, lease_s=30.0, front=self.front)
        )
        self.front.move(claimed, limit)
        return [one.event.id for one in claimed]


@pytest.fixture
def clerk(workshop: Workshop) -> Iterator[Clerk]:
    made = Clerk(workshop)
    yield made
    made.database.close()


def claimed(number: int) -> list[ClaimedEvent]:
    at = datetime(2026, 7, 1, tzinfo=UTC)
    events = [Event(n, "acme", "shop", "sale", f"key {n}", b"", at, None) for n in range(number)]
    return [ClaimedEvent(EventLease(one.id, uuid4()), one, 1, 5, False, False, at) for one in events]


def late(workshop: Workshop, event_id: int) -> None:
    """As if its transaction had begun before all others and committed after them."""
    workshop.run("UPDATE nottwice.events SET due_at = now() - interval '1 h' WHERE id = :id", id=event_id)


def test_filled_claims_go_on_where_the_last_one_ended(workshop: Workshop, clerk: Clerk) -> None:
    ids = workshop.accept(*["sale"] * 6)
    assert [clerk.claim(2) for _ in range(3)] == [ids[:2], ids[2:4], ids[4:]]
    assert clerk.front.ranges()["namespaces"] == ["acme", "acme"]


def test_what_is_due_behind_the_front_waits_for_the_next_look_at_all(
    workshop: Workshop, clerk: Clerk
) -> None:
    ids = workshop.accept(*["sale"] * 6)
    assert clerk.claim(2) == ids[:2]
    late(workshop, ids[5])
    assert clerk.claim(2) == ids[2:4], "not walked over again"
    clerk.now += LOOK_EVERY_S
    assert clerk.claim(1) == [ids[5]], "it is the oldest by its time"


def test_a_claim_that_is_not_filled_lets_the_next_one_look_at_all(workshop: Workshop, clerk: Clerk) -> None:
    ids = workshop.accept(*["sale"] * 3)
    assert clerk.claim(2) == ids[:2] and clerk.claim(2) == ids[2:]
    behind = workshop.accept("sale")
    late(workshop, behind[0])
    assert clerk.claim(2) == behind


def test_a_lane_whose_first_has_ended_is_looked_for_at_once(workshop: Workshop, clerk: Clerk) -> None:
    first, second = workshop.accept("sale", "sale", lane="order-1")
    others = workshop.accept(*["sale"] * 5)
    assert clerk.claim(3) == [first, *others[:2]]
    token = workshop.value("SELECT claim_token FROM nottwice.events WHERE id = :id", id=first)
    clerk.database.run(lambda tx: work.complete(tx, [EventLease(first, token)], writer=uuid4()))
    clerk.front.forget()
    assert clerk.claim(1) == [second]


def test_every_kind_of_a_namespace_is_looked_at_oldest_first(workshop: Workshop, clerk: Clerk) -> None:
    ids = workshop.accept("sale", "sale", "sale", "refund", "sale")
    assert clerk.claim(2) == ids[:2]
    assert clerk.claim(2) == ids[2:4], "the refund, of which none was claimed before, has its turn by age"


def test_more_namespaces_than_a_claim_takes_are_all_looked_at_each_time(
    workshop: Workshop, clerk: Clerk
) -> None:
    ids = [workshop.accept("sale", "sale", namespace=name) for name in ("a", "b", "c")]
    assert clerk.claim(2) == [ids[0][0], ids[1][0]]
    late(workshop, ids[2][0])
    assert ids[2][0] in clerk.claim(2), "its turn, though the last claim did not meet its namespace"


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.001, LOOK_EVERY_S), (0.1, 1.0), (60.0, LOOK_EVERY_S_MAX)])
def test_looks_at_all_take_a_tenth_of_the_time_at_most(took_s: float, pause_s: float) -> None:
    now = [0.0]
    front = Front(Worker(uuid4(), "w", KINDS), clock=lambda: now[0])
    assert front.ranges()["namespaces"] is None
    now[0] = took_s
    front.move(claimed(2), 2)
    now[0] = took_s + pause_s - 0.001
    assert front.ranges()["namespaces"] is not None
    now[0] = took_s + pause_s
    assert front.ranges()["namespaces"] is None
