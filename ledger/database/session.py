"""Transactions inside an event loop, over a connection of their own that is made when it is needed, and anew when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
from sqlalchemy.exc import DBAPIError

from ledger.database import Database, literal, reachable, straight
from ledger.database.asking import Rows, Statement, statement
from ledger.database.line import Line
from ledger.errors import Unavailable

BEGIN, COMMIT, ROLLBACK = statement(straight.BEGIN), statement("COMMIT"), statement("ROLLBACK")
COMMITTED = b"COMMIT"  # the server's word for it; it ends a transaction that has failed by another


class Session:
    """Used by one task at a time. Its errors are those of `Database.transaction`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._line: Line | None = None
        self._ahead: list[Statement] = []
        self._is_warned = False

    @asynccontextmanager
    async def transaction(self, settings: Statement) -> AsyncIterator[None]:
        """Commit on success, roll back on any error. It begins with the first statement, in one go with the settings.

        Raises Unavailable for a commit that came with a warning too: a wait for a standby that was broken off ends in one.
        """
        self._ahead, self._is_warned = [BEGIN, settings], False
        try:
            yield
            await self._commit()
        except BaseException:
            await self._undo()
            raise

    async def run(self, one: Statement) -> Rows:
        """Its rows, or none of a statement that returns none. Raises EndsTransaction for one that would end it."""
        literal(one.sql)
        said, self._ahead = [*self._ahead, one], []
        line = await self._opened()
        return line.rows(await self._say(line, said))

    def close(self) -> None:
        if self._line is not None:
            self._line.close()

    async def _commit(self) -> None:
        if self._line is None or self._line.is_idle:
            return
        ended = await self._say(self._line, [COMMIT])
        if ended.command_status != COMMITTED or self._is_warned:
            raise Unavailable("The commit returned with a warning: a standby may not have it.")

    async def _undo(self) -> None:
        """What cannot be undone in words ends with its connection."""
        line = self._line
        if line is None or (line.is_open and line.is_idle):
            return
        with suppress(Exception):
            if not line.is_waiting:
                await line.say([ROLLBACK])
        if not line.is_idle:
            line.close()

    async def _opened(self) -> Line:
        if self._line is None or not self._line.is_open:
            driver = await asyncio.to_thread(self._database.connection)
            driver.add_notice_handler(self._hear)
            self._line = Line(driver, prepares=self._database.prepares)
        return self._line

    async def _say(self, line: Line, said: list[Statement]) -> Any:
        with reachable():
            try:
                return await line.say(said)
            except psycopg.Error as error:
                raise DBAPIError.instance(
                    said[-1].sql, None, error, psycopg.Error, hide_parameters=True
                ) from error

    def _hear(self, notice: Any) -> None:
        self._is_warned = self._is_warned or notice.severity_nonlocalized == "WARNING"
