"""Claims of events: no more than there is room for, of the kinds there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from ledger import work, workers
from ledger.database import Database, Transaction
from ledger.events.front import Front
from ledger.records import ClaimedEvent, Worker
from ledger.settings import Settings
from worker.handlers import Handlers

# A claim need not outlive a crash of the server: whoever's claim was forgotten completes nothing, for its token is not
# there. And nothing that is committed later is durable before the claim is.
NOT_WAITED_FOR = "SELECT set_config('synchronous_commit', 'off', true)"
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

        While groups are quick, one whole group more may wait. A claim takes one at a time all the same: two at once would
        be ended at once, and then nothing would run beside the next claim.
        """
        worker = self.settings.worker
        seats = worker.group_max - waiting
        if group_s < QUICK_S:
            seats = worker.group_max if waiting <= worker.group_max else 0
        return [(self._slow, worker.slots - running), (self._quick, seats)]

    def take(self, rooms: Sequence[Room], *, idle: bool) -> list[ClaimedEvent]:
        """`idle`: one event, a rescued one first; the others follow in the next turn if it was none."""
        if idle:
            (alone,) = self._database.run(lambda tx: self._take(tx, [(self._worker, 1)], idle=True))
            return alone
        asked = [(worker, room) for worker, room in rooms if room > 0 and worker.handles]
        taken = self._database.run(lambda tx: self._take(tx, asked))
        for (worker, room), claimed in zip(asked, taken, strict=True):
            self._fronts[id(worker)].move(claimed, room)
        return list(chain.from_iterable(taken))

    def _take(
        self, tx: Transaction, asked: Sequence[Room], *, idle: bool = False
    ) -> list[list[ClaimedEvent]]:
        tx.begin(NOT_WAITED_FOR)
        rules = self.settings.worker
        how: dict[str, Any] = {"lease_s": rules.lease_s, "attempts_max": rules.attempts_max, "idle": idle}
        return [
            work.claim(tx, worker, limit=room, front=self._fronts.get(id(worker)), **how)
            for worker, room in asked
        ]

    def look_at_all(self) -> None:
        """Something that was passed by may go now, such as the next one of a lane."""
        for front in self._fronts.values():
            front.forget()

    def rescued_is_due(self) -> bool:
        """Whether a rescued event waits for a process that does nothing else."""
        return self._database.run(lambda tx: workers.rescued_is_due(tx, self._worker.handles))
