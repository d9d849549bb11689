"""A worker's turn at removing what is over its time; which worker has it, and for how long, the ledger says."""

from __future__ import annotations

from ledger import retention
from ledger.database import Database
from ledger.settings import Settings
from worker.maintenance import Duty
from worker.observer import note

ASKED_S = 60.0  # between two questions whether it is time, while nothing is left behind


class Pruning:
    """`duty` is what maintenance does with it: soon again while something is left, else seldom."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self.duty = Duty("prune", ASKED_S, self.turn, can_wait=True)
        self.use(settings)

    def use(self, settings: Settings) -> None:
        """Go on by other periods, at another pace."""
        self._settings = settings
        self._pace(more=True)

    def turn(self) -> None:
        """Remove a little, when it is time and no other worker does; say how much of what."""
        done = retention.round_(self._database, self._settings.retention, self._settings.once_ever)
        self._pace(more=done is not None and done.more)
        if done is not None and done.counts:
            note("pruned", more=done.more, **{name.replace(" ", "_"): n for name, n in done.counts.items()})

    def _pace(self, *, more: bool) -> None:
        kept = self._settings.retention
        self.duty.every_s = kept.pause_s if more else min(ASKED_S, kept.round_every_s)
