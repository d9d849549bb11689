"""Where the last claims of one process ended, so that the next begins there instead of at the oldest entry. Pure.

Claimed events leave dead entries in the index of what is pending. Vacuum removes them, but not while any transaction of
the database is older: until then, a claim that begins at the front walks over all that was claimed before it.

What is due and lies behind is not lost: every quarter of a second, or more seldom where such a look is long, and whenever
a claim was not filled, the next one looks at all again. So late commits, rows that somebody else held and gave back, and
namespaces that were empty before wait for that at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from ledger.records.events import ClaimedEvent
from ledger.records.workers import Worker

LOOK_EVERY_S, LOOK_EVERY_S_MAX = 0.25, 5.0
LOOK_SHARE = 0.1  # of the time is for looks at all, at most
Place = tuple[datetime, int]  # when it was due, and its number
BEGINNING: Place = (datetime.min.replace(tzinfo=UTC), 0)
EVERYWHERE: dict[str, Any] = {"namespaces": None, "dues": None, "after": None}


class Front:
    """Of one process's claims of one set of kinds. `move` after the claim's commit, never before."""

    def __init__(self, worker: Worker, clock: Callable[[], float] = time.monotonic) -> None:
        self._kinds, self._clock = worker.handles, clock
        self._places: dict[tuple[str, str, str], Place] = {}
        self._look_at = 0.0
        self._asked_at = 0.0
        self._forgotten = False

    def ranges(self) -> dict[str, Any]:
        """What the claim is told: the ranges to look at and where each begins; or that it should look at all."""
        self._asked_at = self._clock()
        if self._forgotten or not self._places or self._asked_at >= self._look_at:
            self._forgotten = False
            self._places.clear()
            return kinds(self._kinds) | EVERYWHERE
        ranges = [(n, *kind) for n in sorted({n for n, *_ in self._places}) for kind in self._kinds]
        places = [self._places.get(one, BEGINNING) for one in ranges]
        names, sources, types = zip(*ranges, strict=True)
        dues, after = zip(*places, strict=True)
        found = {"namespaces": names, "sources": sources, "types": types, "dues": dues, "after": after}
        return {name: list(column) for name, column in found.items()}

    def move(self, claimed: Sequence[ClaimedEvent], asked: int) -> None:
        """A claim took these. Unless it was filled, and every namespace had its turn, the next one looks at all."""
        looked_at_all = not self._places
        for one in claimed:
            key = (one.event.namespace, one.event.source, one.event.type)
            if one.was_due_at is not None:
                self._places[key] = max(self._places.get(key, BEGINNING), (one.was_due_at, one.event.id))
        if len(claimed) < asked or len({one.event.namespace for one in claimed}) >= asked:
            self.forget()
        elif looked_at_all:
            took_s = self._clock() - self._asked_at
            self._look_at = self._clock() + min(max(LOOK_EVERY_S, took_s / LOOK_SHARE), LOOK_EVERY_S_MAX)

    def forget(self) -> None:
        """Let the next claim look at all: something behind may be due. May be called on any thread."""
        self._forgotten = True


def kinds(handles: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Source and type of what a process handles, as two columns."""
    return {"sources": [source for source, _ in handles], "types": [type_ for _, type_ in handles]}
