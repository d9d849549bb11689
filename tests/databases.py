"""Databases for tests: migrated and empty, each lent to one test and emptied for the next.

A new one costs its files, and each of its first sessions the catalogs' cache again: 100 ms of CPU a test, several
times what most tests need for themselves. Emptied is as new: tables without a page, numbers from 1. What a test did
to anything but rows (a trigger, a grant, a statistic) shows in the catalogs; that database is dropped.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import psycopg

from ledger.copied import SETTLED
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
CATALOGS = "SELECT {}, (SELECT count(*) FROM pg_db_role_setting s WHERE s.setdatabase = d.oid), {} FROM pg_database d {}".format(
    ", ".join(f"(SELECT count(*) || ' ' || max(xmin::text::bigint) FROM {name})" for name in WATCHED),
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
    WHERE relnamespace = 'nottwice'::regnamespace AND relkind = 'r' AND relpages + relallvisible = 0 AND reltuples = 0"""
NUMBERS = (
    "SELECT setval(seqrelid, 1, false) FROM pg_sequence WHERE pg_sequence_last_value(seqrelid) IS NOT NULL"
)
LEFT_SESSIONS = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s"
# The one given back last may still have sessions that are about to end; the one before has none.
SPARES = 2

_numbers = count(1)


class Databases:
    """The databases of one process of the run. `close()` ends its connection; the run's end removes the server."""

    def __init__(self, server: Cluster) -> None:
        self._server = server
        self._admin = connected(server, "postgres")
        self._spare: deque[tuple[str, object]] = deque()

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The owner's URL of a migrated, empty database that is nobody else's within the block."""
        name = f"t_{os.getpid()}_{next(_numbers)}"
        catalogs = self._emptied(name) or self._new(name)
        yield self._server.url(database=name)
        self._spare.append((name, catalogs))

    def _new(self, name: str) -> object:
        self._admin.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        with connected(self._server, name) as owner:
            owner.execute(SETTLED)
            return owner.execute(CATALOGS).fetchone()

    def _emptied(self, name: str) -> object:
        """The oldest spare database under a new name, so that nothing kept for the old one is met again."""
        if len(self._spare) < SPARES:
            return None
        old, catalogs = self._spare.popleft()
        self._admin.execute(LEFT_SESSIONS, [old])
        try:
            self._admin.execute(f"ALTER DATABASE {old} RENAME TO {name}")
        except psycopg.errors.ObjectInUse:  # a session of it is slow to end: the run's end removes it
            return None
        with connected(self._server, name) as owner:
            if owner.execute(CATALOGS).fetchone() == catalogs and _empty(owner):
                return owner.execute(CATALOGS).fetchone()
        self._admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        return None

    def close(self) -> None:
        self._admin.close()


def _empty(owner: Connection) -> bool:
    """Whether nothing is left; a table that is too large stays as it is."""
    touched = owner.execute(TOUCHED).fetchall()
    if any(int(str(size)) > EMPTIED_MAX for _, size in touched):
        return False
    owner.execute("SET session_replication_role = replica")  # no trigger that guards what was stored
    owner.execute(NUMBERS)
    if touched:
        tables = [str(table) for table, _ in touched]
        owner.execute("; ".join(f"DELETE FROM {table}" for table in tables))
        owner.execute(f"VACUUM (SKIP_DATABASE_STATS) {', '.join(tables)}")
        owner.execute(FORGOTTEN)
    return not owner.execute(TOUCHED).fetchall()


def connected(server: Cluster, database: str) -> Connection:
    return psycopg.connect(
        host=str(server.socket), port=PORT, user="postgres", dbname=database, autocommit=True
    )
