"""A lane's way into the ledger, in the event loop itself: the transaction that makes deliveries durable.

A thread of its own had to get the interpreter back, for each answer of the server, from a loop that reads requests: this,
and the way through SQLAlchemy, took a fifth of the receiver's time (measured).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import uuid4

from sqlalchemy.exc import DBAPIError

from ledger import database, faults, inbox
from ledger.database.asking import awaited, statement
from ledger.database.session import Session
from ledger.errors import Unavailable
from ledger.receiver.sources.adapter import Item
from ledger.receiver.writer import HURRY, TRIES_MAX, limits
from ledger.records import Acceptance, AcceptanceKind

MANY = 8


class Scribe:
    """Used for one batch at a time. Its id keeps its counters apart from everybody else's."""

    def __init__(self, opened: database.Database, *, lock_wait_s: float, statement_s: float) -> None:
        self._session, self._id = Session(opened), uuid4()
        self._nothing_new = False  # is to be expected of the next batch
        self._patient, self._hurried = (
            statement(limits(wait_s, statement_s)) for wait_s in (lock_wait_s, lock_wait_s / HURRY)
        )

    async def store(self, items: Sequence[Item], *, hurried: bool = False) -> list[Acceptance]:
        """As `Writer.store`: durable when it returns, or nothing is acknowledged.

        `hurried`: somebody's lock was waited for already, so hardly wait again.
        """
        for tries_left in reversed(range(TRIES_MAX)):
            try:
                stored = await self._again_after_a_deadlock(items, hurried)
                break
            except Unavailable:
                if not tries_left:
                    raise
        await faults.point_in_a_loop("receiver.after_commit")
        return stored

    def close(self) -> None:
        self._session.close()

    async def _again_after_a_deadlock(self, items: Sequence[Item], hurried: bool) -> list[Acceptance]:
        """As `Database.run`."""
        for tries in range(1, database.TRIES_MAX + 1):
            try:
                return await self._store_once(items, hurried)
            except DBAPIError as error:
                if not database.is_retried(error) or tries == database.TRIES_MAX:
                    raise
                await asyncio.sleep(database.pause_s(tries))
        raise AssertionError("unreachable")

    async def _store_once(self, items: Sequence[Item], hurried: bool) -> list[Acceptance]:
        async with self._session.transaction(self._hurried if hurried else self._patient):
            await faults.point_in_a_loop("receiver.before_insert")
            asking = inbox.accepting(items, writer=self._id, nothing_new=self._nothing_new)
            stored = await awaited(asking, self._session.run)
            await faults.point_in_a_loop("receiver.before_commit")
        self._nothing_new = _is_a_storm(stored)
        return stored


def _is_a_storm(stored: Sequence[Acceptance]) -> bool:
    """Whether the next batch, too, will bring nothing new: retries come in many batches. Of a few nothing follows."""
    return len(stored) >= MANY and all(one.kind is not AcceptanceKind.ACCEPTED for one in stored)
