"""Applies `sql/` in order, once each; every other process only checks.

A file that was applied is remembered by its SHA-256 and never edited. The user's own numbered files (their
handlers' tables, in the schema `public`) are applied after ours and remembered under `app/`.
"""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from ledger.database import Database, connect_options, sqlstate
from ledger.errors import Misconfigured, Unavailable, WrongSchema

Connection = psycopg.Connection[tuple[Any, ...]]

VERSION_MIN = 15
CONNECT_TIMEOUT_S = 5
LOCK = 0x6E6F7474776963  # "nottwic": one migration at a time in one database
NAME = re.compile(r"\d{4}_[a-z0-9_]+\.sql", re.ASCII)
# Roles belong to the whole server, the lock to one database: two databases that are set up at once trip over each
# other's role statements ("tuple concurrently updated", or a duplicate in a catalog), and the next try goes through.
ROLE_RACE_TRIES = 40
ROLE_RACE = frozenset({"XX000", "40P01", "23505", "42710"})
MISSING = frozenset({"42P01", "3F000", "42704"})  # no such table, schema, role

BOOKKEEPING = b"""
CREATE SCHEMA IF NOT EXISTS nottwice;
CREATE TABLE IF NOT EXISTS nottwice.schema_files (
    name text PRIMARY KEY, sha256 bytea NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
GRANT SELECT ON nottwice.schema_files TO PUBLIC;
"""


def sql_folder() -> Path:
    """Where the numbered files are: inside an installed package, or at the top of the source tree."""
    inside = Path(__file__).with_name("_sql")
    return inside if inside.is_dir() else Path(__file__).parent.parent / "sql"


def files(app_sql: Path | None = None) -> Iterator[tuple[str, str]]:
    """Name and text of each file, ours first. Raises Misconfigured for a folder or a name that is not as agreed."""
    yield from _numbered(sql_folder(), "")
    if app_sql is not None:
        yield from _numbered(app_sql, "app/")


def migrate(url: str | sa.URL, *, app_sql: Path | None = None) -> list[str]:
    """Bring the database to this code's schema, as its owner; returns the names applied now.

    Each file is one transaction, so a failure leaves the files before it. Safe when several processes start at
    once. Raises WrongSchema for a file that was edited after it was applied, Misconfigured for a server that is
    too old or a statement that fails, Unavailable when the server cannot be reached or went away.
    """
    wanted = list(files(app_sql))
    with _connection(url) as connection:
        major = connection.info.server_version // 10_000
        if major < VERSION_MIN:
            raise Misconfigured(f"The server is PostgreSQL {major}; Not Twice needs {VERSION_MIN} or newer.")
        return [name for name, text in wanted if _applied_now(connection, name, text)]


def check(db: Database, *, app_sql: Path | None = None) -> None:
    """Raises WrongSchema when the database is behind or ahead of this code, with what to do."""
    applied = _applied(db)
    ours = dict(files(app_sql))
    for name, text in ours.items():
        _compare(name, text, applied.get(name))
    newer = sorted(name for name in applied if not name.startswith("app/") and name not in ours)
    if newer:
        raise WrongSchema(
            f"The database has {newer[-1]}, which this version does not know. Start the newer version instead."
        )


def refuse_unsafe(db: Database) -> None:
    """Raises Misconfigured when the server forgets commits in a power cut: what is acknowledged must be durable."""
    with db.transaction() as tx:
        if tx.one("SELECT current_setting('fsync')")[0] != "on":
            raise Misconfigured(
                "The server runs with fsync=off: a power cut would lose webhooks that were already acknowledged. "
                "Set fsync = on in its configuration and restart it."
            )


def _applied(db: Database) -> dict[str, bytes]:
    try:
        with db.transaction() as tx:
            rows = tx.all("SELECT name, sha256 FROM nottwice.schema_files")
    except sa.exc.ProgrammingError as error:
        if sqlstate(error) in MISSING:
            return {}
        raise
    return {row.name: bytes(row.sha256) for row in rows}


def _numbered(folder: Path, prefix: str) -> Iterator[tuple[str, str]]:
    if not folder.is_dir():
        raise Misconfigured(f"There is no folder {folder} with numbered .sql files.")
    for path in sorted(folder.glob("*.sql")):
        if not NAME.fullmatch(path.name):
            raise Misconfigured(f"{path} is not named like 0001_what_it_does.sql.")
        yield prefix + path.name, path.read_text(encoding="utf-8")


@contextmanager
def _connection(url: str | sa.URL) -> Iterator[Connection]:
    options = {"connect_timeout": CONNECT_TIMEOUT_S, **connect_options(url)}
    try:
        # No prepared statements: they do not survive a pooler in transaction mode.
        with psycopg.connect(**options, autocommit=True, prepare_threshold=None) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise Unavailable(
            f"The database cannot be reached: {_first_line(error)}. Start it, or correct DATABASE_URL."
        ) from error


def _applied_now(connection: Connection, name: str, text: str) -> bool:
    for tries_left in reversed(range(ROLE_RACE_TRIES)):
        try:
            with connection.transaction():
                return _apply(connection, name, text)
        except psycopg.errors.InsufficientPrivilege as error:
            raise Misconfigured(
                f"{name} could not be applied: {_first_line(error)}. Migrate as the owner of the database, with "
                "the right to create roles."
            ) from error
        except psycopg.DatabaseError as error:
            if not (_is_role_race(error) and tries_left):
                raise _not_applied(name, error) from error
            time.sleep(random.uniform(0.01, 0.1))
    raise AssertionError("unreachable")


def _apply(connection: Connection, name: str, text: str) -> bool:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
    connection.execute(BOOKKEEPING)
    row = connection.execute("SELECT sha256 FROM nottwice.schema_files WHERE name = %s", (name,)).fetchone()
    if row is not None:
        _compare(name, text, bytes(row[0]))
        return False
    # Bytes and no values: sent as they are, many statements in one, percent signs and colons included.
    connection.execute(text.encode())
    connection.execute("INSERT INTO nottwice.schema_files (name, sha256) VALUES (%s, %s)", (name, _sha(text)))
    return True


def _is_role_race(error: psycopg.DatabaseError) -> bool:
    """Whether somebody else changed the server's catalogs under us; a duplicate in a user's table is no race."""
    in_catalog = error.sqlstate != "23505" or error.diag.schema_name == "pg_catalog"
    return error.sqlstate in ROLE_RACE and in_catalog


def _not_applied(name: str, error: psycopg.DatabaseError) -> Exception:
    if isinstance(error, psycopg.OperationalError):
        return error
    return Misconfigured(f"{name} could not be applied, and nothing of it was: {_first_line(error)}")


def _compare(name: str, text: str, applied: bytes | None) -> None:
    if applied is None:
        raise WrongSchema(
            f"The database lacks {name}. Run `nottwice migrate` as its owner, then start again."
        )
    if applied != _sha(text):
        raise WrongSchema(
            f"{name} was edited after it was applied. Put it back as it was, and add a new file instead."
        )


def _sha(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
