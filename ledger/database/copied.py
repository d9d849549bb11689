"""Databases for a while: one with the schema and the user's tables, and copies of it that are somebody's alone.

For trying handlers. Nothing but databases that this module made itself is ever written to or removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
import sqlalchemy as sa
from psycopg import sql

from ledger import schema
from ledger.database import connect_options

_numbers = count(1)
# A database that is made from another is a clone of a ledger, and a clone sends nothing: this one is meant to.
SETTLED = "UPDATE nottwice.installation SET place = nottwice.place()"


class Mould:
    """A migrated database that nobody connects to; `copy()` lends one like it. Use as a context: it is removed at the end."""

    def __init__(self, url: str, *, app_sql: Path | None = None) -> None:
        """`url`: any database of the server, as a login that may create databases and roles."""
        self._url, self._app_sql = sa.make_url(url), app_sql
        self._admin: psycopg.Connection[tuple[object, ...]] = psycopg.connect(
            **connect_options(self._url), autocommit=True
        )
        self._name = _new_name()

    def __enter__(self) -> Self:
        self._run("CREATE DATABASE {}", self._name)
        try:
            schema.migrate(self.url(self._name), app_sql=self._app_sql)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._run("DROP DATABASE IF EXISTS {} WITH (FORCE)", self._name)
        self._admin.close()

    @contextmanager
    def copy(self) -> Iterator[str]:
        """The name of a database of your own; it is removed when the block ends."""
        name = _new_name()
        self._run("CREATE DATABASE {} TEMPLATE {}", name, self._name)
        try:
            with psycopg.connect(**connect_options(self.url(name))) as owner:
                owner.execute(SETTLED)
            yield name
        finally:
            self._run("DROP DATABASE {} WITH (FORCE)", name)

    def url(self, database: str, login: str = "") -> str:
        """A login goes without a password: for servers that let a user of this machine in."""
        found = self._url.set(database=database)
        if login and not found.password:
            found = found.set(username=login)
        return found.render_as_string(hide_password=False)

    def _run(self, statement: str, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _new_name() -> str:
    return f"nottwice_trial_{os.getpid()}_{next(_numbers)}"
