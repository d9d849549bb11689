"""Making way for what was rescued: such an event runs with nothing beside it in its process.

An idle process takes it at once. A busy one looks now and then whether one waits, and if so begins nothing new
until it is empty; but not for longer than a lease, so that one long handler does not hold up everything else.
"""

from __future__ import annotations

from collections.abc import Callable

from ledger.settings import WorkerSettings
from worker.heartbeat import clock


class MakingWay:
    """`look` asks the database whether a rescued event is due."""

    def __init__(self, settings: WorkerSettings, look: Callable[[], bool]) -> None:
        self._settings, self._look = settings, look
        self._look_at = 0.0
        self._give_up_at: float | None = None

    def use(self, settings: WorkerSettings) -> None:
        """Go on with other durations; what is held is not let go."""
        self._settings = settings

    def holds_back(self) -> bool:
        """Whether a busy process should begin nothing new. Asks every `sweep_s`, every `patience_s` while it does."""
        now = clock()
        if now >= self._look_at:
            self._decide(now)
        return self.is_held

    @property
    def is_held(self) -> bool:
        return self._give_up_at is not None

    def _decide(self, now: float) -> None:
        w = self._settings
        if not self._look():
            self._give_up_at, self._look_at = None, now + w.sweep_s
        elif self._give_up_at is None:
            self._give_up_at, self._look_at = now + w.lease_s, now + w.patience_s
        elif now < self._give_up_at:
            self._look_at = now + w.patience_s
        else:
            self._give_up_at, self._look_at = None, now + w.lease_s
