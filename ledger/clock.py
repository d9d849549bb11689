"""The clock that durations on this machine are measured by. Standard library only."""

from __future__ import annotations

import time


def clock() -> float:
    """Seconds that never jump, the same in every process. Linux: counts on in suspend, so that a closed lid stretches nothing."""
    boottime: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)
