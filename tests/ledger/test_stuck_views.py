"""What the Stuck work page reads: which rows are in which segment, in what order, with which facts."""

from __future__ import annotations

from uuid import uuid4

import pytest

from ledger.accounts import pauses
from ledger.events import by_hand
from ledger.records import Act, Role
from ledger.sign_in import people
from ledger.views import stuck as views_stuck
from ledger.views.stuck_found import Filter, Place, Segment
from ledger.views.stuck_rows import Limits, Page, Sizes, StuckEvent, StuckSend
from tests.fix_events import worker
from tests.fix_seed import REFUND, House
from tests.fix_stuck import Stuck

LIMITS = Limits(lease_s=60.0, waiting_s=300.0, silent_s=60.0)


@pytest.fixture
def stuck(house: House) -> Stuck:
    return Stuck(house)


def read(
    stuck: Stuck,
    segment: Segment,
    wanted: Filter = views_stuck.EVERYTHING,
    after: Place | None = None,
    most: int = 25,
) -> Page:
    return stuck.house.db.run(
        lambda tx: views_stuck.page(tx, segment, LIMITS, wanted, after=after, most=most), role=Role.VIEWER
    )


def sizes(stuck: Stuck, wanted: Filter = views_stuck.EVERYTHING) -> Sizes:
    return stuck.house.db.run(lambda tx: views_stuck.sizes(tx, LIMITS, wanted), role=Role.VIEWER)


def only(page: Page) -> StuckEvent:
    (row,) = page.rows
    assert isinstance(row, StuckEvent)
    return row


def test_a_house_in_order_has_nothing_stuck(stuck: Stuck) -> None:
    stuck.stored("fresh")
    stuck.stored("mine")
    stuck.book.claim_one(stuck.one, 60.0)
    assert sizes(stuck) == Sizes(0, 0, 0, 0, 0, 0) and sizes(stuck).stuck == 0
    assert all(read(stuck, name).rows == () for name in ("past", "aside", "unhandled", "waiting"))


def test_past_its_lease_are_those_that_outlived_it_and_those_that_missed_a_sign(stuck: Stuck) -> None:
    ageing = stuck.in_hand("ageing", left_s=10.0)
    over = stuck.in_hand("over", left_s=-14.0)
    stuck.in_hand("in time", left_s=50.0)
    send = stuck.sending("R-1")
    page = read(stuck, "past")
    assert [(row.place.kind, row.id) for row in page.rows] == [
        ("event", over),
        ("send", send),
        ("event", ageing),
    ]
    first = page.rows[0]
    assert (first.worker, first.state) == ("w-3f9a", "processing") and first.worker_seen_at is not None
    assert sizes(stuck).expired == 2 and sizes(stuck).past == 3 and sizes(stuck).stuck == 2


def test_what_is_set_aside_says_by_whom(stuck: Stuck) -> None:
    (by_itself, by_eva) = (stuck.failed("a", ago_s=60.0), stuck.overdue("b"))
    eva = stuck.house.db.run(lambda tx: people.person(tx, "local", "eva", "Eva", "", Role.ENGINEER))
    act = Act(eva, uuid4(), "wait for the shop")
    version = stuck.book.event(by_eva).version
    stuck.house.db.run(lambda tx: by_hand.put_aside(tx, by_eva, version, act))
    first, second = read(stuck, "aside").rows
    assert isinstance(first, StuckEvent) and isinstance(second, StuckEvent)
    assert (first.id, first.by_hand, first.attempts, first.last_error) == (
        by_itself,
        None,
        5,
        "ValueError: no such invoice",
    )
    assert second.id == by_eva and second.by_hand is not None
    assert (second.by_hand.who, second.by_hand.why) == ("Eva", "wait for the shop")


def test_sends_that_were_given_up_are_listed_for_a_week_and_not_counted_as_stuck(stuck: Stuck) -> None:
    send = stuck.given_up("R-1")
    (row,) = read(stuck, "aside").rows
    assert isinstance(row, StuckSend) and (row.id, row.last_error) == (send, "The connection was refused.")
    assert (sizes(stuck).aside, sizes(stuck).given_up, sizes(stuck).stuck) == (1, 1, 0)
    stuck.house.run("UPDATE nottwice.actions SET settled_at = now() - interval '8 days'")
    assert read(stuck, "aside").rows == () and sizes(stuck).aside == 0


