"""The worker as one loop: do the duties that are due, claim what there is room for, wait. Handlers, commits, calls
and the heartbeat run beside it on threads, so nothing they do holds it up.

Idle, it sends one statement a second. Without a database it waits with growing pauses and goes on by itself.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from uuid import uuid4

from ledger import hangups, schema, workers
from ledger.database import Database
from ledger.errors import Misconfigured, Unavailable
from ledger.records import Worker
from ledger.settings import Settings
from worker import reload
from worker.accounts import Accounts
from worker.alone import MakingWay
from worker.endpoints import EndpointWatch
from worker.executor import Executor
from worker.groups import BESIDE
from worker.handlers import Handlers
from worker.heartbeat import Heartbeat, clock
from worker.left_over import LeftOver
from worker.maintenance import Duty, Maintenance
from worker.observer import note
from worker.providers import Provider
from worker.pruning import Pruning
from worker.reconciler import Reconciler
from worker.reprocessing import Reprocessing
from worker.sender import Sender
from worker.standing import StandingWatch
from worker.words import in_words

REPLACE_ME = (
    75  # exit code: a handler ran too long, this process should be started anew (sysexits: try again)
)
AWAY_S, AWAY_S_MAX = 0.2, 5.0
AGAIN_S = 0.01  # told of work that somebody else took: doubled each time
LOOKS_S = 1.0  # between two turns of look-ups
LAST_LOOK_S = 0.5  # for a question under way at the end; a longer one is asked again by another worker
LOOK_S = 0.05  # how soon a signal is seen while we wait for our own threads


class Daemon:
    """`run()` returns the exit code. `stop()` may be called from a signal handler, a second time for haste."""

    def __init__(
        self,
        settings: Settings,
        handlers: Handlers,
        providers: dict[str, Provider],
        name: str,
        *,
        end_process: Callable[[int], object] = os._exit,
    ) -> None:
        self._settings, self._handlers, self._providers = settings, handlers, providers
        self._end_process = end_process
        self.worker = Worker(uuid4(), name, handlers.kinds)
        # Plain fields, because a signal handler must not take a lock that the loop may hold.
        self._stops = 0
        self._reload = False
        self._stirred = True
        self._told: frozenset[str] | None = None  # the duties there is something for; None: nobody has asked
        self._fruitless = 0
        self._away_s = AWAY_S

    def stop(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        self._stops += 1

    def reload(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        self._reload = True

    # ── Beginning ─────────────────────────────────────────────────────────────────────────────────────

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.stop)
        signal.signal(signal.SIGHUP, self.reload)
        hangups.take()
        while not self._stops and not self._tried(self._open):
            pass
        if self._stops:
            return 0
        note("started", worker=self.worker.name, handles=[" ".join(kind) for kind in self.worker.handles])
        while not self._stops and not self._executor.overdue:
            self._tried(self.run_once)
        return self._wind_down()

    def _tried(self, turn: Callable[[], object]) -> bool:
        """Whether a turn went well; if not, a pause that grows. Only a wrong configuration ends the process."""
        try:
            turn()
        except Misconfigured:
            raise
        except Exception as error:  # noqa: BLE001 - the next turn may go well
            away = isinstance(error, Unavailable)
            note("database away" if away else "turn failed", error=str(error) if away else in_words(error))
            self._rest(self._away_s * random.uniform(0.5, 1.0))
            self._away_s = min(self._away_s * 2, AWAY_S_MAX)
            return False
        self._away_s = AWAY_S
        return True

    def _rest(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        while not self._stops and (left := ends_at - time.monotonic()) > 0:
            time.sleep(min(LOOK_S, left))

    def _open(self) -> None:
        """Connect, check the schema, register. Raises Unavailable, WrongSchema."""
        settings = self._settings
        # What is settled beside the groups, each call and look-up, and the endpoints' watch; two to spare.
        calls = settings.worker.send_slots + settings.worker.look_slots
        database = settings.open_database("worker", pool_size=calls + BESIDE + 3)
        try:
            schema.check(database, app_sql=settings.app_sql)
            database.run(lambda tx: workers.register(tx, self.worker))
        except BaseException:
            database.close()
            raise
        # For the heartbeat, the groups, and what the loop asks and claims: these go on by themselves after a broken
        # connection, and need not ask before each use whether theirs still lives.
        self._build(database, settings.open_database("worker", pool_size=4, pre_ping=False))

    def _build(self, database: Database, own: Database) -> None:
        settings, worker = self._settings, self.worker
        self._database, self._own = database, own
        self._heartbeat = Heartbeat(own, worker, lease_s=settings.worker.lease_s)
        self._reconciler = Reconciler(database, settings, self._providers, worker)
        looks = Duty("look", LOOKS_S, self._reconciler.pump, if_told=True)
        self._left_over = LeftOver(own, settings)
        self._pruning = Pruning(own, settings)
        self._reprocessing = Reprocessing(own, settings)
        self._endpoints = EndpointWatch(database, settings, self._providers)
        self._accounts = Accounts(own, settings)
        duties = (self._pruning.duty, *self._reprocessing.duties, self._endpoints.duty, self._accounts.duty)
        standing = StandingWatch(own, settings).duty
        further = (standing, looks, *self._left_over.duties, *duties)
        self._maintenance = Maintenance(own, settings.worker, *further)
        self._executor = Executor(database, settings, self._handlers, worker, self._heartbeat, own)
        self._sender = Sender(
            database, settings, self._providers, worker, self._heartbeat, self._executor.tell
        )
        self._way = MakingWay(settings.worker, self._executor.rescued_is_due)
        self._executor.start()
        self._heartbeat.start()

    # ── Going on ──────────────────────────────────────────────────────────────────────────────────────

    def run_once(self) -> None:
        """One turn. Raises Unavailable when the database is away; what is in hand waits for it."""
        if self._reload:
            self._read_again()
        self._maintenance.run_due(self._told, busy=self._stirred)
        self._executor.drop_overdue()
        begun, poll_s = self._begin() if self._stirred else 0, self._settings.worker.poll_s
        if begun:
            self._fruitless = 0
        elif self._executor.wait_for_a_lane(poll_s) or self._executor.wait_while(
            self._sender.lacks_room, poll_s
        ):
            self._stir()
        elif self._has_room():
            self._wait_for_work()
        else:
            self._executor.wait(poll_s)

    def _begin(self) -> int:
        """Claim and start what there is room for; returns how many events and calls."""
        executor, sender = self._executor, self._sender
        idle = executor.in_hand == 0 and sender.calls == 0
        if executor.is_alone or (not idle and self._way.holds_back()):
            return 0
        begun = executor.claim(idle=idle) if executor.kinds_with_room else 0
        return begun if executor.is_alone else begun + sender.pump()

    def _has_room(self) -> bool:
        """Whether anything could be begun now; if not, there is no point in asking for work."""
        if self._executor.is_alone or self._way.is_held:
            return False
        return bool(self._executor.kinds_with_room or self._sender.accounts_with_room)

    def _wait_for_work(self) -> None:
        """One statement that returns as soon as something is due. Told of work that is then not there, rest first.

        Beside calls that leave no room it only looks: it would not hear when one ends.
        """
        w, kinds, accounts = (
            self._settings.worker,
            self._executor.kinds_with_room,
            self._sender.accounts_with_room,
        )
        if self._fruitless:
            self._executor.wait(min(w.patience_s, AGAIN_S * 2 ** min(self._fruitless, 10)))
        patience_s = 0.0 if self._sender.lacks_room() else w.patience_s
        told = self._own.run(
            lambda tx: workers.wait_for_work(tx, kinds, accounts, patience_s=patience_s, pause_s=w.poll_s)
        )
        self._stirred, self._told = told.due, None if told.due else told.duties
        self._fruitless = self._fruitless + 1 if told.due else 0

    def _stir(self) -> None:
        """Look for work without asking first whether there is some."""
        self._stirred, self._told = True, None

    def _read_again(self) -> None:
        """SIGHUP: the configuration and the secrets again; a bad file keeps the old ones and says so."""
        self._reload = False
        try:
            anew = reload.read_again(self._settings, self._handlers)
        except Misconfigured as error:
            self._heartbeat.has_refused = True
            note("configuration kept", error=str(error))
            return
        self._heartbeat.has_refused = False
        self._settings = settings = anew.settings
        self._maintenance.use(settings.worker)
        self._pruning.use(settings)
        self._reprocessing.use(settings)
        self._way.use(settings.worker)
        self._executor.use(settings)
        self._sender.use(settings, anew.providers)
        self._reconciler.use(settings, anew.providers)
        self._left_over.use(settings)
        self._accounts.use(settings)
        self._endpoints.use(settings, anew.providers)
        note("configuration read", config=str(settings.config), after_restart=anew.after_restart)

    # ── Ending ────────────────────────────────────────────────────────────────────────────────────────

    def _wind_down(self) -> int:
        """Finish or hand back, within the grace period; calls under way record their answers.

        To be replaced, the other handlers may take the time they have; asked to stop, only the grace period.
        """
        code = 0 if self._stops else REPLACE_ME
        note("stopping", events=self._executor.in_hand, calls=self._sender.calls, replace=code == REPLACE_ME)
        self._sender.stop()
        self._reconciler.stop()
        if code == REPLACE_ME:
            self._finish(self._settings.worker.run_s_max, lambda: self._stops > 0)
        grace_s = self._settings.worker.grace_s
        guard = threading.Timer(grace_s, self._end_process, [code])
        guard.daemon = True
        guard.start()
        self._finish(grace_s * 0.9, lambda: self._stops > 1)
        self._executor.hand_back()
        self._reconciler.join(LAST_LOOK_S)
        self._endpoints.join(LAST_LOOK_S)
        self._heartbeat.stop()
        self._say_goodbye()
        guard.cancel()
        return code

    def _finish(self, within_s: float, is_hasty: Callable[[], bool]) -> None:
        ends_at = clock() + within_s
        while clock() < ends_at and not is_hasty():
            self._executor.drop_overdue()
            if self._executor.in_hand <= len(self._executor.overdue) and not self._sender.calls:
                return
            self._executor.wait(LOOK_S)

    def _say_goodbye(self) -> None:
        try:
            self._database.run(lambda tx: workers.stop(tx, self.worker.id))
        except Exception as error:  # noqa: BLE001 - nobody needs it
            note("database away", error=type(error).__name__)
        note("stopped", worker=self.worker.name)
