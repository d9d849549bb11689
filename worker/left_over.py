"""Duties about what would wait for ever: events of a kind that nobody handles, also in a run, and lanes behind such an event."""

from __future__ import annotations

from collections import Counter

from ledger import reprocess
from ledger.database import Database, Transaction
from ledger.events import order
from ledger.inbox import unhandled
from ledger.settings import Settings
from worker.maintenance import BATCHES_MAX, HOUR_S, Duty
from worker.observer import note

ROWS_MAX = 100
LOOKED_AT_MAX = 500
DAY_S = 86_400.0
MINUTE_S = 60.0


class LeftOver:
    """Its duties, for `Maintenance` to do when they are due."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings
        self._after = 0

    @property
    def duties(self) -> tuple[Duty, ...]:
        return (
            Duty("close unhandled", HOUR_S, self.close_unhandled, can_wait=True),
            Duty("free lanes", MINUTE_S, self.free_lanes, can_wait=True),
        )

    def use(self, settings: Settings) -> None:
        self._settings = settings

    def close_unhandled(self) -> None:
        """In small batches: what has waited as long as its key is kept, and nobody handles."""
        for _ in range(BATCHES_MAX):
            closed = self._database.run(self._close)
            for (source, type_), n in closed.items():
                note("closed as unhandled", source=source, type=type_, events=n)
            if closed.total() < ROWS_MAX:
                return

    def _close(self, tx: Transaction) -> Counter[unhandled.Kind]:
        """What a run of somebody's put back is no such event: it stands again as it stood, and long before."""
        if n := reprocess.leave_alone(tx, limit=ROWS_MAX):
            note("left alone", rows=n)
        kept = self._settings.retention
        own = {name: kept.of(name).event_keys_days * DAY_S for name in kept.namespaces}
        return unhandled.close(tx, kept_s=kept.event_keys_days * DAY_S, limit=ROWS_MAX, of_namespaces=own)

    def free_lanes(self) -> None:
        """Go on where the last turn ended, so that every lane has its turn."""
        for _ in range(BATCHES_MAX):
            found = self._database.run(
                lambda tx: order.free_forgotten(tx, after=self._after, limit=LOOKED_AT_MAX)
            )
            self._after = found.last if found.looked == LOOKED_AT_MAX else 0
            if not self._after:
                return
