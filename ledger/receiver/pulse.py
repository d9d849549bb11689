"""A receiver's sign of life, and what it has refused: one small transaction now and then, for everything together."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from concurrent.futures import Executor
from functools import partial
from uuid import uuid4

from ledger import workers
from ledger.database import Database, Transaction
from ledger.figures import refusals
from ledger.figures.refusals import Refusal
from ledger.receiver.log import note
from ledger.records import Worker
from ledger.settings import Settings

COUNTS_EVERY_S = 1.0


class Tally:
    """Counts refusals in memory: by configured names and reasons alone, so that no stranger makes it grow."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Refusal]] = Counter()

    def add(self, reason: Refusal, source: str = "") -> None:
        self._counts[source, reason] += 1

    def take(self) -> Counter[tuple[str, Refusal]]:
        """What was counted since; it is the caller's now."""
        taken, self._counts = self._counts, Counter()
        return taken

    def give_back(self, taken: Counter[tuple[str, Refusal]]) -> None:
        self._counts.update(taken)


class Pulse:
    """Beats until it is stopped, whatever the database does: what could not be written waits for the next beat."""

    def __init__(self, settings: Settings, tally: Tally) -> None:
        self.id = uuid4()
        self.has_refused = False  # the configuration that it was told to read again
        self._name = f"receiver-{settings.receiver_port}"
        self._every_s, self._tally = settings.receiver.beat_s, tally
        self._beaten_at, self._misses = float("-inf"), 0

    async def beat(self, database: Database, desk: Executor) -> None:
        """Returns only by being cancelled."""
        while True:
            await self._once(database, desk, is_last=False)
            await asyncio.sleep(min(COUNTS_EVERY_S, self._every_s))

    async def stop(self, database: Database, desk: Executor) -> None:
        """An orderly end, noted; with it what was counted last."""
        await self._once(database, desk, is_last=True)

    async def _once(self, database: Database, desk: Executor, *, is_last: bool) -> None:
        counts, is_due = self._tally.take(), is_last or time.monotonic() - self._beaten_at >= self._every_s
        if not counts and not is_due:
            return
        body = partial(self._write, counts=counts, is_due=is_due, is_last=is_last)
        try:
            await asyncio.get_running_loop().run_in_executor(desk, database.run, body)
        except Exception as error:  # noqa: BLE001 - the next beat tries again; who asks is told by /readyz
            self._miss(counts, error)
        else:
            self._misses = 0
            self._beaten_at = time.monotonic() if is_due else self._beaten_at

    def _write(
        self, tx: Transaction, counts: Counter[tuple[str, Refusal]], is_due: bool, is_last: bool
    ) -> None:
        refusals.add(tx, self.id, counts)
        if is_last:
            workers.stop(tx, self.id)
        elif is_due:
            workers.register(tx, Worker(self.id, self._name), kind="receiver", refused=self.has_refused)

    def _miss(self, counts: Counter[tuple[str, Refusal]], error: Exception) -> None:
        """Said once an outage."""
        self._tally.give_back(counts)
        self._misses += 1
        if self._misses == 1:
            note("no sign of life", error=type(error).__name__)
