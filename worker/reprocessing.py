"""A worker's turns at the runs that people asked for: at most one step of one run each, as their pace allows."""

from __future__ import annotations

from ledger.database import Database
from ledger.reprocess import running as reprocess_running
from ledger.settings import Settings
from worker.maintenance import Duty
from worker.observer import note

ASKED_S = 0.5  # between two questions whether a run is due; an idle worker is told
TURNS_MAX = 10  # then other duties have their turn


class Reprocessing:
    """`duty` is what maintenance does with it."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self.duty = Duty("reprocess", ASKED_S, self.turns, if_told=True)
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """Go on by other rules; a run keeps the pace it was asked for with."""
        self._settings = settings

    def turns(self) -> None:
        """One step of each run that is due."""
        for _ in range(TURNS_MAX):
            if not self._turn():
                return

    def _turn(self) -> bool:
        rules, wait_s = self._settings.rules, self._settings.worker.decided_wait_s
        done = self._database.run(lambda tx: reprocess_running.turn(tx, rules, wait_s=wait_s))
        if done is not None and (done.begun or done.ended):
            note("reprocessing", run_id=done.run_id, begun=done.begun, ended=done.ended)
        return done is not None
