"""The duties nobody waits for: the sweep, the seals, the folding of counters. In a thread and on a connection of
its own, outside the queue; one that fails is said and does not stop the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ledger import actions, audit, counters, work, workers
from ledger.database import Database, Transaction
from ledger.settings import Settings
from worker.observer import note

ROWS_MAX = 100  # a sweep's batch; while it is full the next one follows at once
HOUR_S = 3600.0


@dataclass(slots=True)
class Duty:
    name: str
    every_s: float
    run: Callable[[], None]
    due_at: float = 0.0


class Maintenance:
    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings
        sweep_s = settings.worker.sweep_s
        self._duties = [
            Duty("sweep", sweep_s, self.sweep),
            Duty("seal", min(1.0, sweep_s), self._seal),
            Duty("fold", HOUR_S, lambda: self._in_tx(counters.fold)),
            Duty("forget", HOUR_S, lambda: self._in_tx(workers.forget_silent)),
        ]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopped.wait(max(0.0, min(d.due_at for d in self._duties) - time.monotonic())):
            for duty in self._duties:
                if duty.due_at <= time.monotonic():
                    duty.due_at = time.monotonic() + duty.every_s
                    self._do(duty)

    @staticmethod
    def _do(duty: Duty) -> None:
        try:
            duty.run()
        except Exception as error:  # noqa: BLE001 - the other duties go on
            note("duty failed", duty=duty.name, error=f"{type(error).__name__}: {error}"[:300])

    def _in_tx(self, body: Callable[[Transaction], object]) -> None:
        self._database.run(body)

    def sweep(self) -> None:
        """Take back expired leases, once living workers had their chance to renew."""
        settings = self._settings.worker
        may = self._database.run(
            lambda tx: workers.sweep_may_rescue(tx, sweep_s=settings.sweep_s, lease_s=settings.lease_s)
        )
        while may:
            events = self._database.run(lambda tx: work.rescue(tx, limit=ROWS_MAX))
            sends = self._database.run(lambda tx: actions.rescue(tx, limit=ROWS_MAX))
            for rescued in events:
                note("rescued", event_id=rescued.id, state=rescued.state.value)
            for rescued in sends:
                note("rescued", action_id=rescued.id, state=rescued.state.value)
            may = ROWS_MAX in (len(events), len(sends))

    def _seal(self) -> None:
        self._database.run(audit.seal)
