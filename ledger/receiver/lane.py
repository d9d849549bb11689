"""Lanes: queues of requests that wait to be stored, and the writers that empty them.

A batch that fails is halved, not taken singly, until the one that is to blame stands alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from ledger.database import sqlstate
from ledger.errors import Unavailable
from ledger.receiver.log import note
from ledger.receiver.scribe import Scribe
from ledger.receiver.sources.adapter import Item
from ledger.receiver.waiting import Waiting
from ledger.receiver.writer import is_about_content, is_about_one, is_lock_timeout
from ledger.records import Acceptance, Delivery, Unusable
from ledger.settings import ReceiverSettings

PATIENCE = 5  # while one writer is out, a second leaves this much later: one large commit is cheaper than two
ENOUGH = 32  # so many share a commit's price well: they leave at once, and the next are read while these are stored
REFUSED_BY_THE_DATABASE = "The database cannot hold it as an event."


Hung = Callable[[list[Waiting]], None]


class Lane:
    """A queue and the writers that empty it."""

    def __init__(self, writers: Sequence[Scribe], settings: ReceiverSettings, hung: Hung) -> None:
        self._settings, self._hung = settings, hung
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Waiting] = deque()
        self._idle = list(writers)
        self._out: dict[Scribe, float] = {}  # since when
        self._timer: asyncio.TimerHandle | None = None
        self._moved = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        return bool(self._queue or self._out)

    async def drained(self) -> None:
        """Returns when nothing waits and nobody writes."""
        while self.is_busy:
            self._moved.clear()
            await self._moved.wait()

    def put(self, waiting: Waiting) -> None:
        """Raises Unavailable when too many wait already."""
        if len(self._queue) >= self._settings.queue_max:
            raise Unavailable("Too many requests wait to be stored. Try again later.")
        self._queue.append(waiting)
        if len(self._queue) >= min(ENOUGH, self._settings.batch_max):
            self._set_out()
        elif self._idle and self._timer is None:
            self._wait_for_more(PATIENCE if self._is_one_back_soon else 1)

    def close(self) -> None:
        for writer in (*self._idle, *self._out):
            writer.close()

    @property
    def _is_one_back_soon(self) -> bool:
        """Whoever has been out for longer than anybody waits for more may be held up by a lock: nobody waits for that."""
        soon = self._loop.time() - PATIENCE * self._settings.batch_wait_s
        return any(left_at > soon for left_at in self._out.values())

    def _wait_for_more(self, times: int = 1) -> None:
        self._unset_timer()
        self._timer = self._loop.call_later(times * self._settings.batch_wait_s, self._set_out)

    def _unset_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_out(self) -> None:
        self._unset_timer()
        while self._idle and self._queue:
            batch = self._take()
            if batch:
                writer = self._idle.pop()
                self._out[writer] = self._loop.time()
                work = self._loop.create_task(self._write(writer, batch))
                work.add_done_callback(partial(self._return, writer, batch))
        self._moved.set()

    def _take(self) -> list[Waiting]:
        """The next ones that still wait, as many and as big as one transaction may be."""
        batch: list[Waiting] = []
        size = 0
        while self._queue and len(batch) < self._settings.batch_max:
            size += self._queue[0].size
            if batch and size > self._settings.batch_bytes_max:
                break
            waiting = self._queue.popleft()
            if not waiting.is_over:
                batch.append(waiting)
        return batch

    def _return(self, writer: Scribe, batch: list[Waiting], work: asyncio.Task[None]) -> None:
        del self._out[writer]
        self._idle.append(writer)
        if not work.cancelled() and (error := work.exception()):  # a fault of ours; the lane goes on
            note("writer failed", error=type(error).__name__)
            self._refuse(batch, error)
        if 0 < len(self._queue) < min(len(batch), ENOUGH) and not self._out:
            self._wait_for_more()  # the senders that are answered now come again in a moment: one batch, not two
            self._moved.set()
        else:
            self._set_out()  # whoever came meanwhile has waited long enough

    def _settle(self, part: list[Waiting], stored: list[Acceptance]) -> None:
        answers = iter(stored)
        for waiting in part:
            waiting.end([next(answers) for _ in waiting.items])

    def _refuse(self, part: list[Waiting], error: BaseException) -> None:
        reason = sqlstate(error) or type(error).__name__
        for waiting in part:
            waiting.end(Unavailable(f"It could not be stored ({reason}). Try again later."))

    async def _write(self, writer: Scribe, batch: list[Waiting]) -> None:
        """Breadth first, so that most of a batch does not wait until the last culprit is found."""
        parts = deque([(batch, False)])
        while parts:
            part, hurried = parts.popleft()
            part = [waiting for waiting in part if not waiting.is_over]
            if part:
                parts += await self._write_part(writer, part, hurried)

    async def _write_part(
        self, writer: Scribe, part: list[Waiting], hurried: bool
    ) -> list[tuple[list[Waiting], bool]]:
        """Stores it, or returns its halves; after a lock was waited for in vain, those are in a hurry."""
        try:
            stored = await writer.store([item for waiting in part for item in waiting.items], hurried=hurried)
        except Exception as error:  # noqa: BLE001 - sorted out below; every one ends in an answer
            if self._is_to_be_halved(part, error):
                middle, hurried = len(part) // 2, hurried or is_lock_timeout(error)
                return [(part[:middle], hurried), (part[middle:], hurried)]
            await self._give_up(writer, part, error)
        else:
            self._settle(part, stored)
        return []

    async def _give_up(self, writer: Scribe, part: list[Waiting], error: Exception) -> None:
        if is_lock_timeout(error):
            self._hung(part)
        elif is_about_content(error):
            note("refused by the database", error=sqlstate(error) or type(error).__name__)
            await self._quarantine(writer, part)
        else:
            self._refuse(part, error)

    async def _quarantine(self, writer: Scribe, part: list[Waiting]) -> None:
        """An answer of 503 would bring the same bytes back for days."""
        try:
            stored = await writer.store([_unusable(item) for waiting in part for item in waiting.items])
        except Exception as error:  # noqa: BLE001 - then it is not about the content after all
            self._refuse(part, error)
        else:
            self._settle(part, stored)

    def _is_to_be_halved(self, part: list[Waiting], error: Exception) -> bool:
        return len(part) > 1 and is_about_one(error)


def _unusable(item: Item) -> Unusable:
    if isinstance(item, Delivery):
        return Unusable(item.namespace, item.source, 0, REFUSED_BY_THE_DATABASE, item.body)
    return item
