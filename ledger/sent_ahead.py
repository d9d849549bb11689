"""Statements sent without waiting for the answer of the one before: for a group of many small ones in one transaction.

An answer that is read is waited for then, and so are all before it. An error shows at the next answer that is read, or
at the end; the server runs nothing that was sent after it. So nobody can tell from where an error shows whose it is:
whoever has to know runs the statements again in a transaction that waits for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import IteratorResult
from sqlalchemy.engine.result import SimpleResultMetaData

from ledger.database import Transaction, keep, literal
from ledger.straight import spelled


class SentAhead(Transaction):
    """What is not literal SQL, and whoever takes the connection itself, ends the sending ahead: then each is waited for."""

    __slots__ = ("_ahead", "_pipeline", "_raw", "_sa")

    def __init__(self, connection: sa.Connection) -> None:
        self._sa = connection
        self._raw: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
        self._ahead = self._raw.pipeline()
        self._pipeline: psycopg.Pipeline | None = None

    def begin(self) -> None:
        with self._spoken():
            self._pipeline = self._ahead.__enter__()

    def execute(self, sql: str | sa.Executable, /, **values: Any) -> Any:
        """Sends one statement. What it brought is waited for when it is asked for."""
        if not isinstance(sql, str):
            return self.connection.execute(sql, values)
        with self._spoken():
            cursor = self._raw.execute(spelled(literal(sql)), values)
            self._let_it_end()
        return _Answer(self, cursor)

    def _let_it_end(self) -> None:
        """The statement is whole, whatever follows: only so the server's limit counts for a transaction that idles."""
        if self._pipeline is not None:
            self._raw.pgconn.pipeline_sync()
            self._pipeline.result_queue.append(None)

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            self.execute(sql, **row)

    def straight(self, sql: str, /, **values: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.all(sql, **values)]

    def kept(self) -> AbstractContextManager[None]:
        return keep(self._sa)

    def settle(self) -> None:
        """Wait until all that was sent has run. Raises the first error of it."""
        if self._pipeline is not None:
            with self._spoken():
                self._pipeline.sync()

    def end(self) -> None:
        """Go on without sending ahead. Raises the first error of what was sent."""
        if self._pipeline is not None:
            self._pipeline = None
            with self._spoken():
                self._ahead.__exit__(None, None, None)

    @property
    def connection(self) -> sa.Connection:  # type: ignore[override]
        self.end()
        return self._sa

    @contextmanager
    def _spoken(self) -> Iterator[None]:
        """The driver's errors as the ones that every other transaction raises."""
        try:
            yield
        except psycopg.Error as error:
            raise self._as_ours(error) from error

    def _as_ours(self, error: psycopg.Error) -> BaseException:
        is_gone = self._raw.closed
        if is_gone:
            self._sa.invalidate(error)
        return sa.exc.DBAPIError.instance(
            None, None, error, psycopg.Error, hide_parameters=True, connection_invalidated=is_gone
        )


class _Answer:
    """What a statement will have brought; asked as SQLAlchemy's results are."""

    __slots__ = ("_cursor", "_result", "_tx")

    def __init__(self, tx: SentAhead, cursor: psycopg.Cursor[Any]) -> None:
        self._tx, self._cursor = tx, cursor
        self._result: IteratorResult[Any] | None = None

    @property
    def rowcount(self) -> int:
        self._tx.settle()
        return self._cursor.rowcount

    def __getattr__(self, name: str) -> Any:
        return getattr(self._read(), name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._read())

    def _read(self) -> IteratorResult[Any]:
        if self._result is None:
            self._tx.settle()
            with self._tx._spoken():
                described = self._cursor.description or ()
                rows = self._cursor.fetchall() if described else []
            metadata = SimpleResultMetaData([column.name for column in described])
            self._result = IteratorResult(metadata, iter(rows))
        return self._result


@contextmanager
def sent_ahead(connection: sa.Connection) -> Iterator[SentAhead]:
    """Within: statements are not waited for. At the end all have run; raises the first error of them."""
    tx = SentAhead(connection)
    tx.begin()
    try:
        yield tx
    except BaseException:
        with suppress(Exception):  # the first error is the one that is told
            tx.end()
        raise
    tx.end()
