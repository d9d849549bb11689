"""Databases for tests: migrated and empty, each lent to one test and emptied for the next.

A new one costs its files, and each of its first sessions the catalogs' cache again: 100 ms of CPU a test, several
times what most tests need for themselves. Emptied is as new: tables without a page, numbers from 1. What a test did
to anything but rows (a trigger, a grant, a statistic) shows in the catalogs; that database is dropped, and so is one
that somebody is still connected to. The others keep their names, and sessions that know their catalogs: the
lender's own, and the one behind a test's `Database`; and one more for each login that a test opened a door as.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.pool import QueuePool

from ledger.database import Database
from ledger.database.copied import SETTLED
from ledger.embedded import PORT, Cluster

Connection = psycopg.Connection[tuple[object, ...]]

TEMPLATE = "template_nottwice"
WATCHED = [
    "pg_class",
    "pg_attribute",
    "pg_attrdef",
    "pg_constraint",
    "pg_index",
    "pg_trigger",
    "pg_proc",
    "pg_type",
    "pg_namespace",
    "pg_statistic",
    "pg_rewrite",
    "pg_policy",
    "pg_default_acl",
    "pg_extension",
    "nottwice.installation",
    "nottwice.schema_files",
]
# A row that was added or changed has a younger transaction than all before; one that is gone is missing in the count.
# By ages, which are numbers already; a frozen row has none.
YOUNGEST = "age(xid '3') - min(nullif(age(xmin), 2147483647))"
CATALOGS = "SELECT {}, (SELECT count(*) FROM pg_db_role_setting s WHERE s.setdatabase = d.oid), {} FROM pg_database d {}".format(
    ", ".join(f"(SELECT ARRAY[count(*), {YOUNGEST}] FROM {name})" for name in WATCHED),
    "datallowconn, datconnlimit, datacl::text",
    "WHERE datname = current_database()",
)
TOUCHED = """
    SELECT oid::regclass::text, pg_relation_size(oid) FROM pg_class
    WHERE relnamespace = 'nottwice'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
      AND relname NOT IN ('installation', 'schema_files')"""
EMPTIED_MAX = 1_000_000  # bytes of one table; with more, a new database is cheaper
# Vacuumed, an empty table has no pages, so the next test's rows stand in the order they came; but the planner would
# take it for one that stays empty, where it takes a new one for one that grows.
FORGOTTEN = """
    UPDATE pg_class SET relpages = 0, reltuples = -1, relallvisible = 0
    WHERE relnamespace = 'nottwice'::regnamespace AND relkind = 'r' AND relpages + relallvisible = 0 AND reltuples = 0
    RETURNING age(xid '3') - age(xmin)"""
NUMBERS = (
    "SELECT setval(seqrelid, 1, false) FROM pg_sequence WHERE pg_sequence_last_value(seqrelid) IS NOT NULL"
)
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE datname = %s"
# The one given back last may still have sessions that are about to end; the one before has none.
SPARES = 2

_numbers = count(1)


DoorKey = tuple[str, int]  # its login, and how many connections it may have


@dataclass
class Door:
    """A test's `Database` that its next loan can have: with one session, which nothing is left in."""

    database: Database
    session: int  # the pid of its backend


def as_login(url: str, login: str) -> str:
    return sa.make_url(url).set(username=login).render_as_string(hide_password=False)


def kept_door(database: Database) -> Door | None:
    """None, and it is closed, where a test needed more than one connection of it, none, or closed it."""
    pool = database.engine.pool
    if not isinstance(pool, QueuePool) or pool.checkedin() != 1 or pool.checkedout() or _was_closed(database):
        database.close()
        return None
    try:
        with contextlib.closing(database.engine.raw_connection()) as raw:
            session: psycopg.Connection = raw.driver_connection  # type: ignore[assignment]
            session.autocommit = True
            session.execute("DISCARD ALL")
            session.autocommit = False
            return Door(database, session.info.backend_pid)
    except (psycopg.OperationalError, sa.exc.OperationalError):  # a test ended its session
        database.close()
        return None


