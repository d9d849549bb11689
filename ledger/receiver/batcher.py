"""Collects the requests of a few milliseconds and stores them in one transaction.

A request is answered after its commit, never before. What a failed batch is to blame on stands alone in the end:
bytes that the database cannot hold go to quarantine, a key whose lock hangs goes to a side lane for some seconds.
There the deliveries of one key are tried together, key after key, so that a hanging key slows nobody but itself.
"""

from __future__ import annotations

import time
from functools import partial

from ledger.database import Database
from ledger.errors import Unavailable
from ledger.receiver.lane import Lane
from ledger.receiver.log import note
from ledger.receiver.scribe import Scribe
from ledger.receiver.side_lane import SideLane
from ledger.receiver.waiting import Waiting
from ledger.settings import ReceiverSettings


class Batcher:
    """The receiver's way into the ledger. Lives in one event loop; so do its transactions."""

    def __init__(self, database: Database, settings: ReceiverSettings) -> None:
        self._settings = settings
        self._hanging: dict[bytes, float] = {}
        writer = partial(Scribe, database, statement_s=settings.answer_within_s)
        writers = [writer(lock_wait_s=settings.lock_wait_s) for _ in range(settings.writers)]
        self._main = Lane(writers, settings, self._step_aside)
        self._side = SideLane([writer(lock_wait_s=settings.side_wait_s)], settings, self._step_aside)

    def put(self, waiting: Waiting) -> None:
        """It is told what became of each item once that is durable, or why it must not be acknowledged.

        Raises Unavailable when too many wait already. One that gives up ends its wait, never a transaction that runs.
        """
        if waiting.items:
            (self._side if self._hangs(waiting) else self._main).put(waiting)
        else:
            waiting.end([])

    async def stop(self) -> None:
        """Returns when what was taken in has come to an end."""
        await self._main.drained()  # first: what hangs there goes on in the other
        await self._side.drained()
        self._main.close()
        self._side.close()

    def _hangs(self, waiting: Waiting) -> bool:
        if not self._hanging:
            return False
        now = time.monotonic()
        self._hanging = {key: until for key, until in self._hanging.items() if until > now}
        return not waiting.keys.isdisjoint(self._hanging)

    def _step_aside(self, part: list[Waiting]) -> None:
        """These waited for somebody else's lock in vain: they, and what comes for the same keys, wait apart."""
        until = time.monotonic() + self._settings.side_lane_s
        if any(waiting.keys.isdisjoint(self._hanging) for waiting in part):  # said once
            note("a lock hangs", requests=len(part))
        for waiting in part:
            self._hanging.update(dict.fromkeys(waiting.keys, until))
            try:
                self._side.put(waiting)
            except Unavailable as error:
                waiting.end(error)
