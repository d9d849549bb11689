"""What all sessions of one console share: configuration, database, the latest figures, and who has what open.

The figures are read once for everybody, at most every `refresh_s`; while the database is gone, the last ones stay.
Kept in this process's memory, so a second console beside this one has figures and presence of its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Generic, TypeVar

from dashboard.roles_now import RolesNow
from ledger import check, views
from ledger.database import Database, Transaction
from ledger.errors import Misconfigured, TooSlow
from ledger.figures import samples
from ledger.records import Role
from ledger.settings import Settings, load
from ledger.views.events import within

T = TypeVar("T")
LOG = logging.getLogger("nottwice.console")
LEFT_OFF_S = 3600  # for how long a choice that was begun and not pressed is told of
CHARTS_EVERY = 5  # charts are read anew every so many refreshes of the figures
MONTH_EVERY_S = 60.0  # as often as a worker measures
REHEARSED_EVERY_S = 120.0  # whether a receiver could start is asked of a process of its own


@dataclass(frozen=True, slots=True)
class Glance(Generic[T]):
    """The latest figures and their age; `gone_since` when the database cannot be read since then.

    `slow`: the last reading took longer than people wait, and was stopped.
    """

    figures: T | None
    age_s: float
    gone_since: datetime | None
    slow: bool = False


class Shared(Generic[T]):
    """One value for all viewers, read again when it is older than `every_s`. A reader never waits for another's
    reading while there is an older value to show."""

    def __init__(self, read: Callable[[], T], every_s: float) -> None:
        self._read, self._every_s = read, every_s
        self._lock = threading.Lock()
        self._value: T | None = None
        self._read_at = self._tried_at = float("-inf")
        self._gone_since: datetime | None = None
        self._slow = False

    def glance(self) -> Glance[T]:
        if time.monotonic() - self._tried_at >= self._every_s and self._lock.acquire(
            blocking=self._value is None
        ):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._latest()

    def _latest(self) -> Glance[T]:
        return Glance(self._value, time.monotonic() - self._read_at, self._gone_since, self._slow)

    def forget(self) -> None:
        """Somebody changed something: the next glance reads."""
        self._tried_at = float("-inf")

    def _refresh(self) -> None:
        if time.monotonic() - self._tried_at < self._every_s:
            return  # somebody else read while we waited
        self._tried_at = time.monotonic()
        try:
            self._value, self._read_at, self._gone_since = self._read(), time.monotonic(), None
            self._slow = False
        except TooSlow:
            self._gone_since, self._slow = None, True
        except Exception as error:  # noqa: BLE001 - whatever it is, the last figures stay and the page says so
            LOG.warning("the figures could not be read: %s", type(error).__name__)
            self._gone_since = self._gone_since or datetime.now(UTC)


class Later(Shared[T]):
    """A value that takes long to get: nobody waits for it, and until it is there, there is none."""

    def glance(self) -> Glance[T]:
        if time.monotonic() - self._tried_at >= self._every_s and self._lock.acquire(blocking=False):
            threading.Thread(target=self._read_apart, daemon=True).start()
        return self._latest()

    def _read_apart(self) -> None:
        try:
            self._refresh()
        finally:
            self._lock.release()


@dataclass(slots=True)
class Visit:
    """One session that has a send open."""

    name: str
    person_id: int
    seen_at: float
    choosing_since: datetime | None = None
    version: int = 0  # of the send as this session drew it


def _has_left_off(visit: Visit, now: float) -> bool:
    """Whether it was choosing when it fell silent, not too long ago to be told of."""
    return visit.choosing_since is not None and now - visit.seen_at <= LEFT_OFF_S


class House:
    """Made once a process. Opening the database waits for the first read, so that a console starts without it."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.configured_at = settings, datetime.now(UTC)
        self.roles = RolesNow(settings)
        self.snapshot = Shared(self._snapshot, settings.console.refresh_s)
        self.hour = Shared(self._hour, settings.console.refresh_s * CHARTS_EVERY)
        self.leases = Shared(self._in_hand, settings.console.refresh_s * CHARTS_EVERY)
        self.health = Shared(self._health, settings.console.refresh_s * CHARTS_EVERY)
        self.month = Shared(self._month, MONTH_EVERY_S)
        self._refused_at_a_start = Later(self._rehearsed, REHEARSED_EVERY_S)
        self._visits: dict[int, dict[str, Visit]] = {}
        self._visits_lock = threading.Lock()

    @cached_property
    def database(self) -> Database:
        return self.settings.open_database("console")

    def count_anew(self) -> None:
        self.snapshot.forget()
        self.health.forget()

    def read_anew(self) -> None:
        """Nothing that was read stays: for whoever measures what reading takes."""
        for shared in (self.snapshot, self.hour, self.leases, self.health, self.month):
            shared.forget()

    def visit(
        self, action_id: int, session: str, name: str, person_id: int, *, choosing: bool, version: int = 0
    ) -> list[Visit]:
        """Say that this session has the send open; returns the other people who have, first come first."""
        now, silent_s = time.monotonic(), 3 * self.settings.console.refresh_s + 1
        with self._visits_lock:
            here = self._visits.setdefault(action_id, {})
            mine = here.setdefault(session, Visit(name, person_id, now))
            mine.seen_at, since = now, mine.choosing_since or datetime.now(UTC)
            mine.choosing_since, mine.version = since if choosing else None, version
            live = {key: visit for key, visit in here.items() if now - visit.seen_at <= silent_s}
            kept = {key: visit for key, visit in here.items() if _has_left_off(visit, now)}
            self._visits[action_id] = kept | live
            return [visit for visit in live.values() if visit.person_id != person_id]

    def left_off(self, action_id: int, session: str, person_id: int, version: int) -> datetime | None:
        """Since when another session of the same person was choosing about this very version, if one was."""
        with self._visits_lock:
            others = {key: visit for key, visit in self._visits.get(action_id, {}).items() if key != session}
        begun = [
            visit.choosing_since
            for visit in others.values()
            if (visit.person_id, visit.version) == (person_id, version)
        ]
        return max((at for at in begun if at is not None), default=None)

    def _snapshot(self) -> views.Snapshot:
        # A worker gives three signs a lease: whoever missed all of them has lost its work, whatever alerts wait for.
        silent_s = min(self.settings.worker.lease_s, self.settings.alerts.worker_silent_s)
        unknown_s = self.settings.alerts.endpoints_unknown_s
        return self._read(lambda tx: views.snapshot(tx, silent_s=silent_s, unknown_s=unknown_s))

    def _hour(self) -> views.Hour:
        return self._read(views.hour)

    def _in_hand(self) -> tuple[views.LeaseAge, ...]:
        lease_s = self.settings.worker.lease_s
        return self._read(lambda tx: views.oldest_leases(tx, lease_s=lease_s))

    def _health(self) -> check.Health:
        """By the configuration as it is on disk now, as `nottwice check` reads it, with what waits as all pages have it."""
        counted = self.snapshot.glance().figures
        kinds = counted.kinds if counted else None
        refused = self._refused_at_a_start.glance().figures
        try:
            now = load()
        except Misconfigured as error:
            now, refused = self.settings, [check.unreadable(error)]
        return self._read(lambda tx: check.health(tx, now, refused, kinds))

    def _rehearsed(self) -> list[check.Finding]:
        return check.refused_at_a_start(load())

    def _month(self) -> tuple[samples.Sample, ...]:
        return self._read(samples.month)

    def _read(self, query: Callable[[Transaction], T]) -> T:
        """With a viewer's rights, and stopped when it takes longer than people wait. Raises TooSlow."""

        def bounded(tx: Transaction) -> T:
            with within(tx):
                return query(tx)

        return self.database.run(bounded, role=Role.VIEWER)
