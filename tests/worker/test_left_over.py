"""The worker's own duties about events that nobody handles, and lanes behind such an event."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from ledger import workers
from ledger.database import Database
from ledger.records import Worker
from tests.fix_reprocess import Shop
from tests.fix_worker import Notes, Workshop
from worker.left_over import LeftOver
from worker.reprocessing import Reprocessing

WORKER = Worker(uuid4(), "w", (("shop", "sale"),))


@pytest.fixture
def left_over(workshop: Workshop) -> Iterator[LeftOver]:
    workshop.database.run(lambda tx: workers.register(tx, WORKER))
    database = Database(workshop.url, pool_size=2)
    yield LeftOver(database, workshop.settings())
    database.close()


def test_all_that_is_over_its_time_is_closed_and_said(
    workshop: Workshop, left_over: LeftOver, notes: Notes
) -> None:
    workshop.accept(*["nobody's"] * 150, "sale")
    workshop.run("UPDATE nottwice.events SET due_at = now() - interval '32 days'")
    left_over.close_unhandled()
    assert workshop.value("SELECT count(*) FROM nottwice.events WHERE ending = 'unhandled'") == 150
    assert sum(one["events"] for one in notes.of("closed as unhandled", type="nobody's")) == 150
    left_over.close_unhandled()
    assert workshop.value("SELECT count(*) FROM nottwice.events WHERE state = 'pending'") == 1


def test_every_lane_has_its_turn(
    workshop: Workshop, left_over: LeftOver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one look can hold wait behind events that nobody works any more."""
    monkeypatch.setattr("worker.left_over.LOOKED_AT_MAX", 10)
    ahead, behind = workshop.accept(*["nobody's"] * 25), workshop.accept(*["sale"] * 25)
    workshop.run(
        """UPDATE nottwice.events e SET ordering_digest = sha256(int8send(t.ahead)), waits_behind = t.ahead
           FROM unnest(CAST(:ahead AS bigint[]), CAST(:behind AS bigint[])) AS t(ahead, behind) WHERE e.id = t.behind""",
        ahead=ahead,
        behind=behind,
    )
    left_over.free_lanes()
    assert workshop.value("SELECT count(*) FROM nottwice.events WHERE waits_behind <> 0") == 0


def test_a_row_of_a_run_whose_kind_nobody_handles_any_more_is_left_alone(
    shop: Shop, left_over: LeftOver, notes: Notes
) -> None:
    """The shop's worker has a handler for it, then is another one."""
    (one,) = shop.sell()
    run = shop.recompute(one)
    shop.turn()
    left_over.close_unhandled()
    assert shop.rows(run) == [("working", "")]
    shop.workshop.run("UPDATE nottwice.workers SET handles = '{shop other}'")
    left_over.close_unhandled()
    assert (shop.rows(run)[0][0], shop.event(one).state) == ("skipped", "completed")
    assert notes.of("left alone", rows=1)


def test_the_database_is_told_the_number_above_which_a_run_takes_two_people(shop: Shop) -> None:
    """At the start and after each change of the configuration."""
    duties = Reprocessing(shop.by_worker, shop.workshop.settings(more="[reprocess]\nsecond_person_above = 7"))
    limit = "SELECT nottwice.second_person_above()"
    assert shop.workshop.value(limit) == 100
    for above in (7, 9):
        (tell,) = [
            duty for duty in duties.duties if duty.name == "limit of runs" and duty.is_due(frozenset())
        ]
        tell.done_at = float("inf")
        tell.run()
        assert shop.workshop.value(limit) == above
        settings = shop.workshop.settings(more="[reprocess]\nsecond_person_above = 9")
        duties.use(settings)