def test_what_nobody_handles_is_told_from_what_nobody_handles_just_now(stuck: Stuck) -> None:
    """A worker that has stopped keeps its kinds for an hour: what waits for it waits, and says who took it."""
    voided = stuck.unhandled("evt_1")
    gone = worker(("billing", "refund"), name="w-gone")
    stuck.running(gone, stopped=True)
    late = stuck.stored("refund 1", age_s=3600.0, type="refund")
    row = only(read(stuck, "unhandled"))
    assert (row.id, row.takers) == (voided, None)
    row = only(read(stuck, "waiting"))
    assert row.id == late and row.takers is not None
    assert (row.takers.running, row.takers.last) == (False, "w-gone")


def test_while_no_worker_ever_came_everything_waits(stuck: Stuck) -> None:
    stuck.unhandled("evt_1")
    stuck.house.run("DELETE FROM nottwice.workers")
    assert sizes(stuck).unhandled == 0 and only(read(stuck, "waiting")).takers is None
    assert read(stuck, "waiting").around.running == 0


def test_waiting_too_long_are_the_overdue_the_tried_and_the_lined_up(stuck: Stuck) -> None:
    retrying = stuck.retrying("tried")
    first, lined_up = stuck.in_line("ahead", "behind")
    overdue = stuck.overdue("late")
    send = stuck.ready("R-1")
    young = stuck.stored("young", age_s=10.0)
    rows = {(row.place.kind, row.id): row for row in read(stuck, "waiting").rows}
    assert set(rows) == {("event", retrying), ("event", lined_up), ("event", overdue), ("send", send)}
    behind = rows["event", lined_up]
    assert isinstance(behind, StuckEvent)
    assert (behind.waits_behind, behind.ahead_key, behind.ahead_state) == (first, "ahead", "processing")
    assert sizes(stuck).waiting == 4 and young


def test_a_filter_takes_events_by_source_and_sends_by_provider(stuck: Stuck) -> None:
    overdue, send = stuck.overdue("late"), stuck.ready("R-1")
    stuck.unhandled("evt_1")

    def ids(segment: Segment, *wanted: str) -> list[int]:
        return [row.id for row in read(stuck, segment, Filter(*wanted)).rows]

    assert ids("waiting", "billing") == [overdue] and ids("waiting", REFUND.provider) == [send]
    assert ids("waiting", "billing", "refund") == ids("waiting", "shop") == []
    assert ids("unhandled", "", "invoice.voided") != [] and ids("unhandled", "", "invoice.paid") == []
    assert sizes(stuck, Filter("billing")).waiting == 1


def test_pages_follow_each_other_without_a_gap_across_events_and_sends(stuck: Stuck) -> None:
    """Also where all stand at one instant."""
    events = [stuck.overdue(f"k{n}") for n in range(5)]
    sends = [stuck.ready(f"R-{n}") for n in range(4)]
    for table in ("events", "actions"):
        stuck.house.run(f"UPDATE nottwice.{table} SET due_at = TIMESTAMPTZ '2026-01-01 00:00Z'")
    found, place, pages = [], None, 0
    while True:
        page = read(stuck, "waiting", after=place, most=2)
        found += [(row.place.kind, row.id) for row in page.rows]
        pages += 1
        if not page.more:
            break
        place = page.rows[-1].place
    assert found == [("event", n) for n in events] + [("send", n) for n in sends] and pages == 5


def test_the_surroundings_say_who_works_and_what_is_held(stuck: Stuck) -> None:
    stuck.running(worker(name="w-silent"), silent_s=300.0)
    stuck.house.db.run(lambda tx: pauses.pause(tx, REFUND.account, "429 from its provider", retry_after_s=90))
    around = read(stuck, "waiting").around
    assert around.running == 1 and around.held == "" and around.resume_at is None
    assert around.pauses[REFUND.account].reason == "429 from its provider"


def test_one_event_has_its_failures_the_newest_first(stuck: Stuck) -> None:
    event_id = stuck.retrying("tried")
    one = stuck.house.db.run(lambda tx: views_stuck.one_event(tx, event_id, LIMITS), role=Role.VIEWER)
    assert one is not None and (one[0].id, one[0].attempts) == (event_id, 2)
    told = stuck.house.db.run(lambda tx: views_stuck.failures(tx, event_id), role=Role.VIEWER)
    assert [(one.attempt, one.ending, one.error) for one in told] == [
        (2, "retry", "TimeoutError: no answer"),
        (1, "retry", "TimeoutError: no answer"),
    ]
    assert stuck.house.db.run(lambda tx: views_stuck.one_event(tx, 999, LIMITS)) is None
