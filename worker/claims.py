"""Claims of events: no more than there is room for, of the kinds there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from ledger import work, workers
from ledger.database import Database, Transaction
from ledger.front import Front
from ledger.records import ClaimedEvent, Worker
from ledger.settings import Settings
from worker.handlers import Handlers

QUICK_S = 0.1  # a group that takes longer is no reason to keep events from other workers
Room = tuple[Worker, int]  # of which kinds, and how many more


class Claims:
    """Takes events for one process. `settings` may be replaced at any time."""

    def __init__(self, database: Database, settings: Settings, handlers: Handlers, worker: Worker) -> None:
        self._database, self.settings, self._worker = database, settings, worker
        self._slow = replace(worker, handles=handlers.slow_kinds)
        self._quick = replace(worker, handles=handlers.quick_kinds)
        self._fronts = {id(one): Front(one) for one in (self._slow, self._quick)}

    def rooms(self, running: int, waiting: int, group_s: float) -> list[Room]:
        """What there is room for while so many slow parts run, so many events wait for a group, and one takes so long.

        While groups are quick, two more may wait: then a claim takes two at once, which costs little more than one.
        """
        worker = self.settings.worker
        seats = worker.group_max - waiting
        if group_s < QUICK_S:
            seats = 3 * worker.group_max - waiting if waiting <= worker.group_max else 0
        return [(self._slow, worker.slots - running), (self._quick, seats)]

    def take(self, rooms: Sequence[Room], *, idle: bool) -> list[ClaimedEvent]:
        """`idle`: one event, a rescued one first; the others follow in the next turn if it was none."""
        if idle:
            return self._database.run(lambda tx: self._claim(tx, self._worker, limit=1, idle=True))
        asked = [(worker, room) for worker, room in rooms if room > 0 and worker.handles]
        taken = self._database.run(lambda tx: self._take(tx, asked))
        for (worker, room), claimed in zip(asked, taken, strict=True):
            self._fronts[id(worker)].move(claimed, room)
        return list(chain.from_iterable(taken))

    def _take(self, tx: Transaction, asked: Sequence[Room]) -> list[list[ClaimedEvent]]:
        return [self._claim(tx, worker, limit=room, front=self._fronts[id(worker)]) for worker, room in asked]

    def _claim(self, tx: Transaction, worker: Worker, **how: Any) -> list[ClaimedEvent]:
        # A claim need not outlive a crash of the server: whoever's claim was forgotten completes nothing, for its token
        # is not there. And nothing that is committed later is durable before the claim is.
        tx.straight("SET LOCAL synchronous_commit = off")
        rules = self.settings.worker
        return work.claim(tx, worker, lease_s=rules.lease_s, attempts_max=rules.attempts_max, **how)

    def look_at_all(self) -> None:
        """Something that was passed by may go now, such as the next one of a lane."""
        for front in self._fronts.values():
            front.forget()

    def rescued_is_due(self) -> bool:
        """Whether a rescued event waits for a process that does nothing else."""
        return self._database.run(lambda tx: workers.rescued_is_due(tx, self._worker.handles))
