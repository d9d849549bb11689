"""A transaction that is somebody else's: ledger functions on an application's own connection, as they run on ours.

Nothing here begins, commits or rolls back, and nothing of the connection is changed: its isolation level, row factory,
cursor factory and adapters are the caller's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

import psycopg
import sqlalchemy as sa
from psycopg.abc import Loader
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from psycopg.types.numeric import IntLoader
from psycopg.types.string import ByteaLoader, TextLoader
from psycopg.types.uuid import UUIDLoader
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from ledger.database import Transaction
from ledger.errors import NotInTransaction

LOADERS: dict[str, type[Loader]] = {
    "int4": IntLoader,
    "int8": IntLoader,
    "text": TextLoader,
    "bytea": ByteaLoader,
    "uuid": UUIDLoader,
}
DRIVERS = ("psycopg", "psycopg_async")
ASYNC = (AsyncConnection, AsyncSession, async_scoped_session)
RUN_SYNC = "await it as `await connection.run_sync(lambda one: propose(one, …))`"


def borrowed(connection: object) -> Transaction:
    """The transaction that is open on a psycopg 3 connection, or on a SQLAlchemy connection or session; or the one that its
    next statement opens. Raises NotInTransaction for what commits by itself, and for anything else, in one sentence.
    """
    if isinstance(connection, psycopg.Connection):
        _refuse_autocommit(connection)
        return _OnPsycopg(connection)
    if isinstance(connection, scoped_session | Session):
        connection = connection.connection()
    if not isinstance(connection, sa.Connection):
        _refuse(connection)
    if connection.dialect.name != "postgresql" or connection.dialect.driver not in DRIVERS:
        spoken = f"{connection.dialect.name}+{connection.dialect.driver}"
        raise NotInTransaction(f"This connection speaks {spoken}; proposing needs postgresql+psycopg.")
    _refuse_autocommit(connection.connection.driver_connection)
    return Transaction(connection)


def _refuse(given: object) -> NoReturn:
    if isinstance(given, ASYNC):
        raise NotInTransaction(f"This connection is asynchronous; {RUN_SYNC}.")
    raise NotInTransaction(
        f"A {type(given).__name__} has no transaction to propose in. Hand over the connection or the session that "
        "writes your own rows: of psycopg 3, or of SQLAlchemy with postgresql+psycopg."
    )


def _refuse_autocommit(driver: Any) -> None:
    """A connection in autocommit that is inside a BEGIN of the caller's is as good as any other."""
    if driver.autocommit and driver.info.transaction_status is TransactionStatus.IDLE:
        raise NotInTransaction(
            "This connection commits each statement by itself (autocommit), so a proposal could stay when your own change "
            "does not. Propose inside a transaction: `with connection.transaction():` of psycopg, or an engine "
            "without AUTOCOMMIT. Nothing was proposed."
        )


class _OnPsycopg(Transaction):
    """Our statements through a cursor of our own kind, whatever cursors and rows the application has set up."""

    __slots__ = ("_lent",)

    def __init__(self, lent: psycopg.Connection[Any]) -> None:
        self._lent = lent

    def execute(self, sql: str | sa.Executable, /, **values: Any) -> Any:
        cursor = psycopg.Cursor(self._lent, row_factory=namedtuple_row)
        for type_, loader in LOADERS.items():
            cursor.adapters.register_loader(type_, loader)
        cursor.execute(_for_psycopg(str(sql)), values)
        return _Rows(cursor.fetchall() if cursor.description else (), cursor.rowcount)

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            self.execute(sql, **row)


class _Rows:
    """What a statement brought, asked as SQLAlchemy's results are."""

    def __init__(self, rows: Iterable[Any], rowcount: int) -> None:
        self._rows, self.rowcount = list(rows), rowcount

    def all(self) -> Sequence[Any]:
        return self._rows

    def first(self) -> Any:
        return next(iter(self._rows), None)

    def one(self) -> Any:
        (row,) = self._rows
        return row


@lru_cache(maxsize=64)
def _for_psycopg(sql: str) -> Any:
    """With `%(name)s` for `:name`, by the same hand that writes it for our own connections."""
    dialect: sa.Dialect = PGDialect_psycopg()  # type: ignore[no-untyped-call]
    return str(sa.text(sql).compile(dialect=dialect))