def _was_closed(database: Database) -> bool:
    return len(database.engine.pool.dispatch.checkin) > 0  # `close()` listens there, for what is still out


@dataclass
class Lent:
    """One database, between and during its loans."""

    name: str
    url: str
    owner: Connection
    catalogs: Any = None
    doors: dict[DoorKey, Door] = field(default_factory=dict)

    @property
    def own_sessions(self) -> set[int]:
        return {self.owner.info.backend_pid, *(door.session for door in self.doors.values())}

    def close(self) -> None:
        self.owner.close()
        for door in self.doors.values():
            door.database.close()


class Databases:
    """The databases of one process of the run. `close()` ends its connections; the run's end removes the server."""

    def __init__(self, server: Cluster) -> None:
        self.server = server
        self._admin = connected(server, "postgres")
        self._spare: deque[Lent] = deque()
        self._lent: dict[str, Lent] = {}

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The owner's URL of a migrated, empty database that is nobody else's within the block."""
        one = self._emptied() or self._new()
        self._lent[one.url] = one
        yield one.url
        self._spare.append(self._lent.pop(one.url))

    def _new(self) -> Lent:
        name = f"t_{os.getpid()}_{next(_numbers)}"
        self._admin.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        made = Lent(name, self.server.url(database=name), connected(self.server, name))
        made.owner.execute(SETTLED)
        made.catalogs = made.owner.execute(CATALOGS).fetchone()
        return made

    def _emptied(self) -> Lent | None:
        """The oldest spare database. One that cannot be as new, or is not left alone, is dropped."""
        if len(self._spare) < SPARES:
            return None
        one = self._spare.popleft()
        if self._is_left_alone(one) and _as_before(one):
            return one
        one.close()
        self._admin.execute(f"DROP DATABASE {one.name} WITH (FORCE)")
        return None

    def _is_left_alone(self, one: Lent) -> bool:
        """By all but its own sessions, which live: who is still there might write into the next loan."""
        found = {pid for (pid,) in self._admin.execute(SESSIONS, [one.name]).fetchall()}
        return found == one.own_sessions

    @contextmanager
    def opened(self, url: str, login: str = "postgres", *, pool_size: int = 5) -> Iterator[Database]:
        """The `Database` of one that is lent, the same at each loan as long as nothing was done to it."""
        one, key = self._lent[url], (login, pool_size)
        kept = one.doors.pop(key, None)
        database = kept.database if kept else Database(as_login(url, login), pool_size=pool_size)
        yield database
        if key in one.doors:  # of a second door of one login, the first is kept
            database.close()
        elif door := kept_door(database):
            one.doors[key] = door

    def close(self) -> None:
        self._admin.close()
        for one in self._spare:
            one.close()


def _as_before(one: Lent) -> bool:
    """Not where a test ended all sessions of its database, this one's too."""
    try:
        return one.owner.execute(CATALOGS).fetchone() == one.catalogs and _empty(one)
    except psycopg.OperationalError:
        return False


def _empty(one: Lent) -> bool:
    """Whether nothing is left; a table that is too large stays as it is."""
    owner = one.owner
    touched = owner.execute(TOUCHED).fetchall()
    if any(int(str(size)) > EMPTIED_MAX for _, size in touched):
        return False
    owner.execute("SET session_replication_role = replica")  # no trigger that guards what was stored
    owner.execute(NUMBERS)
    if touched:
        tables = [str(table) for table, _ in touched]
        owner.execute("; ".join(f"DELETE FROM {table}" for table in tables))
        owner.execute(f"VACUUM (SKIP_DATABASE_STATS) {', '.join(tables)}")
        if forgotten := owner.execute(FORGOTTEN).fetchall():
            (classes, _), *others = one.catalogs
            one.catalogs = ([classes, forgotten[0][0]], *others)
    return not owner.execute(TOUCHED).fetchall()


def connected(server: Cluster, database: str) -> Connection:
    return psycopg.connect(
        host=str(server.socket), port=PORT, user="postgres", dbname=database, autocommit=True
    )
