"""Events with one ordering key: one at a time, in the order in which they were accepted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from ledger import work, workers
from ledger.database import Transaction
from ledger.events import order
from ledger.records import ClaimedEvent, Event, digest_of
from tests.fix_events import WAIT_S, Crowd, Ledger, delivery, worker

W = worker()
Crowds = Callable[[int], Crowd]


def lane(name: str) -> bytes:
    return digest_of("ordering", name)


def in_lane(name: str, *keys: str, **changes: Any) -> list[Any]:
    return [delivery(key, ordering_digest=lane(name), **changes) for key in keys]


# ── Acceptance ────────────────────────────────────────────────────────────────────────────────────────


def test_ids_follow_the_arrival_within_a_batch_too(book: Ledger) -> None:
    """Rows are written in the order of their keys; a lane's order must not be that of a digest."""
    keys = [f"k{n}" for n in range(40)]
    ids = [answer.event_id for answer in book.accept(*in_lane("a", *keys))]
    assert ids == sorted(ids, key=lambda id_: id_ or 0)
    rows = book.rows("SELECT event_key, ordering_digest FROM nottwice.events ORDER BY id")
    assert [key for key, _ in rows] == keys
    assert {bytes(digest) for _, digest in rows} == {lane("a")}


def test_an_event_without_an_ordering_key_has_no_lane(book: Ledger) -> None:
    (event_id,) = book.stored("a")
    assert book.event(event_id).ordering_digest is None


# ── Claim ─────────────────────────────────────────────────────────────────────────────────────────────


def ids_of(claimed: Sequence[ClaimedEvent]) -> list[int]:
    return [one.event.id for one in claimed]


def stored(book: Ledger, name: str, *keys: str, **changes: Any) -> list[int]:
    return [answer.event_id or 0 for answer in book.accept(*in_lane(name, *keys, **changes))]


def set_aside(book: Ledger, one: ClaimedEvent) -> None:
    book.database.run(lambda tx: work.set_aside(tx, one.lease, error="no"))


def test_a_lane_runs_one_at_a_time_and_in_order(book: Ledger) -> None:
    ids = stored(book, "a", "k3", "k1", "k2")
    done = []
    while claimed := book.claim(W, 10):
        assert len(claimed) == 1 and book.claim(W) == []
        done += ids_of(claimed)
        book.complete(*claimed)
    assert done == ids


def test_lanes_and_events_without_one_do_not_wait_for_each_other(book: Ledger) -> None:
    first, _ = stored(book, "a", "a1", "a2")
    other, _ = stored(book, "b", "b1", "b2")
    free = book.stored("f1", "f2")
    (elsewhere,) = stored(book, "a", "n1", namespace="other")
    assert sorted(ids_of(book.claim(W))) == sorted([first, other, *free, elsewhere])


def test_a_lane_is_not_one_sources_or_one_types(book: Ledger) -> None:
    kinds = worker(("shop", "invoice.paid"), ("till", "refund"))
    ids = (
        stored(book, "a", "k1")
        + stored(book, "a", "k2", source="till", type="refund")
        + stored(book, "a", "k3")
    )
    done = []
    while claimed := book.claim(kinds):
        done += ids_of(claimed)
        book.complete(*claimed)
    assert done == ids


@pytest.mark.parametrize("counted", [True, False], ids=["a failure", "unavailable"])
def test_later_ones_wait_while_an_earlier_one_waits_to_be_tried_again(book: Ledger, counted: bool) -> None:
    first, second = stored(book, "a", "k1", "k2")
    one = book.claim_one(W)
    book.database.run(
        lambda tx: work.retry_later(tx, one.lease, delay_s=60.0, error="no", counted=counted) and None
    )
    assert book.claim(W) == []
    book.due(first)
    again = book.claim_one(W)
    assert again.event.id == first
    book.complete(again)
    assert ids_of(book.claim(W)) == [second]


def test_one_that_was_handed_back_or_rescued_keeps_its_place(book: Ledger) -> None:
    first, second = stored(book, "a", "k1", "k2")
    one = book.claim_one(W)
    book.database.run(lambda tx: work.hand_back(tx, one.lease))
    assert ids_of(book.claim(W)) == [first]
    book.expire(first)
    assert book.rescue() == {first: "pending"}
    assert book.claim(W) == []  # it waits for a process that does nothing else, and the lane waits for it
    again = book.claim_one(W, idle=True)
    assert again.event.id == first
    book.complete(again)
    assert ids_of(book.claim(W)) == [second]


