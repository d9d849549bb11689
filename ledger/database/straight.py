"""Statements straight to psycopg, on a connection and in a transaction that are SQLAlchemy's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import psycopg
import sqlalchemy as sa

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"


def rows(
    connection: sa.Connection, statement: sa.TextClause, values: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """The rows, or none of a statement that returns none. Raises what SQLAlchemy would."""
    driver: Any = connection.connection.driver_connection
    try:
        return fetched(driver.execute(spelled(statement), values, binary=True))
    except psycopg.Error as error:
        raise as_theirs(connection, statement, error) from error


def begin(connection: sa.Connection, settings: str) -> None:
    """Begin the transaction and run the settings, literal SQL, in one round trip in place of two.

    Raises what SQLAlchemy would. As the driver begins it, which from then on goes on in it.
    """
    driver: Any = connection.connection.driver_connection
    statement = sa.text(settings)
    try:
        result = driver.pgconn.exec_(f"{BEGIN}; {settings}".encode())
        if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(result, encoding=driver.info.encoding)
    except psycopg.Error as error:
        raise as_theirs(connection, statement, error) from error


def fetched(cursor: psycopg.Cursor[Any]) -> list[tuple[Any, ...]]:
    """What a statement brought. Rows without a column (`SELECT FROM …`) are rows, though they have no description."""
    brought = cursor.pgresult
    return cursor.fetchall() if brought and brought.status == psycopg.pq.ExecStatus.TUPLES_OK else []


@lru_cache(maxsize=512)
def spelled(statement: sa.TextClause) -> str:
    """With its values named as psycopg names them."""
    return str(statement.compile(dialect=_DIALECT))


_DIALECT = sa.make_url("postgresql+psycopg://").get_dialect()()


def as_theirs(connection: sa.Connection, statement: sa.TextClause, error: psycopg.Error) -> Exception:
    """A connection that broke is met once more, so that they learn of it and give up the pool's others with it."""
    try:
        if connection.connection.driver_connection.closed:  # type: ignore[union-attr]
            connection.exec_driver_sql("SELECT")
    except sa.exc.DBAPIError as theirs:
        return theirs
    return sa.exc.DBAPIError.instance(str(statement), None, error, psycopg.Error, hide_parameters=True)
