"""Events worked again: what stands afterwards, what is refused, and what a recompute that fails leaves behind."""

from __future__ import annotations

from ledger.records_reprocess import RunMode
from tests.fix_reprocess import Shop


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
    assert len(shop.runs) == 2  # the handler did run


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