def test_one_set_aside_is_passed_over_and_later_ones_are_marked(book: Ledger) -> None:
    first, second, third, fourth = stored(book, "a", "k1", "k2", "k3", "k4")
    set_aside(book, book.claim_one(W))
    marks = {}
    for _ in range(3):
        one = book.claim_one(W)
        marks[one.event.id] = one.event.passed_over
        if one.event.id == third:
            set_aside(book, one)
        else:
            book.complete(one)
    assert marks == {second: first, third: first, fourth: third}
    rows = dict(book.rows("SELECT id, passed_over FROM nottwice.events WHERE passed_over IS NOT NULL"))
    assert rows == marks
    stored(book, "b", "other")
    assert book.claim_one(W).event.passed_over is None


def test_one_set_aside_at_the_attempt_limit_lets_the_next_one_go(book: Ledger) -> None:
    first, second = stored(book, "a", "k1", "k2")
    for _ in range(5):
        one = book.claim_one(W)
        assert one.event.id == first and book.claim(W) == []
        book.database.run(lambda tx, one=one: work.fail(tx, one, error="no", base_s=0.0, chance=0.0))
    assert ids_of(book.claim(W)) == [second]


def test_one_that_was_rescued_for_the_last_time_lets_the_next_one_go(book: Ledger) -> None:
    first, second = stored(book, "a", "k1", "k2")
    book.claim_one(W)
    assert book.claim(W) == []
    book.run("UPDATE nottwice.events SET attempts = attempts_max WHERE id = :id", id=first)
    book.expire(first)
    assert book.rescue() == {first: "failed"}
    (one,) = book.claim(W)
    assert (one.event.id, one.event.passed_over) == (second, first)


def test_one_that_is_tried_again_by_a_person_runs_next_and_is_marked(book: Ledger) -> None:
    """Its turn is long over: it goes ahead of what waits, never beside another one, and is told who overtook it."""
    first, second, third, fourth = stored(book, "a", "k1", "k2", "k3", "k4")
    set_aside(book, book.claim_one(W))
    book.complete(book.claim_one(W))
    running = book.claim_one(W)
    assert running.event.id == third and book.claim(W) == []
    book.run(
        "UPDATE nottwice.events SET state = 'pending', due_at = now(), ended_at = NULL, attempts_max = 10 WHERE id = :id",
        id=first,
    )
    assert book.claim(W) == []
    book.complete(running)
    (late,) = book.claim(W)
    assert (late.event.id, late.event.overtaken_by, late.event.passed_over) == (first, third, None)
    book.complete(late)
    (last,) = book.claim(W)
    assert (last.event.id, last.event.overtaken_by, last.event.passed_over) == (fourth, None, None)
    assert second < third


def test_ignored_events_overtake_nobody(book: Ledger) -> None:
    stored(book, "a", "k1")
    stored(book, "a", "k2", ignored=True)
    assert book.claim_one(W).event.overtaken_by is None


def test_a_recompute_takes_its_place_at_the_front(book: Ledger) -> None:
    first, second, third = stored(book, "a", "k1", "k2", "k3")
    book.complete(book.claim_one(W))
    book.complete(book.claim_one(W))
    book.run(
        """UPDATE nottwice.events SET state = 'pending', ending = NULL, ended_at = NULL, due_at = now(), mode = 'recompute', run = 2
           WHERE id = :id""",
        id=first,
    )
    one = book.claim_one(W)
    assert (one.event.id, one.event.overtaken_by) == (first, second) and book.claim(W) == []
    book.complete(one)
    assert ids_of(book.claim(W)) == [third]


# ── Kinds that somebody handles, or nobody ────────────────────────────────────────────────────────────


def test_a_kind_that_nobody_handles_does_not_hold_up_its_lane(book: Ledger) -> None:
    stored(book, "a", *(f"u{n}" for n in range(30)), type="nobody's")
    ids = stored(book, "a", "k1", "k2")
    one = book.claim_one(W)
    assert one.event.id == ids[0] and book.claim(W) == []
    book.complete(one)
    assert ids_of(book.claim(W)) == ids[1:]


def test_a_kind_that_another_worker_handles_keeps_its_place(book: Ledger) -> None:
    other = worker(("shop", "refund"), name="other")
    book.database.run(lambda tx: workers.register(tx, other))
    first, second = stored(book, "a", "k1", type="refund") + stored(book, "a", "k2")
    assert book.claim(W) == []
    one = book.claim_one(other)
    assert one.event.id == first and book.claim(W) == []
    book.complete(one)
    assert ids_of(book.claim(W)) == [second]


def test_a_kind_that_lost_its_last_worker_holds_up_nobody_for_ever(book: Ledger) -> None:
    other = worker(("shop", "refund"), name="other")
    book.database.run(lambda tx: workers.register(tx, other))
    _, second = stored(book, "a", "k1", type="refund") + stored(book, "a", "k2")
    assert book.claim(W) == [] and book.event(second).waits_behind
    assert book.database.run(order.free_forgotten).freed == 0
    book.run("DELETE FROM nottwice.workers")
    assert book.database.run(order.free_forgotten).freed == 1
    assert ids_of(book.claim(W)) == [second]


