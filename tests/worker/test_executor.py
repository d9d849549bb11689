"""Events in hand: as many as there is room for, slow parts side by side, and no trouble of one for the others."""

from __future__ import annotations

import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from ledger.database import Database, Transaction, outside_transactions
from ledger.errors import Unavailable
from ledger.records import Event, Mode, Run, Worker
from tests.fix_worker import WITHIN_S, Notes, Workshop
from worker.executor import Executor
from worker.handlers import Handlers, Propose
from worker.heartbeat import Heartbeat

# Returns when they are gone.
CUT = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE usename = 'nottwice_worker' AND datname = current_database()
"""


class Live:
    """An executor with its threads, in this process."""

    def __init__(self, workshop: Workshop, handlers: Handlers, **worker: Any) -> None:
        self.database = Database(workshop.url, pool_size=8)
        self.worker = Worker(uuid4(), "live", handlers.kinds)
        lines = "\n".join(f"{name} = {value}" for name, value in worker.items())
        settings = workshop.settings(worker=lines, lease_s=9.0)
        self.heartbeat = Heartbeat(self.database, self.worker, lease_s=9.0)
        self.executor = Executor(self.database, settings, handlers, self.worker, self.heartbeat)
        self.executor.start()

    def work_off(self, workshop: Workshop) -> None:
        """Claim until nothing is pending and nothing in hand."""
        while self.executor.claim(idle=False) or self.executor.in_hand:
            self.executor.wait(0.05)


@pytest.fixture
def live(workshop: Workshop) -> Iterator[Callable[..., Live]]:
    made: list[Live] = []

    def build(handlers: Handlers, **worker: Any) -> Live:
        made.append(Live(workshop, handlers, **worker))
        return made[-1]

    yield build
    for one in made:
        one.database.close()


def put(tx: Transaction, event: Event, prepared: str, propose: Propose) -> None:
    tx.execute("INSERT INTO public.effects (what) VALUES (:what)", what=prepared)


def test_it_claims_no_more_than_its_free_slots_and_runs_them_side_by_side(
    workshop: Workshop, live: Callable[..., Live]
) -> None:
    workshop.accept(*["sale"] * 5)
    meeting, go_on = threading.Barrier(4), threading.Event()
    handlers = Handlers()

    @handlers.on("shop", "sale")
    def meet(event: Event) -> str:
        meeting.wait(WITHIN_S)
        go_on.wait(WITHIN_S)
        return "met"

    meet.apply(put)
    one = live(handlers, slots=3)
    assert one.executor.claim(idle=False) == 3
    meeting.wait(WITHIN_S)  # all three are in their slow part at once
    assert one.executor.kinds_with_room == ()
    assert one.executor.claim(idle=False) == 0
    assert workshop.states().count("pending") == 2
    meeting.reset()
    go_on.set()
    workshop.until("SELECT count(*) = 3 FROM public.effects")


def test_quick_events_take_no_slot_and_commit_in_bounded_groups(
    workshop: Workshop, live: Callable[..., Live], notes: Notes
) -> None:
    thinking, *_ = workshop.accept("think", *["sale"] * 30)
    go_on = threading.Event()
    handlers = Handlers()

    @handlers.on("shop", "think")
    def think(event: Event) -> str:
        go_on.wait(WITHIN_S)
        return "thought"

    think.apply(put)

    @handlers.apply("shop", "sale")
    def sale(tx: Transaction, event: Event, propose: Propose) -> None:
        tx.execute("INSERT INTO public.effects (what) VALUES (:what)", what=f"sale {event.id}")

    one = live(handlers, slots=1, group_max=8)
    while workshop.states().count("completed") < 30:
        one.executor.claim(idle=False)
        one.executor.wait(0.02)
    assert workshop.states()[0] == "processing", "the long one holds up none of the short ones"
    go_on.set()
    workshop.until("SELECT count(*) = 31 FROM public.effects")
    notes.wait_for("completed", event_ids=[thinking])
    sizes = [len(note["event_ids"]) for note in notes.of("completed")]
    assert max(sizes) <= 8 and sum(sizes) == 31


def test_a_slow_part_runs_once_even_if_its_group_is_undone(
    workshop: Workshop, live: Callable[..., Live], notes: Notes
) -> None:
    ids = workshop.accept(*["sale"] * 4, "broken")
    ran: list[int] = []
    together = threading.Barrier(5)
    handlers = Handlers()

    def prepare(event: Event) -> str:
        ran.append(event.id)
        together.wait(WITHIN_S)
        return f"sale {event.id}"

    def fail(tx: Transaction, event: Event, prepared: str, propose: Propose) -> None:
        raise RuntimeError(prepared)

    handlers.on("shop", "sale")(prepare).apply(put)
    handlers.on("shop", "broken")(prepare).apply(fail)
    one = live(handlers)
    one.executor.claim(idle=False)
    workshop.until("SELECT count(*) = 4 FROM public.effects")
    notes.wait_for("retried", event_ids=[ids[-1]])
    assert sorted(ran) == ids


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), None])
def test_whatever_a_slow_part_raises_is_its_own_failure(
    workshop: Workshop, live: Callable[..., Live], notes: Notes, error: BaseException | None
) -> None:
    (bad, good) = workshop.accept("bad", "good")
    handlers = Handlers()

    async def cancelled() -> None:
        raise CancelledError  # no Exception: a worker that catches only those loses the event

    def raises(event: Event) -> Any:
        if error is None:
            return cancelled()
        raise error

    handlers.on("shop", "bad")(raises).apply(put)
    handlers.on("shop", "good")(lambda event: "good").apply(put)
    live(handlers).executor.claim(idle=False)
    notes.wait_for("retried", event_ids=[bad])
    notes.wait_for("completed", event_ids=[good])
    assert workshop.value("SELECT last_error FROM nottwice.events WHERE id = :id", id=bad)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, CancelledError])
def test_wrk_07_an_apply_part_that_would_end_the_thread_is_a_failure_like_any_other(
    workshop: Workshop, live: Callable[..., Live], notes: Notes, error: type[BaseException]
) -> None:
    """No Exception, any of them: whoever catches only those loses the thread that commits, and with it all work."""
    handlers = Handlers()

    @handlers.apply("shop", "bad")
    def bad(tx: Transaction, event: Event, propose: Propose) -> None:
        raise error

    @handlers.apply("shop", "good")
    def good(tx: Transaction, event: Event, propose: Propose) -> None:
        put(tx, event, "good", propose)

    (event,) = workshop.accept("bad")
    own = live(handlers)
    own.executor.claim(idle=False)
    notes.wait_for("retried", event_ids=[event])
    workshop.accept("good")
    own.executor.claim(idle=False)
    notes.wait_for("completed")
    assert workshop.value("SELECT last_error FROM nottwice.events WHERE id = :id", id=event).startswith(
        error.__name__
    )


def test_no_call_inside_the_transaction(workshop: Workshop, live: Callable[..., Live], notes: Notes) -> None:
    workshop.accept("sale")
    called: list[int] = []
    handlers = Handlers()

    @handlers.apply("shop", "sale")
    def calls(tx: Transaction, event: Event, propose: Propose) -> None:
        outside_transactions(called.append, 1)

    live(handlers).executor.claim(idle=False)
    notes.wait_for("retried")
    assert not called
    assert "CallInsideTransaction" in workshop.value("SELECT last_error FROM nottwice.events")


def test_an_apply_part_that_waits_for_a_lock_holds_up_nobody(
    workshop: Workshop, live: Callable[..., Live]
) -> None:
    workshop.run("CREATE TABLE public.stock (n int)")
    workshop.run("INSERT INTO public.stock VALUES (0)")
    handlers = Handlers()

    @handlers.apply("shop", "sell")
    def sell(tx: Transaction, event: Event, propose: Propose) -> None:
        tx.execute("UPDATE public.stock SET n = n + 1")

    @handlers.apply("shop", "sale")
    def sale(tx: Transaction, event: Event, propose: Propose) -> None:
        tx.execute("INSERT INTO public.effects (what) VALUES ('sale')")

    workshop.accept("sale", "sell", "sale")
    one = live(handlers)
    held = Database(workshop.database.engine.url, pool_size=1)
    with held.transaction() as tx:
        tx.execute("UPDATE public.stock SET n = 10")
        claiming = threading.Thread(target=one.executor.claim, kwargs={"idle": False})
        claiming.start()
        claiming.join(WITHIN_S)
        _elsewhere(lambda: workshop.until("SELECT count(*) = 2 FROM public.effects"))
    held.close()
    workshop.until("SELECT n = 11 FROM public.stock")
    assert workshop.states() == ["completed"] * 3


def _elsewhere(body: Callable[[], None]) -> None:
    """On another thread, because this one holds a transaction open."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            body()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(2 * WITHIN_S)
    if failed:
        raise failed[0]


