"""Claims of events: no more than there is room for, of the kinds there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ledger import work, workers
from ledger.database import Database, Transaction
from ledger.records import ClaimedEvent, Worker
from ledger.settings import Settings
from worker.handlers import Handlers

Room = tuple[Worker, int]  # of which kinds, and how many more


class Claims:
    """Takes events for one process. `settings` may be replaced at any time."""

    def __init__(self, database: Database, settings: Settings, handlers: Handlers, worker: Worker) -> None:
        self._database, self.settings, self._worker = database, settings, worker
        self._slow = replace(worker, handles=handlers.slow_kinds)
        self._quick = replace(worker, handles=handlers.quick_kinds)

    def rooms(self, running: int, waiting: int) -> list[Room]:
        """What there is room for while so many slow parts run and so many events wait for a group."""
        worker = self.settings.worker
        return [(self._slow, worker.slots - running), (self._quick, worker.group_max - waiting)]

    def take(self, rooms: Sequence[Room], *, idle: bool) -> list[ClaimedEvent]:
        """`idle`: one event, a rescued one first; the others follow in the next turn if it was none."""
        return self._database.run(lambda tx: self._take(tx, rooms, idle=idle))

    def _take(self, tx: Transaction, rooms: Sequence[Room], *, idle: bool) -> list[ClaimedEvent]:
        w = self.settings.worker
        claim = partial(work.claim, tx, lease_s=w.lease_s, attempts_max=w.attempts_max)
        if idle:
            return claim(self._worker, limit=1, idle=True)
        claimed: list[ClaimedEvent] = []
        for worker, room in rooms:
            if room > 0 and worker.handles:
                claimed += claim(worker, limit=room)
        return claimed

    def rescued_is_due(self) -> bool:
        """Whether a rescued event waits for a process that does nothing else."""
        return self._database.run(lambda tx: workers.rescued_is_due(tx, self._worker.handles))
