"""The worker as one loop: claim, collect, commit, wait. Everything else runs beside it on threads.

Idle, it sends one statement a second. Without a database it waits with growing pauses and goes on by itself.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from types import FrameType
from uuid import uuid4

from ledger import schema, workers
from ledger.database import Database
from ledger.errors import Unavailable
from ledger.records import Worker
from ledger.settings import Settings
from worker.executor import Executor
from worker.handlers import Handlers
from worker.heartbeat import Heartbeat
from worker.maintenance import Maintenance
from worker.observer import note
from worker.providers import Provider
from worker.sender import Sender

REPLACE_ME = 3  # exit code: a handler ran too long, this process should be started anew
AWAY_S_MAX = 10.0


class Daemon:
    """`run()` returns the exit code. `stop()` may be called from a signal handler, twice for haste."""

    def __init__(
        self, settings: Settings, handlers: Handlers, providers: dict[str, Provider], name: str
    ) -> None:
        self._settings, self._handlers, self._providers = settings, handlers, providers
        self.worker = Worker(uuid4(), name, handlers.kinds)
        self._stopping = threading.Event()
        self._haste = threading.Event()
        self._due = True

    def stop(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        (self._haste if self._stopping.is_set() else self._stopping).set()

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.stop)
        database = self._open()
        if database is None:
            return 0
        self._build(database)
        note("started", worker=self.worker.name, handles=[" ".join(kind) for kind in self.worker.handles])
        while not self._stopping.is_set() and not self._heartbeat.overdue.is_set():
            self._once_or_wait()
        return self._wind_down()

    def _open(self) -> Database | None:
        """The database, as soon as it is there and has our schema; None when we are stopped before."""
        away_s = 0.2
        while not self._stopping.is_set():
            try:
                settings = self._settings
                database = settings.open_database("worker", pool_size=settings.worker.send_slots + 4)
                schema.check(database)
                database.run(lambda tx: workers.register(tx, self.worker))
            except Unavailable as error:
                note("database away", error=str(error))
                self._stopping.wait(away_s * random.uniform(0.5, 1.0))
                away_s = min(away_s * 2, AWAY_S_MAX)
            else:
                return database
        return None

    def _build(self, database: Database) -> None:
        w = self._settings.worker
        self._database = database
        self._own = self._settings.open_database("worker", pool_size=2)
        self._heartbeat = Heartbeat(self._own, self.worker, lease_s=w.lease_s, run_s_max=w.run_s_max)
        self._maintenance = Maintenance(self._own, self._settings)
        self._executor = Executor(database, self._settings, self._handlers, self.worker, self._heartbeat)
        self._sender = Sender(database, self._settings, self._providers, self.worker, self._heartbeat)
        self._away_s = 0.2
        self._heartbeat.start()
        self._maintenance.start()

    def _once_or_wait(self) -> None:
        try:
            self.run_once()
            self._away_s = 0.2
        except Unavailable as error:
            note("database away", error=str(error))
            self._stopping.wait(self._away_s * random.uniform(0.5, 1.0))
            self._away_s = min(self._away_s * 2, AWAY_S_MAX)

    def run_once(self) -> None:
        """One turn: claim when something is due, commit what is ready, and wait only when there is nothing to do."""
        executor, sender = self._executor, self._sender
        idle = executor.running == 0 and sender.calls == 0
        begun = 0
        if self._due and not executor.is_alone:
            begun = executor.claim(idle=idle)
            begun += 0 if executor.is_alone else sender.pump()
        busy = executor.running > 0
        group = executor.collect(self._settings.worker.poll_s if busy and not begun else 0.0)
        if group:
            executor.commit(group)
        if begun or group or busy:
            self._due = True
        else:
            self._due = self._wait()

    def _wait(self) -> bool:
        w = self._settings.worker
        return self._database.run(
            lambda tx: workers.wait_for_work(
                tx, self.worker.handles, self._sender.accounts, patience_s=w.patience_s, pause_s=w.poll_s
            )
        )

    def _wind_down(self) -> int:
        """Finish or hand back, within the grace period; calls under way record their answers."""
        replace = self._heartbeat.overdue.is_set()
        ends_at = time.monotonic() + self._settings.worker.grace_s
        note("stopping", running=self._executor.running, calls=self._sender.calls)
        while self._executor.running and time.monotonic() < ends_at and not self._haste.is_set():
            self._executor.commit(self._executor.collect(0.05))
        self._executor.hand_back()
        self._sender.stop(0.0 if self._haste.is_set() else max(0.0, ends_at - time.monotonic()))
        self._maintenance.stop()
        self._heartbeat.stop()
        try:
            self._database.run(lambda tx: workers.stop(tx, self.worker.id))
        except Unavailable as error:
            note("database away", error=str(error))
        note("stopped", worker=self.worker.name)
        return REPLACE_ME if replace else 0