# ── Lining up ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_long_lane_hides_nobody_behind_it(book: Ledger) -> None:
    """Found and lined up in the same claim; the next one does not meet them again."""
    first, *rest = stored(book, "a", *(f"a{n}" for n in range(300)))
    other = stored(book, "b", "b1") + book.stored("free")
    assert ids_of(book.claim(W, 20)) == [first, *other]
    lined_up = book.rows("SELECT id, waits_behind FROM nottwice.events WHERE waits_behind <> 0 ORDER BY id")
    assert lined_up == list(zip(rest, [first, *rest[:-1]], strict=True))


def test_an_idle_worker_finds_the_one_that_may_run(book: Ledger) -> None:
    stored(book, "a", *(f"a{n}" for n in range(15)))
    book.claim_one(W)
    (free,) = book.stored("free")
    assert ids_of(book.claim(W, 1, idle=True)) == [free]


def test_what_is_lined_up_is_no_work_that_is_due(book: Ledger) -> None:
    def is_due() -> bool:
        return book.database.run(
            lambda tx: workers.wait_for_work(tx, W.handles, (), patience_s=0.0, pause_s=0.01).due
        )

    stored(book, "a", "k1", "k2")
    one = book.claim_one(W)
    assert is_due()  # nobody has looked at it yet
    assert book.claim(W) == [] and not is_due()
    book.complete(one)
    assert is_due()


def test_nobody_is_lined_up_behind_one_that_is_just_ending(book: Ledger, many: Ledger) -> None:
    """Else it would wait for an ending that has been."""
    first, second = stored(book, "a", "k1", "k2")
    one = book.claim_one(W, lease_s=60)
    book.run("UPDATE nottwice.events SET waits_behind = 0")
    with book.database.transaction() as tx:
        work.complete(tx, [one.lease], writer=book.writer)
        with many.database.engine.connect() as other:
            assert work.claim(Transaction(other), W, limit=10, lease_s=30) == []
            other.commit()
    assert many.event(second).waits_behind == 0 and first
    assert ids_of(many.claim(W)) == [second]


def test_a_claim_that_is_under_way_when_one_ends_is_seen_by_the_ending(many: Ledger, crowd: Crowds) -> None:
    """The claim has lined up the second behind the first and not committed; the completion of the first waits for it."""
    first, second = stored(many, "a", "k1", "k2")
    one = many.claim_one(W)
    many.run("UPDATE nottwice.events SET waits_behind = 0")
    lined_up, go_on = threading.Event(), threading.Event()

    def claiming_() -> None:
        with many.database.transaction() as tx:
            assert work.claim(tx, W, limit=10, lease_s=30) == []
            lined_up.set()
            assert go_on.wait(WAIT_S)

    def completing() -> None:
        assert lined_up.wait(WAIT_S)
        many.complete(one)

    def watching() -> None:
        assert lined_up.wait(WAIT_S)
        many.until_somebody_waits()
        go_on.set()

    assert crowd(3).at_once([claiming_, completing, watching]) == [None] * 3
    assert many.event(first).state == "completed" and ids_of(many.claim(W)) == [second]


@pytest.mark.parametrize(
    "damage",
    [
        "waits_behind = 1, ordering_digest = NULL",
        "waits_behind = 1, state = 'failed', due_at = NULL, ended_at = now()",
    ],
)
def test_only_a_pending_event_of_a_lane_may_be_lined_up(book: Ledger, damage: str) -> None:
    stored(book, "a", "k1")
    with pytest.raises(IntegrityError, match="only_a_pending_event_of_a_lane_waits"):
        book.run(f"UPDATE nottwice.events SET {damage}")


# ── Newer data ────────────────────────────────────────────────────────────────────────────────────────

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def event(id_: int, at: datetime | None) -> Event:
    accepted_at = NOON + timedelta(days=1)
    return Event(id_, "acme", "shop", "x", "k", b"", accepted_at, at)


@pytest.mark.parametrize(
    ("id_", "minutes", "is_newer"),
    [(7, 0, True), (7, -1, True), (6, 0, False), (8, 0, True), (6, 1, True), (8, -1, False)],
)
def test_newer_is_later_or_as_late_with_a_higher_number_or_the_same_event(
    id_: int, minutes: int, is_newer: bool
) -> None:
    assert event(id_, NOON + timedelta(minutes=minutes)).is_newer(NOON, 7) is is_newer


def test_everything_is_newer_than_nothing_and_acceptance_stands_in_for_a_missing_time() -> None:
    assert event(1, None).is_newer(None, None)
    assert event(1, None).is_newer(NOON, 7) and event(1, None).at == NOON + timedelta(days=1)
