"""Worker processes at work: real processes, killed, frozen and too slow, over a real database."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import pairwise

from ledger.retry import event_delay_s
from tests.fix_sandbox import Sandbox
from tests.fix_worker import PROVIDER, Workshop

SALE = """
@handlers.apply("shop", "sale")
def sale(tx, event, propose):
    effect(tx, event)
"""
SLOW_SALE = """
@handlers.on("shop", "sale")
def think(event):
    time.sleep(float(os.environ.get("THINKS_S", "0")))

@think.apply
def sale(tx, event, thought, propose):
    effect(tx, event)
"""


def test_a_worker_does_what_is_due_and_what_comes(workshop: Workshop) -> None:
    first = workshop.accept(*["sale"] * 60)
    worker = workshop.start(SALE)
    workshop.until("SELECT count(*) = 60 FROM public.effects")
    worker.notes.wait_for("started")
    second = workshop.accept("sale")
    workshop.until("SELECT count(*) = 61 FROM public.effects")
    assert sorted(workshop.effects()) == sorted(f"sale {n}" for n in first + second)
    assert set(workshop.states()) == {"completed"}


def test_the_next_send_goes_as_soon_as_the_call_before_has_ended(
    workshop: Workshop, sandbox: Sandbox, propose_one: Callable[..., int]
) -> None:
    """Not when the worker looks for work again: that would be patience for each, and more than the deadline for all."""
    for n in range(8):
        propose_one(f"receipt:{n}")
    more = PROVIDER.format(url=sandbox.url, timeout_s=20.0)
    workshop.start(SALE, worker="send_slots = 1", more=more, patience_s=10.0)
    workshop.until("SELECT bool_and(state = 'sent') FROM nottwice.actions")
    assert len(sandbox.mails) == 8


def test_four_workers_share_sixty_events(workshop: Workshop) -> None:
    for worker in [workshop.start(SLOW_SALE, env={"THINKS_S": "0.1"}, worker="slots = 2") for _ in range(4)]:
        worker.notes.wait_for("started")
    ids = workshop.accept(*["sale"] * 60)
    workshop.until("SELECT count(*) >= 60 FROM public.effects")
    workshop.until("SELECT bool_and(state = 'completed') FROM nottwice.events")
    assert sorted(workshop.effects()) == sorted(f"sale {n}" for n in ids)
    takers = [w for w in workshop.processes if w.notes.of("completed")]
    assert len(takers) > 1


def test_wrk_01_what_a_killed_worker_had_is_taken_over_and_runs_alone(workshop: Workshop) -> None:
    """When the lease ends, and the effect happens once (at every boundary: failures/test_boundaries.py)."""
    (event,) = workshop.accept("sale")
    killed = workshop.start(SLOW_SALE, fault="worker.in_handler=kill")
    assert killed.ended() == -signal.SIGKILL
    workshop.leases_run_out(killed)
    other = workshop.start(SLOW_SALE)
    workshop.until("SELECT bool_and(state = 'completed') FROM nottwice.events")
    assert workshop.effects() == [f"sale {event}"]
    assert other.notes.wait_for("claimed", event_ids=[event])["alone"]


def test_an_event_that_kills_its_worker_is_set_aside_and_its_neighbours_are_not(workshop: Workshop) -> None:
    poison = """
@handlers.apply("shop", "poison")
def poison(tx, event, propose):
    os.kill(os.getpid(), 9)
"""
    good = workshop.accept("sale", "sale")
    (bad,) = workshop.accept("poison")
    workshop.run(
        "UPDATE nottwice.events SET attempts = 2 WHERE id = :id", id=bad
    )  # two workers died of it already
    starts = 0
    while workshop.value("SELECT state <> 'failed' FROM nottwice.events WHERE id = :id", id=bad):
        starts += 1
        assert starts <= 5, "the attempt limit ends it"
        worker = workshop.start(SALE + poison)
        if workshop.value("SELECT attempts FROM nottwice.events WHERE id = :id", id=bad) < 5:
            assert worker.ended() == -signal.SIGKILL
            workshop.leases_run_out(worker)
        else:
            workshop.until("SELECT state = 'failed' FROM nottwice.events WHERE type = 'poison'")
    workshop.until("SELECT count(*) = 2 FROM public.effects")
    assert workshop.effects() == [f"sale {n}" for n in good]
    assert workshop.value("SELECT attempts FROM nottwice.events WHERE id = :id", id=bad) == 5
    assert workshop.value("SELECT max(attempts) <= 2 FROM nottwice.events WHERE type = 'sale'")


def test_a_frozen_worker_wakes_up_too_late(workshop: Workshop) -> None:
    """WRK-03, WRK-14: its lease is over, another has done the work; it changes nothing."""
    (event,) = workshop.accept("sale")
    frozen = workshop.start(SLOW_SALE, fault="worker.before_commit=stop@1")
    frozen.notes.wait_for("fault", point="worker.before_commit")
    workshop.cut()  # the server's own limit would end its transaction later
    workshop.leases_run_out(frozen)
    workshop.start(SLOW_SALE)
    workshop.until("SELECT bool_and(state = 'completed') FROM nottwice.events")
    frozen.signal(signal.SIGCONT)
    frozen.notes.wait_for("lease_lost", event_ids=[event])
    assert workshop.effects() == [f"sale {event}"]
    workshop.accept("sale")
    workshop.until("SELECT count(*) = 2 FROM public.effects")


def test_a_worker_is_so_slow_that_its_lease_runs_out(workshop: Workshop) -> None:
    """The heartbeat cannot save it: it holds the whole process, the heart included."""
    (event,) = workshop.accept("sale")
    slow = workshop.start(SLOW_SALE, fault="worker.in_handler=stop@1")
    slow.notes.wait_for("fault")
    workshop.leases_run_out(slow)
    workshop.start(SLOW_SALE)
    workshop.until("SELECT bool_and(state = 'completed') FROM nottwice.events")
    slow.signal(signal.SIGCONT)
    slow.notes.wait_for("lease_lost", event_ids=[event])
    assert workshop.effects() == [f"sale {event}"]


def test_a_long_handler_keeps_its_lease(workshop: Workshop) -> None:
    (event,) = workshop.accept("sale")
    workshop.start(SLOW_SALE, env={"THINKS_S": "7"}, lease_s=5.0)
    other = workshop.start(SLOW_SALE, lease_s=5.0)
    workshop.until("SELECT bool_and(state = 'completed') FROM nottwice.events")
    assert workshop.effects() == [f"sale {event}"]
    assert workshop.value("SELECT max(attempts) FROM nottwice.events") == 1
    assert not other.notes.of("rescued")


def test_work_that_keeps_failing_waits_twice_as_long_each_time_and_is_set_aside(workshop: Workshop) -> None:
    """2, 4, 8 and 16 s at a twentieth: 0.1 s doubled; and the good ones are not held up."""
    broken = """
