"""Sees that the embedded server lives while `nottwice up` or `demo` runs, and starts it again when it was killed."""

from __future__ import annotations

import time
from collections.abc import Callable

from ledger.embedded import Cluster
from ledger.errors import Unavailable

LOOK_S = 0.5


class Watch:
    """`look()` is cheap: it asks a file lock, not the server."""

    def __init__(self, cluster: Cluster, tell: Callable[[str], None]) -> None:
        self._cluster, self._tell = cluster, tell
        self._looked_at = float("-inf")

    def look(self) -> None:
        """Returns when the server lives. Raises Unavailable or Misconfigured when it cannot be started again.

        Its data are never made anew: an empty ledger in the place of one that is gone would accept everything twice.
        """
        now = time.monotonic()
        if now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        if not self._cluster.lives:
            self._start_again(now)

    def _start_again(self, since: float) -> None:
        where = self._cluster.folder / "log"
        if self._cluster.status == "absent":
            raise Unavailable(
                f"PostgreSQL ended, and its data in {self._cluster.data} are gone. Nothing runs any more."
            )
        self._tell(f"PostgreSQL ended unexpectedly and is started again; its log is in {where}")
        self._cluster.ensure()
        took_s = time.monotonic() - since
        self._tell(f"PostgreSQL answers again, after {took_s:.1f} s; what was acknowledged is there")
