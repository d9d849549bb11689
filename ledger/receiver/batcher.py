"""Collects the requests of a few milliseconds and stores them in one transaction.

A batch is answered after its commit, never before. A batch that fails is halved, not taken singly, until the one
that is to blame stands alone; a key whose lock hangs then waits in a side lane of its own, so that it slows nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from sqlalchemy.exc import DBAPIError

from ledger import faults, inbox
from ledger.database import Database, Transaction, sqlstate
from ledger.errors import LedgerError, Unavailable
from ledger.records import Acceptance, Delivery, Unusable
from ledger.settings import ReceiverSettings

Item = Delivery | Unusable
LOCK_TIMEOUT = "55P03"
SIDE_LANE_S = 5.0  # how long a key that hung stays in the side lane
UNKNOWN_COMMIT_TRIES = 3


@dataclass(slots=True)
class Waiting:
    """One request: its items are stored together or not at all."""

    items: Sequence[Item]
    answer: asyncio.Future[list[Acceptance]]
    keys: frozenset[bytes] = field(default_factory=frozenset)


class Batcher:
    """`store(items)` returns when they are durable. Raises Unavailable: nothing may be acknowledged."""

    def __init__(self, database: Database, settings: ReceiverSettings) -> None:
        self._database, self._settings = database, settings
        self._queue: asyncio.Queue[Waiting] = asyncio.Queue(settings.queue_max)
        self._threads = ThreadPoolExecutor(settings.writers + 1, thread_name_prefix="store")
        self._tasks: list[asyncio.Task[None]] = []
        self._writers = [uuid4() for _ in range(settings.writers)]
        self._side: asyncio.Queue[Waiting] = asyncio.Queue(settings.queue_max)
        self._slow: dict[bytes, float] = {}
        self._strict: bool | None = None

    def start(self) -> None:
        lanes = [self._main_lane(writer) for writer in self._writers]
        self._tasks = [asyncio.create_task(lane) for lane in [*lanes, self._side_lane()]]

    async def stop(self) -> None:
        """Everything that was taken in is answered first."""
        await asyncio.gather(self._queue.join(), self._side.join())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown()

    async def store(self, items: Sequence[Item]) -> list[Acceptance]:
        if not items:
            return []
        answer: asyncio.Future[list[Acceptance]] = asyncio.get_running_loop().create_future()
        waiting = Waiting(items, answer, frozenset(inbox.lane_key(item) for item in items))
        try:
            (self._side if self._is_slow(waiting) else self._queue).put_nowait(waiting)
        except asyncio.QueueFull:
            raise Unavailable("Too many requests wait to be stored.") from None
        try:
            return await asyncio.wait_for(answer, self._settings.answer_within_s)
        except TimeoutError:
            raise Unavailable("It could not be stored in time.") from None

    # -- lanes --------------------------------------------------------------------------------------------

    async def _main_lane(self, writer: UUID) -> None:
        while True:
            batch = [await self._queue.get()]
            await self._gather(batch)
            await self._store_halving(batch, writer)
            for _ in batch:
                self._queue.task_done()

    async def _gather(self, batch: list[Waiting]) -> None:
        """Whoever arrives within the wait travels along."""
        if self._settings.batch_wait_s and self._queue.qsize() + 1 < self._settings.batch_max:
            await asyncio.sleep(self._settings.batch_wait_s)
        size = sum(len(w.items) for w in batch)
        while size < self._settings.batch_max and not self._queue.empty():
            batch.append(self._queue.get_nowait())
            size += len(batch[-1].items)

    async def _side_lane(self) -> None:
        writer = uuid4()
        while True:
            waiting = await self._side.get()
            if not waiting.answer.done():
                await self._store_one(waiting, writer)
            self._side.task_done()

    async def _store_halving(self, batch: list[Waiting], writer: UUID) -> None:
        batch = [waiting for waiting in batch if not waiting.answer.done()]
        if not batch:
            return
        try:
            answers = await self._in_thread(batch, writer, self._settings.lock_wait_s)
        except (DBAPIError, LedgerError) as error:
            if isinstance(error, Unavailable):
                self._answer_all(batch, error)
            elif len(batch) > 1:
                middle = len(batch) // 2
                await self._store_halving(batch[:middle], writer)
                await self._store_halving(batch[middle:], writer)
            elif sqlstate(error) == LOCK_TIMEOUT:
                self._to_the_side(batch[0])
            else:
                self._answer_all(batch, Unavailable(f"It could not be stored ({type(error).__name__})."))
        else:
            for waiting, answer in zip(batch, answers, strict=True):
                _set(waiting, answer)

    async def _store_one(self, waiting: Waiting, writer: UUID) -> None:
        try:
            answers = await self._in_thread([waiting], writer, SIDE_LANE_S)
            _set(waiting, answers[0])
        except (DBAPIError, LedgerError) as error:
            self._answer_all([waiting], Unavailable(f"It could not be stored ({type(error).__name__})."))

    def _to_the_side(self, waiting: Waiting) -> None:
        until = time.monotonic() + SIDE_LANE_S
        self._slow.update(dict.fromkeys(waiting.keys, until))
        try:
            self._side.put_nowait(waiting)
        except asyncio.QueueFull:
            self._answer_all([waiting], Unavailable("Its key is held by something else."))

    def _is_slow(self, waiting: Waiting) -> bool:
        if not self._slow:
            return False
        now = time.monotonic()
        self._slow = {key: until for key, until in self._slow.items() if until > now}
        return not waiting.keys.isdisjoint(self._slow)

    @staticmethod
    def _answer_all(batch: list[Waiting], error: Exception) -> None:
        for waiting in batch:
            if not waiting.answer.done():
                waiting.answer.set_exception(error)
                waiting.answer.exception()  # looked at: whoever went away in between is not an accident

    # -- the transaction ----------------------------------------------------------------------------------

    async def _in_thread(
        self, batch: list[Waiting], writer: UUID, lock_wait_s: float
    ) -> list[list[Acceptance]]:
        """Never cancelled in the middle: a COMMIT that was sent is waited for."""
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, self._store, batch, writer, lock_wait_s)
        return await asyncio.shield(work)

    def _store(self, batch: list[Waiting], writer: UUID, lock_wait_s: float) -> list[list[Acceptance]]:
        items = [item for waiting in batch for item in waiting.items]
        faults.point("receiver.before_insert")
        for last in (False,) * (UNKNOWN_COMMIT_TRIES - 1) + (True,):
            try:
                stored = self._database.run(lambda tx: self._accept(tx, items, writer, lock_wait_s))
                break
            except Unavailable:  # perhaps committed, perhaps not: the same write meets its own rows
                if last:
                    raise
                time.sleep(0.02)
        faults.point("receiver.after_commit")
        answers = iter(stored)
        return [[next(answers) for _ in waiting.items] for waiting in batch]

    def _accept(
        self, tx: Transaction, items: list[Item], writer: UUID, lock_wait_s: float
    ) -> list[Acceptance]:
        tx.execute(
            "SELECT set_config('lock_timeout', :ms, true)", ms=f"{max(1, round(lock_wait_s * 1000))}ms"
        )
        if self._is_weak(tx):
            tx.execute("SET LOCAL synchronous_commit = on")
        answers = inbox.accept(tx, items, writer=writer)
        faults.point("receiver.before_commit")
        return answers

    def _is_weak(self, tx: Transaction) -> bool:
        """Whether the server's default acknowledges before it is durable; asked once a process."""
        if self._strict is None:
            self._strict = tx.one("SHOW synchronous_commit")[0] in ("on", "remote_apply")
        return not self._strict


def _set(waiting: Waiting, answer: list[Acceptance]) -> None:
    with contextlib.suppress(asyncio.InvalidStateError):  # it timed out; the row is there for the repeat
        waiting.answer.set_result(answer)
