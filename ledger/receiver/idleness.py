"""Ends a line on which nothing is asked for so long. One timer, set on when it rings: one for each answer took longer
than to spell the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Idleness:
    """Calls `close` when the line was idle for `within_s` seconds without a break."""

    def __init__(self, loop: asyncio.AbstractEventLoop, within_s: float, close: Callable[[], None]) -> None:
        self._loop, self._within_s, self._close = loop, within_s, close
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._within_s, self._ring)

    def end(self) -> None:
        self._since = None

    def stop(self) -> None:
        """The line is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._since is None:
            return
        left_s = self._since + self._within_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._ring)
        else:
            self._close()
