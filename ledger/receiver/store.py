"""The database behind the front door: opened as soon as it can be, and looked at for /readyz."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ledger import schema
from ledger.database import Database
from ledger.errors import Misconfigured, Unavailable
from ledger.receiver.batcher import Batcher
from ledger.receiver.examiner import Examiner, Sources
from ledger.receiver.log import note
from ledger.receiver.pulse import Pulse, Tally
from ledger.receiver.sources.adapter import Item
from ledger.receiver.waiting import Outcome, Waiting
from ledger.records import Acceptance
from ledger.settings import Settings

AGAIN_S = 1.0  # between two tries to open the database
START_WAIT_S = 1.0  # how long a start waits for the first try
READY_FOR_S = 1.0  # how long one look at the database answers /readyz
READY_WITHIN_S = 2.0


class Store:
    """Starts without a database and recovers by itself. `failure` is set when it never can: the process must stop."""

    def __init__(
        self,
        settings: Settings,
        tally: Tally,
        opener: Callable[[], Database] | None = None,
        *,
        sources: Sources = dict,
    ) -> None:
        self.failure: Misconfigured | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self._settings = settings
        # The desk's, and one that is being opened: the lanes' writers keep theirs for themselves.
        self._opener = opener or (
            lambda: settings.open_database("receiver", pool_size=2, pre_ping=False, prepare=True)
        )
        self._database: Database | None = None
        self._batcher: Batcher | None = None
        self.pulse = Pulse(settings, tally)
        self._examiner = Examiner(settings.receiver, sources)
        self._beating: asyncio.Task[None] | None = None
        self._examining: asyncio.Task[None] | None = None
        # One thread for what is not about deliveries: a look for /readyz, a sign of life.
        self._desk = ThreadPoolExecutor(1, thread_name_prefix="desk")
        self._opening: asyncio.Task[None] | None = None
        self._looking: asyncio.Future[None] | None = None
        self._is_ready, self._looked_at = False, float("-inf")
        self._is_stopping = False

    async def start(self) -> None:
        """Returns when the database is open, or when that takes too long to wait for."""
        self._opening = asyncio.create_task(self._open())
        await asyncio.wait({self._opening}, timeout=START_WAIT_S)

    async def save(self, items: Sequence[Item]) -> list[Acceptance]:
        """What became of each item, once it is durable. Raises Unavailable: nothing may be acknowledged.

        Cancelling it gives up the wait, never a transaction that runs.
        """
        told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        waiting = Waiting(items, lambda outcome: None if told.done() else told.set_result(outcome))
        self.put(waiting)
        try:
            outcome = await told
        finally:
            waiting.is_over = True
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def put(self, waiting: Waiting) -> None:
        """As `save`, for who does not wait here but is told. Raises Unavailable."""
        if self._batcher is None:
            raise Unavailable("The database is not open yet. Try again later.")
        self._batcher.put(waiting)

    async def is_ready(self) -> bool:
        """Whether the database answers. One look at a time, good for a second; one that takes long is a no."""
        if self._batcher is None:
            return False
        if self._looking is None and time.monotonic() - self._looked_at > READY_FOR_S:
            self._looking = asyncio.get_running_loop().run_in_executor(self._desk, self._look)
            self._looking.add_done_callback(self._looked)
        if self._looking is not None:
            await asyncio.wait({self._looking}, timeout=READY_WITHIN_S)
        return self._is_ready and self._looking is None

    async def stop(self, within_s: float) -> bool:
        """Whether everything that was begun came to an end in time."""
        self._is_stopping = True
        begun = {task for task in (self._opening, self._looking) if task is not None and not task.done()}
        if self._batcher is not None:
            begun.add(asyncio.create_task(self._end(self._batcher)))
        _, hanging = await asyncio.wait(begun, timeout=within_s) if begun else (begun, begun)
        self._desk.shutdown(wait=False)
        if not hanging and self._database is not None:
            self._database.close()
        return not hanging

    async def _end(self, batcher: Batcher) -> None:
        """What was taken in first: its answers are waited for."""
        await batcher.stop()
        if self._beating is not None and self._database is not None:
            going = {task for task in (self._beating, self._examining) if task is not None}
            for task in going:
                task.cancel()
            await asyncio.wait(going)
            await self.pulse.stop(self._database, self._desk)

    async def _open(self) -> None:
        while self._batcher is None and not self._is_stopping:
            try:
                self._database = await asyncio.to_thread(self._open_once)
                self._batcher = Batcher(self._database, self._settings.receiver)
                self._beating = asyncio.create_task(self.pulse.beat(self._database, self._desk))
                self._examining = asyncio.create_task(self._examiner.look(self._database, self._desk))
                note("database open")
            except Misconfigured as error:
                self.failure = error
                self.on_failure()
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, the next try may succeed
                note("database not open", error=type(error).__name__)
                await asyncio.sleep(AGAIN_S)

    def _open_once(self) -> Database:
        database = self._opener()
        try:
            schema.check(database)
            if not self._settings.database.allow_unsafe:
                schema.refuse_unsafe(database)
        except BaseException:
            database.close()
            raise
        return database

    def _look(self) -> None:
        """The first look after a restart of the server may be through a connection of before it."""
        assert self._database is not None  # noqa: S101 - for the type checker: there is a batcher
        for tries_left in (1, 0):
            try:
                self._database.run(lambda tx: tx.one("SELECT 1"))
                return
            except Unavailable:
                if not tries_left:
                    raise

    def _looked(self, look: asyncio.Future[None]) -> None:
        self._is_ready = not look.cancelled() and look.exception() is None
        self._looked_at, self._looking = time.monotonic(), None
