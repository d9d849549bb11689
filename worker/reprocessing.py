"""A worker's turns at the runs that people asked for: at most one step of one run each, as their pace allows.

And the database is told from how many rows on a run takes a second person.
"""

from __future__ import annotations

from ledger import reprocess
from ledger.database import Database
from ledger.reprocess import running as reprocess_running
from ledger.settings import Settings
from worker.maintenance import HOUR_S, Duty
from worker.observer import note

ASKED_S = 0.5  # between two questions whether a run is due; an idle worker is told
TURNS_MAX = 10  # then other duties have their turn


class Reprocessing:
    """`duties` are what maintenance does with it."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._limit = Duty("limit of runs", HOUR_S, self.keep_limit)
        self.duties = (
            Duty("reprocess", ASKED_S, self.turns, if_told=True),
            self._limit,
        )
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """Go on by other rules; a run keeps the pace it was asked for with."""
        self._settings = settings
        self._limit.done_at = float("-inf")  # the next round tells the database

    def turns(self) -> None:
        """One step of each run that is due."""
        for _ in range(TURNS_MAX):
            if not self._turn():
                return

    def keep_limit(self) -> None:
        """The number of this configuration; where workers have different ones, the last to say it holds."""
        above = self._settings.reprocess.second_person_above
        self._database.run(lambda tx: reprocess.keep_limit(tx, above))

    def _turn(self) -> bool:
        rules, wait_s = self._settings.rules, self._settings.worker.decided_wait_s
        done = self._database.run(lambda tx: reprocess_running.turn(tx, rules, wait_s=wait_s))
        if done is not None and (done.begun or done.ended):
            note("reprocessing", run_id=done.run_id, begun=done.begun, ended=done.ended)
        return done is not None
