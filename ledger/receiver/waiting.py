"""A request that waits to be stored, and all that wait no longer than their senders do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import cached_property

from ledger import inbox
from ledger.receiver.sources.adapter import Item
from ledger.records import Acceptance

log = logging.getLogger(__name__)

Outcome = list[Acceptance] | BaseException  # what became of each item, once durable, or why nobody can say


class Waiting:
    """One request: its items are stored together or not at all. `told` is called once; `is_over` from then on.

    Without a future and a timer of its own: these took a tenth of the event loop's time.
    """

    def __init__(self, items: Sequence[Item], told: Callable[[Outcome], None]) -> None:
        self.items, self._told = items, told
        self.size = len(items[0].body) if len(items) == 1 else sum(len(item.body) for item in items)
        self.is_over = False

    @cached_property
    def keys(self) -> frozenset[bytes]:
        """What its locks are about. Worked out only when something hangs."""
        return frozenset(inbox.lane_key(item) for item in self.items)

    def end(self, outcome: Outcome) -> None:
        """Nothing for one that gave up: its repeat will find the row."""
        if not self.is_over:
            self.is_over = True
            try:
                self._told(outcome)
            except Exception:
                log.exception("a request could not be answered")  # the others of its batch shall be


class Patience:
    """Gives up those that have waited too long, never a transaction that runs. All of them wait equally long."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._until: dict[Waiting, float] = {}  # in the order in which they came, and will be given up
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, waiting: Waiting) -> None:
        loop = asyncio.get_running_loop()
        self._until[waiting] = until = loop.time() + self._within_s
        if self._timer is None:
            self._timer = loop.call_at(until, self._look)

    def end(self, waiting: Waiting) -> None:
        """It waits no longer, or never did."""
        self._until.pop(waiting, None)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        late = [waiting for waiting, until in self._until.items() if until <= loop.time()]
        for waiting in late:
            waiting.end(TimeoutError("not in time"))
        oldest = next(iter(self._until.values()), None)
        self._timer = None if oldest is None else loop.call_at(oldest, self._look)