@handlers.apply("shop", "broken")
def broken(tx, event, propose):
    raise ValueError("no")
"""
    (bad,) = workshop.accept("broken")
    workshop.accept("sale")
    workshop.start(SALE + broken)
    workshop.until("SELECT state = 'failed' FROM nottwice.events WHERE type = 'broken'")
    assert len(workshop.effects()) == 1
    rows = workshop.rows(
        "SELECT claimed_at, ended_at, ending FROM nottwice.event_attempts WHERE event_id = :id ORDER BY id",
        id=bad,
    )
    assert [row.ending for row in rows] == ["retry"] * 4 + ["set_aside"]
    waits = [(after.claimed_at - before.ended_at).total_seconds() for before, after in pairwise(rows)]
    for wait, promised in zip(waits, (0.1, 0.2, 0.4, 0.8), strict=True):
        assert promised <= wait, waits


def test_what_is_waited_is_at_most_a_quarter_longer_than_promised() -> None:
    for failures, promised_s in enumerate((2, 4, 8, 16), 1):
        assert event_delay_s(failures, 0.0) == promised_s
        assert event_delay_s(failures, 1.0) == 1.25 * promised_s


def test_the_configuration_says_after_how_many_attempts(workshop: Workshop) -> None:
    broken = (
        "@handlers.apply('shop', 'broken')\ndef broken(tx, event, propose):\n    raise ValueError('no')\n"
    )
    workshop.accept("broken")
    workshop.start(broken, worker="attempts_max = 2")
    workshop.until("SELECT state = 'failed' FROM nottwice.events")
    assert workshop.value("SELECT attempts FROM nottwice.events") == 2


def test_wall_clocks_that_disagree_change_nothing(workshop: Workshop) -> None:
    """WRK-05: ten minutes ahead and ten behind; time is the database's."""
    skewed = """
import time as clock
real = clock.time
clock.time = lambda: real() + float(os.environ["AHEAD_S"])
"""
    ids = workshop.accept(*["sale"] * 20)
    for ahead_s in ("600", "-600"):
        workshop.start(skewed + SLOW_SALE, env={"THINKS_S": "0.2", "AHEAD_S": ahead_s}, worker="slots = 3")
    workshop.until("SELECT bool_and(state = 'completed') FROM nottwice.events")
    assert sorted(workshop.effects()) == sorted(f"sale {n}" for n in ids)
    assert workshop.value("SELECT max(attempts) FROM nottwice.events") == 1


def test_a_busy_worker_makes_way_for_what_was_rescued(workshop: Workshop) -> None:
    """It never runs empty by itself; still the rescued event has its turn, with nothing beside it."""
    (rescued,) = workshop.accept("sale")
    workshop.run("UPDATE nottwice.events SET alone = true, due_at = now() + interval '1 s'")
    workshop.accept(*["sale"] * 300)
    worker = workshop.start(SLOW_SALE, env={"THINKS_S": "0.1"}, worker="slots = 4", sweep_s=0.2)
    worker.notes.wait_for("claimed", event_ids=[rescued], alone=True)
    workshop.until("SELECT state = 'completed' FROM nottwice.events ORDER BY id LIMIT 1")
    assert workshop.states().count("pending") > 0, "long before the others were done"
    worker.notes.wait_for("completed", event_ids=[rescued])
    notes = worker.notes.all
    alone = next(
        i for i, n in enumerate(notes) if n.get("event_ids") == [rescued] and n["event"] == "claimed"
    )
    done = next(
        i for i, n in enumerate(notes) if n.get("event_ids") == [rescued] and n["event"] == "completed"
    )
    begun = {n for note in notes[:alone] if note["event"] == "claimed" for n in note["event_ids"]}
    ended = {n for note in notes[:alone] if note["event"] == "completed" for n in note["event_ids"]}
    assert begun == ended, "nothing was in hand when it began"
    assert not [n for n in notes[alone + 1 : done] if n["event"] == "claimed"]


def test_a_type_nobody_handles_stays_and_stands_in_no_way(workshop: Workshop) -> None:
    workshop.accept("other", "sale")
    workshop.start(SALE)
    workshop.until("SELECT count(*) = 1 FROM public.effects")
    assert workshop.states() == ["pending", "completed"]
