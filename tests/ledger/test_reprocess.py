"""Events worked again: what stands afterwards, what is refused, and what a recompute that fails leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError

from ledger import reprocess, work
from ledger.events import recovery
from ledger.records import AcceptanceKind, Act, Role
from ledger.records.reprocess import RunMode
from ledger.reprocess import running as reprocess_running
from tests.fix_events import Crowd, Ledger, delivery, worker
from tests.fix_reprocess import POST, Shop
from worker.commits import Commits
from worker.handlers import Handlers
from worker.in_hand import Ending, InHand, Stage


def test_a_recompute_repeats_the_local_change_and_no_action(shop: Shop) -> None:
    one, two = shop.sell(2)
    shop.settle()
    before = shop.actions()
    run = shop.recompute(one, two)
    assert shop.finish(run) == [("done", ""), ("done", "")]
    assert shop.actions() == before
    assert shop.workshop.effects() == sorted([f"Paid. {one}", f"Paid. {two}"] * 2)
    assert shop.runs[2:] == [(one, "recompute", 2), (two, "recompute", 2)]
    assert shop.state(run) == "done"
    counts = shop.workshop.rows("SELECT found_same, found_new, found_differs FROM nottwice.reprocess_rows")
    assert [tuple(row) for row in counts] == [(1, 0, 0)] * 2


def test_attempts_are_not_rewound(shop: Shop) -> None:
    (one,) = shop.sell()
    shop.finish(shop.recompute(one))
    event = shop.event(one)
    assert (event.attempts, event.attempts_max, event.run, event.mode) == (2, 6, 2, "recompute")


def test_what_would_be_new_or_other_is_listed_and_not_made(shop: Shop) -> None:
    (one,) = shop.sell()
    shop.settle()
    before = shop.actions()
    shop.text, shop.keys = "Paid in full.", ("receipt:{id}", "thanks:{id}", "thanks:{id}")
    shop.finish(shop.recompute(one))
    assert shop.actions() == before
    found = shop.workshop.rows(
        "SELECT found, action_key, action_id, recipients FROM nottwice.reprocess_findings ORDER BY id"
    )
    assert [tuple(row) for row in found] == [
        ("differs", f"receipt:{one}", before[0][0], ["ann@example.com"]),
        ("new", f"thanks:{one}", None, ["ann@example.com"]),
    ]


def test_a_preview_changes_nothing_and_says_what_would_come(shop: Shop) -> None:
    (one,) = shop.sell()
    before, effects = shop.event(one), shop.workshop.effects()
    shop.keys = ("thanks:{id}",)
    assert shop.finish(shop.recompute(one, mode=RunMode.PREVIEW)) == [("done", "")]
    after = shop.event(one)
    assert (after.state, after.ending, after.ended_at) == (before.state, before.ending, before.ended_at)
    assert (shop.workshop.effects(), len(shop.actions())) == (effects, 1)
    assert shop.workshop.value("SELECT found FROM nottwice.reprocess_findings") == "new"
    assert shop.runs[1:] == [(one, "repeat", 2)]  # the handler did run


def test_a_recompute_that_fails_leaves_the_event_as_it_stood(shop: Shop) -> None:
    (one,) = shop.sell()
    before, effects = shop.event(one), shop.workshop.effects()
    shop.fails = True
    run = shop.recompute(one)
    while shop.state(run) == "running":
        shop.turn()
        shop.workshop.run("UPDATE nottwice.events SET due_at = now() WHERE state = 'pending'")
        shop.work_off()
    ((state, reason),) = shop.rows(run)
    assert (state, reason.split(" (")[0]) == ("failed", "ValueError: the shop is on fire")
    after = shop.event(one)
    assert (after.state, after.ending, after.ended_at) == ("completed", "done", before.ended_at)
    assert shop.workshop.effects() == effects
    assert after.attempts == 6


def test_what_cannot_be_worked_again_is_skipped_with_its_reason(shop: Shop) -> None:
    good, stripped, aside = shop.sell(3)
    (pending,) = shop.workshop.accept("sale")
    (unhandled,) = shop.workshop.accept("other")
    _strip(shop, stripped)
    shop.workshop.run("UPDATE nottwice.events SET state = 'failed', ending = NULL WHERE id = :id", id=aside)
    shop.workshop.run(
        """UPDATE nottwice.events SET state = 'completed', ending = 'unhandled', ended_at = now(), due_at = NULL WHERE id = :id""",
        id=unhandled,
    )
    shop.workshop.run(
        "INSERT INTO nottwice.workers (id, name, handles) VALUES (gen_random_uuid(), 'w', '{shop sale}')"
    )
    plan = shop.plan(event_ids=(good, stripped, aside, pending, unhandled, 999_999))
    assert [row.refusal.split(":")[0].split(" (")[0] for row in plan.rows] == [
        "",
        "Its content is no longer kept",
        "It is set aside",
        "It waits for its turn already.",
        "No worker handles this kind.",
        "It does not exist, or does not fit the rest of what was asked for.",
    ]
    run = shop.ask(plan).run_id
    shop.finish(run)
    assert [state for state, _ in shop.rows(run)] == ["done", "skipped", "skipped", "skipped", "skipped"]


def _strip(shop: Shop, event_id: int) -> None:
    """As retention does."""
    shop.workshop.run("DELETE FROM nottwice.event_contents WHERE event_id = :id", id=event_id)
    shop.workshop.run("UPDATE nottwice.events SET content_digest = NULL WHERE id = :id", id=event_id)


def test_what_changed_after_the_list_was_made_is_skipped_when_its_turn_comes(shop: Shop) -> None:
    one, two = shop.sell(2)
    run = shop.recompute(one, two)
    _strip(shop, two)
    assert [state for state, _ in shop.finish(run)] == ["done", "skipped"]


def test_an_event_is_one_runs_at_a_time(shop: Shop) -> None:
    (one,) = shop.sell()
    first, second = shop.recompute(one), shop.recompute(one)
    for _ in range(4):  # two for each, whoever comes first
        shop.turn()
    assert shop.rows(first) == [("working", "")]
    assert shop.rows(second) == [("skipped", f"Run {first} works it now.")]
    shop.work_off()
    assert (shop.rows(first), len(shop.runs)) == ([("done", "")], 2)
    with pytest.raises(IntegrityError, match="one_run_at_a_time_per_event"):
        shop.workshop.run(
            "UPDATE nottwice.reprocess_rows SET state = 'working', began_at = now(), ended_at = NULL"
        )


def test_no_more_is_under_way_than_may_be_and_the_pace_is_kept(shop: Shop) -> None:
    ids = shop.sell(6)
    run = shop.recompute(*ids)
    shop.workshop.run("UPDATE nottwice.reprocess_runs SET under_way_max = 2, pace_per_s = 0.001")
    rules = shop.workshop.settings(more=POST).rules
    for _ in range(2):  # at its pace: one a turn, and then none for 1,000 s
        assert shop.turn() == reprocess_running.Turn(run, 1, False)
        assert shop.by_worker.run(lambda tx: reprocess_running.turn(tx, rules)) is None
    assert shop.turn() == reprocess_running.Turn(run, 0, False)  # two are under way
    shop.work_off()
    assert shop.turn() == reprocess_running.Turn(run, 1, False)
    assert [state for state, _ in shop.rows(run)] == [
        "done",
        "done",
        "working",
        "waiting",
        "waiting",
        "waiting",
    ]


def test_two_runs_go_on_side_by_side(shop: Shop) -> None:
    one, two = shop.sell(2)
    runs = [shop.recompute(one), shop.recompute(two)]
    turns = [shop.turn() for _ in range(4)]
    assert {turn.run_id for turn in turns if turn and turn.begun} == set(runs)
    shop.work_off()
    assert [shop.finish(run) for run in runs] == [[("done", "")]] * 2


def test_a_cancelled_run_begins_no_further_row_and_finishes_what_is_under_way(shop: Shop) -> None:
    ids = shop.sell(3)
    run = shop.recompute(*ids)
    shop.workshop.run("UPDATE nottwice.reprocess_runs SET pace_per_s = 0.001")
    shop.turn()
    shop.decide(reprocess.cancel, run, shop.person(Role.ADMIN))
    assert shop.turn() is None
    shop.work_off()
    assert [state for state, _ in shop.rows(run)] == ["done", "waiting", "waiting"]
    assert "was first: cancelled" in shop.refused(reprocess.cancel, run, shop.person())
    assert [entry[0] for entry in shop.entries("reprocess")] == [
        "recompute local results",
        "cancelled: recompute local results",
    ]


def test_a_preview_fails_where_the_database_refuses_what_its_handler_does(shop: Shop) -> None:
    """What is undone afterwards must not hide it, nor count as done."""
    (one,) = shop.sell()
    run = shop.recompute(one, mode=RunMode.PREVIEW)
    shop.breaks = True
    while shop.state(run) == "running":
        shop.turn()
        shop.workshop.run("UPDATE nottwice.events SET due_at = now() WHERE state = 'pending'")
        shop.work_off()
    ((state, reason),) = shop.rows(run)
    assert (state, "NotNullViolation" in reason or "null value" in reason) == ("failed", True), reason
    assert shop.event(one).state == "completed" and found_nothing(shop)


def found_nothing(shop: Shop) -> bool:
    return bool(shop.workshop.value("SELECT count(*) = 0 FROM nottwice.reprocess_findings"))


def test_what_fails_after_its_run_was_cancelled_has_its_result_at_once(shop: Shop) -> None:
    (one,) = shop.sell()
    run = shop.recompute(one)
    shop.turn()
    shop.decide(reprocess.cancel, run, shop.person())
    shop.fails = True
    while shop.event(one).state != "completed":
        shop.workshop.run("UPDATE nottwice.events SET due_at = now() WHERE state = 'pending'")
        shop.work_off()
    assert [state for state, _ in shop.rows(run)] == ["failed"]


def test_each_event_has_the_askers_name_and_the_run_in_its_record(shop: Shop) -> None:
    (one,) = shop.sell()
    run = shop.recompute(one)
    shop.finish(run)
    assert shop.entries("event") == [("recompute", "Engineer", "completed", "pending")]
    detail = shop.workshop.rows("SELECT why, detail FROM nottwice.audit WHERE entity = 'event'")
    assert [tuple(row) for row in detail] == [("A rule was wrong.", f"run {run}")]


# ── Races and crashes ─────────────────────────────────────────────────────────────────────────────────


def test_a_crowd_of_turns_begins_each_row_once(shop: Shop, crowd: Callable[[int], Crowd]) -> None:
    ids = shop.sell(8)
    run = shop.recompute(*ids)
    rules = shop.workshop.settings(more=POST).rules
    deeds = [lambda: shop.by_worker.run(lambda tx: reprocess_running.turn(tx, rules))] * 6
    gathered = crowd(6)
    for _ in range(3):
        answers = gathered.at_once(deeds)
        assert not [answer for answer in answers if isinstance(answer, Exception)]
        shop.workshop.run("UPDATE nottwice.reprocess_runs SET next_at = now() WHERE state = 'running'")
    assert shop.finish(run) == [("done", "")] * 8
    assert sorted(event_id for event_id, mode, _ in shop.runs if mode == "recompute") == ids


def test_a_worker_that_dies_in_a_recompute_leaves_it_to_the_next(shop: Shop) -> None:
    """Its lease runs out, another one does it: one effect more, one result."""
    (one,) = shop.sell()
    run = shop.recompute(one)
    shop.turn()
    book = Ledger(shop.by_worker)
    dead = book.claim_one(worker(("shop", "sale")))
    shop.workshop.run(
        "UPDATE nottwice.events SET lease_until = now() - interval '1 s' WHERE id = :id", id=one
    )
    assert book.rescue() == {one: "pending"}
    shop.workshop.run("UPDATE nottwice.events SET alone = false")
    assert shop.finish(run) == [("done", "")]
    assert book.complete(dead) == set()  # it comes back, and holds nothing
    assert shop.workshop.effects() == [f"Paid. {one}"] * 2


def test_a_recompute_that_kills_its_workers_leaves_the_event_as_it_stood(shop: Shop) -> None:
    (one,) = shop.sell()
    run, before, book = shop.recompute(one), shop.event(one), Ledger(shop.by_worker)
    shop.turn()
    while shop.event(one).state == "pending":
        book.claim_one(worker(("shop", "sale")), idle=True)
        shop.workshop.run(
            "UPDATE nottwice.events SET lease_until = now() - interval '1 s' WHERE id = :id", id=one
        )
        book.rescue()
    assert (shop.event(one).state, shop.event(one).ended_at) == ("completed", before.ended_at)
    shop.turn()
    ((state, reason),) = shop.rows(run)
    assert (state, reason) == ("failed", recovery.SILENT_AGAIN)
    assert shop.state(run) == "done"


def test_a_lost_lease_leaves_no_result_and_no_local_change(shop: Shop) -> None:
    """The late worker applies its part after the lease went to another one: all of it is rolled back."""
    (one,) = shop.sell()
    shop.recompute(one)
    shop.turn()
    book = Ledger(shop.by_worker)
    late = book.claim_one(worker(("shop", "sale")))
    shop.workshop.run(
        "UPDATE nottwice.events SET lease_until = now() - interval '1 s' WHERE id = :id", id=one
    )
    book.rescue()
    handlers = Handlers()
    handlers.apply("shop", "sale")(shop.handle)
    ended: list[Ending] = []
    commits = Commits(shop.by_worker, shop.workshop.settings(more=POST), lambda _, how: ended.append(how))
    commits.settle(InHand(late, handlers.find(late.event), Stage.READY))
    assert ended == [Ending.LEASE_LOST]
    assert shop.workshop.effects() == [f"Paid. {one}"]
    assert shop.workshop.value("SELECT state FROM nottwice.reprocess_rows") == "working"


def test_a_delivery_that_comes_again_meanwhile_is_a_duplicate(shop: Shop) -> None:
    book = Ledger(shop.workshop.database)
    (one,) = book.stored("k", type="sale")
    shop.work_off()
    run = shop.recompute(one)
    shop.turn()
    (again,) = book.accept(delivery("k", type="sale"))
    assert (again.kind, again.event_id) == (AcceptanceKind.DUPLICATE, one)
    assert shop.finish(run) == [("done", "")]
    assert len(shop.actions()) == 1


def test_what_a_retry_puts_back_is_the_retrys(shop: Shop) -> None:
    """Listed while it was set aside, then put back by hand: the run leaves it alone."""
    (one,) = shop.sell()
    plan = shop.plan(event_ids=(one,))
    shop.workshop.run(
        "UPDATE nottwice.events SET state = 'failed', ending = NULL, attempts = 5, version = version + 1 WHERE id = :id",
        id=one,
    )
    act = Act(shop.person(), uuid4(), "again")
    version = shop.event(one).version
    run = shop.ask(plan).run_id
    shop.by_console.run(lambda tx: work.requeue(tx, one, version, act), role=Role.ENGINEER)
    shop.turn()
    assert shop.rows(run) == [("skipped", "It waits for its turn already.")]
    shop.work_off()
    assert shop.runs[-1][1] == "first"


def test_in_a_lane_an_earlier_event_is_worked_again_with_its_mark(shop: Shop) -> None:
    """A later one of its lane is done: the handler is told, and may refuse to overwrite newer data."""
    one, two = shop.sell(2, lane="basket-1")
    shop.finish(shop.recompute(one))
    event = shop.event(one)
    assert (event.overtaken_by, event.state) == (two, "completed")
    (three,) = shop.workshop.accept("sale", lane="basket-1")
    shop.recompute(two)
    shop.turn()
    shop.work_off()
    assert [event_id for event_id, _, _ in shop.runs[-2:]] == [two, three]  # the earlier one goes first


def test_aud_01_no_run_and_no_row_of_it_without_its_audit_row(shop: Shop) -> None:
    """While the record takes nothing, nobody asks for a run and no worker begins a row; then all of it goes on."""
    (one,) = shop.sell()
    run, person = shop.recompute(one), shop.person()
    shop.workshop.run(
        """CREATE FUNCTION public.no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the record is full'; END $$"""
    )
    shop.workshop.run(
        "CREATE TRIGGER no_room BEFORE INSERT ON nottwice.audit FOR EACH ROW EXECUTE FUNCTION public.no_room()"
    )
    for deed in (
        lambda: shop.recompute(one),
        shop.turn,
        lambda: shop.decide(reprocess.cancel, run, person),
    ):
        with pytest.raises(DBAPIError, match="the record is full"):
            deed()
    assert shop.workshop.value("SELECT count(*) FROM nottwice.reprocess_runs") == 1
    assert (shop.state(run), shop.rows(run)) == ("running", [("waiting", "")])
    assert shop.event(one).state == "completed"
    shop.workshop.run("DROP FUNCTION public.no_room() CASCADE")
    assert shop.finish(run) == [("done", "")]
