"""The duties nobody waits for: the sweep, the seals, the folding of counters. In the daemon's own loop, on a
connection of its own, outside the queue; one that fails is said and does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from ledger import actions, audit, counters, work, workers
from ledger.database import Database, Transaction
from ledger.settings import WorkerSettings
from worker.heartbeat import clock
from worker.observer import note

ROWS_MAX = 100  # a sweep's batch; while it is full the next one follows at once
BATCHES_MAX = 20  # then other duties have their turn
HOUR_S = 3600.0
SEAL_S = 0.25


@dataclass(slots=True)
class Duty:
    name: str
    every_s: float
    run: Callable[[], object]
    when_stirred: bool = False  # nothing to do as long as the ledger tells of nothing new
    due_at: float = 0.0


class Maintenance:
    def __init__(self, database: Database, settings: WorkerSettings) -> None:
        self._database, self._settings, self._writer = database, settings, uuid4()
        self.duties = [
            Duty("sweep", settings.sweep_s, self.sweep),
            Duty("seal", SEAL_S, self._in_transaction(audit.seal), when_stirred=True),
            Duty("fold", HOUR_S, self._in_transaction(counters.fold)),
            Duty("forget", HOUR_S, self._in_transaction(workers.forget_silent)),
        ]

    def run_due(self, *, stirred: bool = True) -> None:
        """Do what is due; the seals only when something has `stirred`. Never raises."""
        for duty in self.duties:
            if duty.due_at <= clock() and (stirred or not duty.when_stirred):
                duty.due_at = clock() + duty.every_s
                self._do(duty)

    @staticmethod
    def _do(duty: Duty) -> None:
        try:
            duty.run()
        except Exception as error:  # noqa: BLE001 - the other duties go on
            note("duty failed", duty=duty.name, error=type(error).__name__)

    def _in_transaction(self, body: Callable[[Transaction], object]) -> Callable[[], object]:
        return lambda: self._database.run(body)

    def sweep(self) -> None:
        """Take back expired leases, once living workers had their chance to renew."""
        w = self._settings
        may = self._database.run(
            lambda tx: workers.sweep_may_rescue(tx, sweep_s=w.sweep_s, lease_s=w.lease_s)
        )
        for _ in range(BATCHES_MAX if may else 0):
            events = self._database.run(lambda tx: work.rescue(tx, limit=ROWS_MAX, writer=self._writer))
            sends = self._database.run(lambda tx: actions.rescue(tx, limit=ROWS_MAX))
            for rescued in events:
                note("rescued", event_id=rescued.id, state=rescued.state.value)
            for rescued in sends:
                note("rescued", action_id=rescued.id, state=rescued.state.value)
            if ROWS_MAX not in (len(events), len(sends)):
                return
