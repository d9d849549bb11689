"""The duties nobody waits for: the sweep, the seals, the folding of counters, and what others add. In the daemon's own loop, on a
connection of its own, outside the queue; one that fails is said and does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from uuid import uuid4

from ledger import actions, audit, work, workers
from ledger.actions import rates
from ledger.database import Database, Transaction
from ledger.evidence import hints
from ledger.figures import counters, refusals, samples
from ledger.records import Rescued
from ledger.settings import WorkerSettings
from worker.heartbeat import clock
from worker.observer import note

ROWS_MAX = 100  # a sweep's batch; while it is full the next one follows at once
BATCHES_MAX = 20  # then other duties have their turn
HOUR_S, MINUTE_S = 3600.0, 60.0
SEAL_S = 0.25
WAITS_S = 2.0  # how late at most, what can wait while there is work


@dataclass(slots=True)
class Duty:
    """`if_told`: an idle process, which hears from the ledger what there is to do, does it only then.

    `can_wait`: while there is work it comes late, by its own period or by `WAITS_S`, whichever is less. After a start,
    too: what waits in the ledger goes first.
    """

    name: str
    every_s: float
    run: Callable[[], object]
    if_told: bool = False
    can_wait: bool = False
    done_at: float = float("-inf")
    since: float = field(default_factory=clock)

    def is_due(self, told: Set[str] | None, *, busy: bool = False) -> bool:
        asked_for = told is None or not self.if_told or self.name in told
        waits_s = min(self.every_s, WAITS_S) if busy and self.can_wait else 0.0
        return asked_for and clock() >= max(self.done_at + self.every_s, self.since) + waits_s


class Maintenance:
    def __init__(self, database: Database, settings: WorkerSettings, *further: Duty) -> None:
        self._database, self._settings, self._writer = database, settings, uuid4()
        self.duties = [*self._own_duties(), *further]

    def _own_duties(self) -> list[Duty]:
        sweep_s = self._settings.sweep_s
        return [
            Duty("sweep", sweep_s, self.sweep),
            Duty("hint", sweep_s, self._in_transaction(hints.give), if_told=True),
            Duty("seal", min(SEAL_S, sweep_s), self._in_transaction(audit.seal), if_told=True),
            Duty("fold", HOUR_S, self._in_transaction(counters.fold), can_wait=True),
            Duty("fold refusals", HOUR_S, self._in_transaction(refusals.fold), can_wait=True),
            Duty("forget", HOUR_S, self._in_transaction(workers.forget_silent), can_wait=True),
            Duty("forget rates", HOUR_S, self._in_transaction(rates.forget), can_wait=True),
            Duty("measure", MINUTE_S, self._in_transaction(samples.take), can_wait=True),
        ]

    def use(self, settings: WorkerSettings) -> None:
        """Go on at another pace; when each was done last is remembered."""
        self._settings = settings
        for duty, anew in zip(self.duties, self._own_duties(), strict=False):
            duty.every_s = anew.every_s

    def run_due(self, told: Set[str] | None = None, *, busy: bool = False) -> None:
        """Do what is due; of what an idle process is told, only that; while it is `busy`, not what can wait. Never raises."""
        for duty in self.duties:
            if duty.is_due(told, busy=busy):
                duty.done_at = clock()
                self._do(duty.name, duty.run)

    @staticmethod
    def _do(duty: str, run: Callable[[], object]) -> None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - the other duties go on
            note("duty failed", duty=duty, error=type(error).__name__)

    def _in_transaction(self, body: Callable[[Transaction], object]) -> Callable[[], object]:
        return lambda: self._database.run(body)

    def sweep(self) -> None:
        """Take back expired leases, and judge what waited too long, once living workers had their chance."""
        w = self._settings
        # The loop may be waiting for work when a sweep is due: that is no outage.
        every_s = max(w.sweep_s, w.patience_s)
        found = self._database.run(lambda tx: workers.sweep(tx, sweep_s=every_s, lease_s=w.lease_s))
        if found is None:
            return
        if found.events:  # apart: trouble with one kind must not keep the other
            self._do("rescue events", lambda: self._in_batches(self._rescue_events, "event_id"))
        if found.sends:
            self._do("rescue actions", lambda: self._in_batches(self._rescue_actions, "action_id"))
        if found.waits:
            self._do("expire actions", lambda: self._in_batches(self._expire_actions, "action_id", "expired"))

    def _in_batches(
        self, take: Callable[[Transaction], list[Rescued]], name: str, event: str = "rescued"
    ) -> None:
        for _ in range(BATCHES_MAX):
            taken = self._database.run(take)
            for one in taken:
                trouble = {"trouble": one.trouble} if one.trouble else {}
                note(event, **{name: one.id}, state=one.state.value, **trouble)
            if len(taken) < ROWS_MAX:
                return

    def _rescue_events(self, tx: Transaction) -> list[Rescued]:
        return work.rescue(tx, limit=ROWS_MAX, writer=self._writer)

    @staticmethod
    def _rescue_actions(tx: Transaction) -> list[Rescued]:
        return actions.rescue(tx, limit=ROWS_MAX)

    @staticmethod
    def _expire_actions(tx: Transaction) -> list[Rescued]:
        return actions.expire(tx, limit=ROWS_MAX)