def test_broken_connections_lose_and_double_nothing(
    workshop: Workshop, live: Callable[..., Live], notes: Notes
) -> None:
    """Every connection of the worker is cut in the middle of a group, and again while its members are settled alone."""
    ids = workshop.accept(*["sale"] * 12)
    passes = count(1)
    handlers = Handlers()

    @handlers.apply("shop", "sale")
    def sale(tx: Transaction, event: Event, propose: Propose) -> None:
        if next(passes) in (3, 6, 15):
            _elsewhere(lambda: workshop.run(CUT))
        tx.execute("INSERT INTO public.effects (what) VALUES (:what)", what=f"sale {event.id}")

    one = live(handlers, group_max=4)
    while workshop.states() != ["completed"] * 12:
        with suppress(Unavailable):  # the daemon's loop tries again
            one.executor.claim(idle=False)
        one.executor.wait(0.02)
    assert workshop.effects() == sorted(f"sale {n}" for n in ids)
    assert notes.of("group undone") and next(passes) > 15


def test_two_whole_groups_are_under_way_at_once_until_one_is_undone(
    workshop: Workshop, live: Callable[..., Live], notes: Notes
) -> None:
    """They may have fought over the user's rows: from then on one follows the other."""
    workshop.accept(*["sale"] * 16)
    meeting, met, within, most = threading.Barrier(2), set[str](), set[str](), [0]
    handlers = Handlers()

    @handlers.apply("shop", "sale")
    def sale(tx: Transaction, event: Event, propose: Propose) -> None:
        name = threading.current_thread().name
        if name in ("commits", "whole groups") and name not in met:
            met.add(name)
            meeting.wait(WITHIN_S)
            raise RuntimeError("undone")
        within.add(name)
        most[0] = max(most[0], len(within & {"commits", "whole groups"}))
        threading.Event().wait(0.002)
        within.discard(name)
        tx.execute("INSERT INTO public.effects (what) VALUES (:what)", what=f"sale {event.id}")

    one = live(handlers, group_max=8)
    while len(notes.of("group undone")) < 2:
        one.executor.claim(idle=False)
        one.executor.wait(0.02)
    assert met == {"commits", "whole groups"}
    workshop.accept(*["sale"] * 30)
    one.work_off(workshop)
    assert most == [1] and len(workshop.effects()) == 46


