"""One connection inside an event loop: what is said reaches the server at one time, and nobody waits for it in a thread.

libpq's pipeline mode (PostgreSQL 18: 34.5): statements and the Sync behind them in one go, and as many answers. Where it
`prepares`, a statement is parsed once for all that come after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGresult

from ledger.database.asking import Rows, Statement
from ledger.database.sent_ahead import numbered

AUTO = [PyFormat.AUTO] * 50  # as many values as any statement has, and more


class Line:
    """Used by one task at a time. Whatever breaks it closes it."""

    def __init__(self, driver: psycopg.Connection[Any], *, prepares: bool) -> None:
        """From now on nobody else may use the connection."""
        self._driver, self._own, self._prepares = driver, driver.pgconn, prepares
        self._loop, self._socket = asyncio.get_running_loop(), driver.pgconn.socket
        self._names: dict[bytes, bytes] = {}
        self._prepared = 0
        self._results: list[PGresult] = []
        self._error: psycopg.Error | None = None
        self._told: asyncio.Future[None] | None = None
        self._dumped, self._loaded = Transformer(driver), Transformer(driver)
        self._is_closed = False
        self._own.nonblocking = 1
        self._own.enter_pipeline_mode()
        self._loop.add_reader(self._socket, self._read)

    @property
    def is_open(self) -> bool:
        return self._own.status == ConnStatus.OK

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open."""
        return self._own.transaction_status == psycopg.pq.TransactionStatus.IDLE

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is still to come."""
        return self._told is not None and not self._told.done()

    async def say(self, statements: Sequence[Statement]) -> PGresult:
        """What the last one brought. Raises the first error, behind which none was run."""
        known = dict(self._names)
        told = self._told = self._loop.create_future()
        self._results, self._error = [], None
        for statement in statements:
            self.put(statement)
        self._own.pipeline_sync()
        self._write()
        await told
        self._raise(known)
        return self._results[-1]

    def _raise(self, known: dict[bytes, bytes]) -> None:
        if self._error is not None:
            self._names = known  # which of the others were prepared nobody knows
            raise self._error

    def rows(self, result: PGresult) -> Rows:
        if result.status != ExecStatus.TUPLES_OK:
            return []
        self._loaded.set_pgresult(result)
        return self._loaded.load_rows(0, result.ntuples, tuple)

    def close(self) -> None:
        """Whoever waits is told."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._driver.close()
        self._error = self._error or psycopg.OperationalError("the connection is closed")
        self.tell()

    # -- there ---------------------------------------------------------------------------------------------

    def put(self, statement: Statement) -> None:
        sql, names = _spelled(statement.sql)
        values = self._dumped.dump_sequence([statement.values[name] for name in names], AUTO[: len(names)])
        types, formats = self._dumped.types or (), self._dumped.formats
        if not self._prepares:
            self._own.send_query_params(sql, values, types, formats, Format.BINARY)
            return
        name = self._names.get(sql)
        if name is None:
            name = self._names[sql] = b"line_%d" % self._prepared
            self._prepared += 1
            self._own.send_prepare(name, sql, types)
        self._own.send_query_prepared(name, values, formats, Format.BINARY)

    def _write(self) -> None:
        try:
            if self._own.flush():
                self._loop.add_writer(self._socket, self._write)
            else:
                self._loop.remove_writer(self._socket)
        except psycopg.Error as error:
            self._break(error)

    # -- and back ------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            self._own.consume_input()
            if not self.is_waiting and not self._own.is_busy():
                self._own.consume_input()  # a farewell, which libpq has read as a notice, and the end behind it
            while self.is_waiting and not self._own.is_busy():
                self._take(self._own.get_result())
        except psycopg.Error as error:
            self._break(error)

    def _take(self, result: PGresult | None) -> None:
        """A statement's answer, the nothing behind it, or the answer to the Sync."""
        if result is None:
            if self._own.status == ConnStatus.BAD:
                raise psycopg.OperationalError("the connection is lost")
        elif result.status == ExecStatus.PIPELINE_SYNC:
            self.tell()
        elif result.status == ExecStatus.FATAL_ERROR:
            self._error = self._error or psycopg.errors.error_from_result(
                result, encoding=self._driver.info.encoding
            )
        else:
            self._results.append(result)

    def tell(self) -> None:
        if self._told is not None and not self._told.done():
            self._told.set_result(None)

    def _break(self, error: psycopg.Error) -> None:
        self._error = self._error or error
        self.close()


@lru_cache(maxsize=512)
def _spelled(sql: str) -> tuple[bytes, Sequence[str]]:
    return numbered(sa.text(sql))
