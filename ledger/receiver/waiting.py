"""A request that waits to be stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

from ledger import inbox
from ledger.errors import LedgerError
from ledger.receiver.sources.adapter import Item
from ledger.records import Acceptance


class Waiting:
    """One request: its items are stored together or not at all. `answer` is done when it is answered or gave up."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.size = sum(len(item.body) for item in items)
        self.answer: asyncio.Future[list[Acceptance]] = asyncio.get_running_loop().create_future()

    @cached_property
    def keys(self) -> frozenset[bytes]:
        """What its locks are about. Worked out only when something hangs."""
        return frozenset(inbox.lane_key(item) for item in self.items)

    def settle(self, stored: list[Acceptance]) -> None:
        with suppress(asyncio.InvalidStateError):  # it gave up; the repeat will find the row
            self.answer.set_result(stored)

    def refuse(self, error: LedgerError) -> None:
        with suppress(asyncio.InvalidStateError):
            self.answer.set_exception(error)
            self.answer.exception()  # marked as seen: nobody may be waiting any more
