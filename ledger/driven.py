"""A transaction whose every statement goes straight to the driver: for a worker's groups of many small ones.

SQLAlchemy's way to psycopg costs more than most of these statements do. What a handler sees is the same: the same
results, the same errors. Sending them without waiting for each answer was tried and taken back: a process that stood
still in the middle kept its transaction, and its locks, longer than the server's limit allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import IteratorResult
from sqlalchemy.engine.result import SimpleResultMetaData

from ledger import straight
from ledger.database import Transaction, literal


class Driven(Transaction):
    """What is not literal SQL goes SQLAlchemy's way, on the same connection."""

    __slots__ = ()

    def execute(self, sql: str | sa.Executable, /, **values: Any) -> Any:
        if not isinstance(sql, str):
            return super().execute(sql, **values)
        statement = literal(sql)
        with self._spoken(statement):
            return _Answer(self._driver.execute(straight.spelled(statement), values))

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            self.execute(sql, **row)

    @property
    def _driver(self) -> psycopg.Connection[Any]:
        driver: Any = self.connection.connection.driver_connection
        return driver  # type: ignore[no-any-return]

    @contextmanager
    def _spoken(self, statement: sa.TextClause) -> Iterator[None]:
        """The driver's errors as the ones that every other transaction raises."""
        try:
            yield
        except psycopg.Error as error:
            raise straight.as_theirs(self.connection, statement, error) from error


class _Answer:
    """What a statement brought; asked as SQLAlchemy's results are."""

    __slots__ = ("_cursor", "_result")

    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        self._cursor = cursor
        self._result: IteratorResult[Any] | None = None

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    def __getattr__(self, name: str) -> Any:
        return getattr(self._read(), name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._read())

    def _read(self) -> IteratorResult[Any]:
        if self._result is None:
            columns = [column.name for column in self._cursor.description or ()]
            rows = straight.fetched(self._cursor)
            self._result = IteratorResult(SimpleResultMetaData(columns), iter(rows))
        return self._result
