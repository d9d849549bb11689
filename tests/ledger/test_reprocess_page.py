"""What the page of runs stands on: lists as they were seen, what may be picked, counted results, and what the database holds by itself."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import check, reprocess
from ledger.database import Transaction
from ledger.errors import AlreadyDecided
from ledger.records import Act, Role
from ledger.records.reprocess import RunMode, Wanted
from ledger.reprocess import planning as reprocess_planning
from ledger.settings import AlertSettings
from ledger.views import chosen as views_chosen
from ledger.views import picks as views_picks
from ledger.views import reprocess as views_reprocess
from ledger.views.found import Filter
from tests.fix_reprocess import PACE, Shop

REPEAT = RunMode.REPEAT


def test_what_changed_since_a_list_was_looked_at_is_left_out_with_the_reason(shop: Shop) -> None:
    one, two, three = shop.sell(3)
    seen = shop.plan(event_ids=(one, two, three))
    shop.finish(shop.recompute(two))
    shop.workshop.run("DELETE FROM nottwice.event_contents WHERE event_id = :id", id=three)
    shop.workshop.run("UPDATE nottwice.events SET content_digest = NULL WHERE id = :id", id=three)
    now = reprocess.as_seen(seen, shop.plan(event_ids=(one, two, three)))
    reasons = [row.refusal.split(" (")[0].split(" [")[0] for row in now.rows]
    assert reasons == ["", reprocess_planning.CHANGED, "Its content is no longer kept"]
    assert [row.event_id for row in now.going] == [one]


def test_a_list_among_found_events_is_the_list_of_the_whole_ledger(shop: Shop) -> None:
    ids = shop.sell(3)
    shop.workshop.accept("other")
    wanted = Wanted(RunMode.RECOMPUTE, source="shop", type="sale")
    found = shop.by_console.run(
        lambda tx: views_chosen.chosen(tx, Filter(source="shop", type="sale")), role=Role.VIEWER
    )
    assert found == ids
    planned = shop.by_console.run(
        lambda tx: reprocess.planned(tx, wanted, Role.ENGINEER, among=found), role=Role.ENGINEER
    )
    assert planned == shop.plan(source="shop", type="sale") and len(planned.going) == 3
    assert (
        shop.by_console.run(
            lambda tx: len(views_chosen.chosen(tx, Filter(source="shop"), most=1)), role=Role.VIEWER
        )
        == 2
    )


def test_the_same_form_names_its_run_even_when_nothing_of_its_list_is_left(shop: Shop) -> None:
    (one,) = shop.sell()
    plan, who = shop.plan(event_ids=(one,)), shop.person()
    act = Act(who, shop.by_console.run(lambda tx: reprocess.form_of(tx, plan, who), role=who.role), "once")

    def ask(tx: Transaction) -> Any:
        now = reprocess.planned(tx, plan.wanted, who.role)
        return reprocess.request(tx, reprocess.as_seen(plan, now), act, PACE, expires_s=60)

    first = shop.by_console.run(ask, role=who.role)
    shop.turn()
    with pytest.raises(AlreadyDecided) as error:
        shop.by_console.run(ask, role=who.role)
    assert error.value.same_form
    assert (
        shop.by_console.run(lambda tx: views_reprocess.asked_with(tx, act.form_id), role=who.role)
        == first.run_id
    )


def test_a_run_that_is_done_carries_its_results(shop: Shop) -> None:
    one, two = shop.sell(2)
    run = shop.recompute(one, two)
    shop.finish(run)
    seen = shop.by_console.run(lambda tx: views_reprocess.run(tx, run), role=Role.VIEWER)
    assert seen is not None and (seen.rows, seen.done, seen.skipped, seen.failed) == (2, 2, 0, 0)
    sql = "SELECT rows_done, rows_skipped, rows_failed FROM nottwice.reprocess_runs WHERE id = :id"
    assert tuple(shop.workshop.rows(sql, id=run)[0]) == (2, 0, 0)


def test_runs_come_page_by_page_and_those_that_wait_by_themselves(shop: Shop) -> None:
    ids = shop.sell(3)
    shop.settle()
    runs = [shop.recompute(one) for one in ids]
    waits = shop.ask(shop.plan(REPEAT, action_ids=(shop.actions()[0][0],))).run_id

    def read(tx: Transaction) -> Any:
        first = [run.id for run in views_reprocess.newest(tx, 2)]
        after = [run.id for run in views_reprocess.newest(tx, 9, before=first[-1])]
        return first, after, [run.id for run in views_reprocess.waiting(tx)], views_reprocess.open_runs(tx)

    assert shop.by_console.run(read, role=Role.VIEWER) == ([waits, runs[2]], [runs[1], runs[0]], [waits], (3, 1))  # fmt: skip


def test_sends_of_events_may_be_picked_with_why_not_and_as_the_role_sees_them(shop: Shop) -> None:
    one, two = shop.sell(2)
    gone = (
        "UPDATE nottwice.actions SET state = 'sent', due_at = NULL, settled_at = now() WHERE event_id = :id"
    )
    shop.workshop.run(gone, id=one)
    seen = {
        role: shop.by_console.run(
            lambda tx, role=role: views_picks.sends(tx, [one, two], (), role), role=role
        )  # type: ignore[misc]
        for role in (Role.SUPPORT, Role.ENGINEER)
    }
    assert [(pick.event_id, pick.mark, pick.row.refusal) for pick in seen[Role.ENGINEER]] == [
        (one, "action 1", ""),
        (two, "action 2", "It is not over: it is approved."),
    ]
    assert [pick.recipients for pick in seen[Role.SUPPORT]] == [("ann@example.com",)] * 2
    assert [pick.recipients for pick in seen[Role.ENGINEER]] == [("a•••@example.com",)] * 2
    (later,) = shop.by_console.run(
        lambda tx: views_picks.sends(tx, [one, two], (), Role.SUPPORT, after=1), role=Role.SUPPORT
    )
    assert later.mark == "action 2"


def test_of_what_was_found_often_the_newest_may_be_picked(shop: Shop) -> None:
    (one,) = shop.sell()
    shop.keys = ("thanks:{id}",)
    for _ in range(2):
        shop.finish(shop.recompute(one, mode=RunMode.PREVIEW))
    found = shop.by_console.run(lambda tx: views_picks.found(tx, [one], (), Role.SUPPORT), role=Role.SUPPORT)
    assert [(pick.mark, pick.recipients) for pick in found] == [("finding 2", ("ann@example.com",))]


def test_check_finds_a_run_that_waits_for_a_second_person_for_long(shop: Shop) -> None:
    shop.sell()
    shop.settle()
    shop.ask(shop.plan(REPEAT, action_ids=(1,)))

    def found(unsettled_s: float) -> list[str]:
        limits = AlertSettings(unsettled_s=unsettled_s)
        return [
            one.what
            for one in shop.workshop.database.run(lambda tx: check.findings(tx, limits))
            if one.topic is check.Topic.RUNS
        ]

    shop.workshop.run("UPDATE nottwice.reprocess_runs SET requested_at = now() - interval '20 min'")
    assert found(3600.0) == []
    (words,) = found(600.0)
    assert words.startswith("Runs wait for a second person, 1 in all; the oldest for 20 min.")
    shop.workshop.run("UPDATE nottwice.reprocess_runs SET expires_at = now()")
    assert found(600.0) == []


# ── A kind that loses its last handler ────────────────────────────────────────────────────────────────


def test_what_nobody_takes_any_more_is_left_alone_as_it_stood(shop: Shop) -> None:
    """Also of a run that was stopped meanwhile, and not before its workers are forgotten."""
    one, two = shop.sell(2)
    before = {id_: shop.event(id_) for id_ in (one, two)}
    stopped, runs_on = shop.recompute(one), shop.recompute(two)
    for _ in range(2):
        shop.turn()
    shop.decide(reprocess.cancel, stopped, shop.person(Role.ADMIN))
    shop.workshop.run("INSERT INTO nottwice.workers (id, name, handles) VALUES (gen_random_uuid(), 'w', '{shop sale}')")  # fmt: skip
    assert shop.by_worker.run(reprocess.leave_alone) == 0
    shop.workshop.run("UPDATE nottwice.workers SET handles = '{shop other}'")
    assert shop.by_worker.run(reprocess.leave_alone) == 2
    for run, event_id in ((stopped, one), (runs_on, two)):
        ((state, reason),) = shop.rows(run)
        assert (state, reason.split(".")[0]) == ("skipped", "No worker handles its kind any more")
        after = shop.event(event_id)
        stood = before[event_id]
        assert (after.state, after.ending, after.ended_at) == (stood.state, stood.ending, stood.ended_at)
    shop.turn()
    assert (shop.state(runs_on), shop.state(stopped)) == ("done", "cancelled")


def test_what_is_left_alone_lets_the_next_of_its_lane_go(shop: Shop) -> None:
    (one,) = shop.sell(lane="INV-1")
    run = shop.recompute(one)
    shop.turn()
    (behind,) = shop.workshop.accept("sale", lane="INV-1")
    shop.workshop.run("UPDATE nottwice.events SET waits_behind = :one WHERE id = :id", one=one, id=behind)
    shop.workshop.run("INSERT INTO nottwice.workers (id, name, handles) VALUES (gen_random_uuid(), 'w', '{shop other}')")  # fmt: skip
    assert shop.by_worker.run(reprocess.leave_alone) == 1
    assert shop.event(behind).waits_behind == 0 and shop.rows(run)[0][0] == "skipped"


# ── Many rows take two people, whatever a console says ────────────────────────────────────────────────


def test_by_sql_many_rows_of_one_person_take_a_second_one(shop: Shop) -> None:
    ids = shop.sell(4)
    assert shop.by_worker.run(lambda tx: reprocess.keep_limit(tx, 3))
    assert not shop.by_worker.run(lambda tx: reprocess.keep_limit(tx, 3))
    shop.recompute(ids[0], ids[1])
    asked = shop.ask(
        shop.plan(event_ids=tuple(ids[2:]))
    )  # what a console is configured with is laxer: it says 10
    assert (asked.state, "together more than 3" in asked.second_because) == ("waiting", True)
    assert "takes a second person" in _forged(shop, rows=2, says=2)
    assert "more rows than it says" in _forged(shop, rows=2, says=1)
    assert "more rows than it says" in _forged(shop, rows=1, says=1, more=2)
    assert shop.workshop.value("SELECT count(*) FROM nottwice.reprocess_runs") == 2


RUN = """INSERT INTO nottwice.reprocess_runs (mode, state, selection, why, requested_by, requested_role, row_count, list_digest,
             needs_second, pace_per_s, under_way_max, next_at, begun_at)
         VALUES ('recompute', 'running', 'x', 'x', :person, 'engineer', :says, '', false, 1, 1, now(), now()) RETURNING id"""
NOTE = """INSERT INTO nottwice.audit (person_id, role, act, entity, entity_id, entity_version, outcome, state_after, form_id)
          VALUES (:person, 'engineer', 'recompute local results', 'reprocess', :run, 1, 'done', 'running', :form)"""
ROW = """INSERT INTO nottwice.reprocess_rows (run_id, event_id, state)
         SELECT :run, id, 'waiting' FROM nottwice.events ORDER BY id LIMIT :rows"""


def _forged(shop: Shop, *, rows: int, says: int, more: int = 0) -> str:
    """A console that skips the ledger's own question; what the database says to it. `more` come after all was checked."""
    person = shop.person()

    def forge(tx: Transaction) -> None:
        run = tx.one(RUN, person=person.id, says=says).id
        tx.execute(NOTE, person=person.id, run=run, form=uuid4())
        tx.execute(ROW, run=run, rows=rows)
        if more:
            tx.execute("SET CONSTRAINTS ALL IMMEDIATE")
            tx.execute(ROW, run=run, rows=more)

    with pytest.raises(DBAPIError) as error:
        shop.by_console.run(forge, role=Role.ENGINEER)
    return str(error.value)
