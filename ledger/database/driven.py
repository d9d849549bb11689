"""A transaction whose statements are sent ahead: for a worker's groups of many small ones.

What a handler sees is the same: the same results, the same errors, only later. An error shows where the next result is
read, or at the end, so nobody can tell from that line whose it is: whoever has to know runs the statements again in a
transaction that waits for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.pq import TransactionStatus
from sqlalchemy.engine import IteratorResult
from sqlalchemy.engine.result import SimpleResultMetaData

from ledger.database import Transaction, keep, literal, straight
from ledger.database.sent_ahead import Sent, SentAhead


class Driven(Transaction):
    """Whoever takes the connection itself, or a savepoint, ends the sending ahead: from then on each is waited for."""

    __slots__ = ("_line", "_sa")

    def __init__(self, connection: sa.Connection) -> None:
        driver: Any = connection.connection.driver_connection
        self._sa = connection
        self._line: SentAhead | None = SentAhead(driver)
        if (
            driver.info.transaction_status is TransactionStatus.IDLE
        ):  # the driver would say it by itself, and wait
            self._line.send(_BEGIN, {})

    def execute(self, sql: str | sa.Executable, /, **values: Any) -> Any:
        """Send one statement. What it brought is waited for when it is asked for."""
        if not isinstance(sql, str) or self._line is None:
            return Transaction(self.connection).execute(sql, **values)
        statement = literal(sql)
        with self._spoken(statement):
            return _Answer(self, self._line, self._line.send(statement, values), statement)

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            self.execute(sql, **row)

    def straight(self, sql: str, /, **values: Any) -> list[tuple[Any, ...]]:
        if self._line is None:
            return Transaction(self.connection).straight(sql, **values)
        statement = literal(sql)
        with self._spoken(statement):
            return self._line.rows(self._line.send(statement, values))

    def kept(self) -> AbstractContextManager[None]:
        return keep(self._sa)

    @property
    def connection(self) -> sa.Connection:  # type: ignore[override]
        self.wait()
        return self._sa

    def wait(self) -> None:
        """Go on without sending ahead. Raises the first error of what was sent."""
        line, self._line = self._line, None
        if line is not None:
            with self._spoken(_END):
                line.end()

    @contextmanager
    def _spoken(self, statement: sa.TextClause) -> Iterator[None]:
        """The driver's errors as the ones that every other transaction raises."""
        try:
            yield
        except psycopg.Error as error:
            raise straight.as_theirs(self._sa, statement, error) from error


_BEGIN = sa.text("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")  # as every transaction of ours begins
_END = sa.text("-- the end of what was sent ahead")


class _Answer:
    """What a statement will have brought; asked as SQLAlchemy's results are."""

    __slots__ = ("_line", "_result", "_sent", "_statement", "_tx")

    def __init__(self, tx: Driven, line: SentAhead, sent: Sent, statement: sa.TextClause) -> None:
        self._tx, self._line, self._sent, self._statement = tx, line, sent, statement
        self._result: IteratorResult[Any] | None = None

    @property
    def rowcount(self) -> int:
        with self._tx._spoken(self._statement):
            return self._line.rowcount(self._sent)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._read(), name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._read())

    def _read(self) -> IteratorResult[Any]:
        if self._result is None:
            with self._tx._spoken(self._statement):
                columns, rows = self._line.columns(self._sent), self._line.rows(self._sent)
            self._result = IteratorResult(SimpleResultMetaData(columns), iter(rows))
        return self._result


@contextmanager
def sent_ahead(opened: Transaction) -> Iterator[Transaction]:
    """Within: nobody waits for a statement. At the end all have run; raises the first error of what was sent."""
    tx = Driven(opened.connection)
    try:
        yield tx
    except BaseException:
        with suppress(Exception):  # the first error is the one that is told
            tx.wait()
        raise
    tx.wait()
