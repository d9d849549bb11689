"""Where a key waits whose lock hangs: apart from the others, and from each other."""

from __future__ import annotations

from collections import deque

from ledger.receiver.lane import Lane
from ledger.receiver.waiting import Waiting
from ledger.receiver.writer import is_lock_timeout


class SideLane(Lane):
    """The deliveries of one hanging key at a time, together; whose lock still hangs goes to the end of the queue."""

    def _take(self) -> list[Waiting]:
        first = next((waiting for waiting in self._queue if not waiting.is_over), None)
        if first is None:
            self._queue.clear()
            return []
        alike = [w for w in self._queue if not w.is_over and not w.keys.isdisjoint(first.keys)]
        others = [w for w in self._queue if not w.is_over and w.keys.isdisjoint(first.keys)]
        self._queue = deque([*others, *alike[self._settings.batch_max :]])
        return alike[: self._settings.batch_max]

    def _is_to_be_halved(self, part: list[Waiting], error: Exception) -> bool:
        return not is_lock_timeout(error) and super()._is_to_be_halved(part, error)
