"""When a batch sets out, by a clock of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from ledger.receiver.lane import PATIENCE, Lane
from ledger.receiver.scribe import Scribe
from ledger.receiver.waiting import Outcome, Waiting
from ledger.settings import ReceiverSettings
from tests.fix_events import delivery

WAIT_S = ReceiverSettings().batch_wait_s
HARDLY_S = WAIT_S / 100


class Clocked(asyncio.SelectorEventLoop):
    """Its time goes on when it is told to."""

    now = 1_000.0

    def time(self) -> float:
        return self.now

    async def go_on(self, by_s: float) -> None:
        self.now += by_s
        for _ in range(5):  # turns, in which all that is due is done
            await asyncio.sleep(0)


class Never:
    """A writer that never comes back, as one whose batch meets a lock."""

    async def store(self, items: Sequence[object], *, hurried: bool = False) -> list[Any]:
        return await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(("out_for", "leaves_after"), [(0.5, PATIENCE), (PATIENCE, 1)])
def test_a_second_batch_waits_for_a_writer_that_is_soon_back_and_for_no_other(
    out_for: float, leaves_after: int
) -> None:
    """Who is out for so long waits for somebody's lock: the others shall not be late for it."""
    loop = Clocked()

    async def second() -> list[bool]:
        lane = Lane([cast(Scribe, Never()) for _ in range(2)], ReceiverSettings(), lambda part: None)
        lane.put(Waiting([delivery("first")], _unheard))
        await loop.go_on(WAIT_S)
        await loop.go_on(out_for * WAIT_S)
        lane.put(Waiting([delivery("second")], _unheard))
        waits = []
        for by_s in (leaves_after * WAIT_S - HARDLY_S, 2 * HARDLY_S):
            await loop.go_on(by_s)
            waits.append(bool(lane._queue))
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await loop.go_on(0)
        return waits

    with ThreadPoolExecutor(1) as beside:  # a browser's test before this one may have left a loop here
        assert beside.submit(loop.run_until_complete, second()).result() == [True, False]
    loop.close()


def _unheard(outcome: Outcome) -> None:
    raise AssertionError(outcome)