def test_a_handler_past_its_time_loses_its_lease(
    workshop: Workshop, live: Callable[..., Live], notes: Notes
) -> None:
    (event,) = workshop.accept("sale")
    go_on = threading.Event()
    handlers = Handlers()

    @handlers.on("shop", "sale")
    def hangs(event: Event) -> str:
        go_on.wait(WITHIN_S)
        return "late"

    hangs.apply(put)
    one = live(handlers, run_s_max=0.1)
    one.executor.claim(idle=False)
    (token,) = [held.claimed.lease for held in one.executor._in_hand.values()]
    while not one.executor.overdue:
        one.executor.drop_overdue()
        one.executor.wait(0.02)
    assert notes.of("ran too long", event_id=event)
    assert not one.heartbeat.is_sure(token), "it is not renewed any more"
    one.executor.hand_back()
    assert workshop.states() == ["processing"], "it is not handed back either: its attempt is burnt"
    go_on.set()
    notes.wait_for("completed")  # nobody has taken it yet


def test_both_parts_are_told_of_their_run_and_have_the_whole_time_each(
    workshop: Workshop, live: Callable[..., Live], notes: Notes
) -> None:
    workshop.accept("sale")
    workshop.run("UPDATE nottwice.events SET mode = 'recompute', run = 2")
    told: list[tuple[Run, float]] = []
    handlers = Handlers()

    @handlers.on("shop", "sale")
    def look(event: Event) -> None:
        told.append((event.run, event.run.remaining_s()))
        event.run.deadline.at -= 200  # as if it had thought for so long

    @look.apply
    def look_again(tx: Transaction, event: Event, prepared: None, propose: Propose) -> None:
        told.append((event.run, event.run.remaining_s()))

    one = live(handlers, run_s_max=300, attempts_max=7)
    one.executor.claim(idle=False)
    notes.wait_for("completed")
    assert [run for run, _ in told] == [Run(Mode.RECOMPUTE, 2, 1, 7)] * 2
    assert all(200 < left <= 300 for _, left in told)
