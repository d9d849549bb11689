"""Worker processes and ordering keys: each lane in its order, whatever fails, and without a wait from one to the next."""

from __future__ import annotations

import functools
import operator
import signal

from tests.fix_sandbox import until
from tests.fix_worker import WITHIN_S, Workshop

IN_TURN = """
@handlers.on("shop", "step")
def think(event):
    mark = os.path.join(os.environ["NOTTWICE_HOME"], f"tried-{event.id}")
    if event.id % 7 == 0 and not os.path.exists(mark):
        open(mark, "w").close()
        raise RuntimeError("once more")

@think.apply
def step(tx, event, thought, propose):
    effect(tx, event)

@handlers.apply("shop", "quick")
def quick(tx, event, propose):
    effect(tx, event)

@handlers.apply("shop", "broken")
def broken(tx, event, propose):
    raise SetAside("never")

@handlers.apply("shop", "marked")
def marked(tx, event, propose):
    tx.execute("INSERT INTO public.effects (what) VALUES (:what)", what=f"passed over {event.passed_over}")
"""


def in_order(workshop: Workshop) -> None:
    workshop.run("ALTER TABLE public.effects ADD COLUMN place bigint GENERATED ALWAYS AS IDENTITY")


def done(workshop: Workshop) -> list[int]:
    rows = workshop.rows("SELECT split_part(what, ' ', 2)::bigint AS id FROM public.effects ORDER BY place")
    return [row.id for row in rows]


def test_two_workers_keep_every_lane_in_order_whatever_fails_and_dies(workshop: Workshop) -> None:
    """Some fail once and are tried again; one worker is killed in the middle. The others of a lane wait for it."""
    in_order(workshop)
    lanes = {name: workshop.accept(*["step"] * 8, lane=name) for name in "abc"}
    free = workshop.accept(*["step"] * 8)
    workers = [workshop.start(IN_TURN) for _ in range(2)]
    workshop.until("SELECT count(*) > 3 FROM public.effects")
    # Either of them: one may do everything while the other starts.
    doomed = until(lambda: next((one for one in workers if one.notes.of("claimed")), None), WITHIN_S)
    doomed.signal(signal.SIGKILL)
    doomed.ended()
    workshop.leases_run_out(doomed)
    workshop.until("SELECT bool_and(state = 'completed') FROM nottwice.events", within_s=60)
    order = done(workshop)
    assert sorted(order) == sorted([*functools.reduce(operator.iadd, lanes.values(), []), *free])
    for ids in lanes.values():
        assert [id_ for id_ in order if id_ in ids] == ids


def test_the_next_of_a_lane_goes_as_soon_as_one_has_ended(workshop: Workshop) -> None:
    """Though it looks for work but every five seconds while it is idle."""
    in_order(workshop)
    ids = workshop.accept(*["quick"] * 30, lane="a")
    workshop.start(IN_TURN, patience_s=10.0, poll_s=5.0)
    workshop.until("SELECT count(*) = 30 FROM public.effects", within_s=60)
    assert done(workshop) == ids


def test_a_handler_hears_who_was_passed_over(workshop: Workshop) -> None:
    (first, _) = workshop.accept("broken", "marked", lane="a")
    workshop.start(IN_TURN)
    workshop.until("SELECT count(*) = 1 FROM public.effects")
    assert workshop.effects() == [f"passed over {first}"]
    assert workshop.states() == ["failed", "completed"]
