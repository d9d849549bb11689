"""A ledger with a past, made fast: millions of completed events, written without indexes, which are built again at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

CHUNK = 500_000
TABLES = "nottwice.events, nottwice.event_contents"
FILL = """
WITH ended AS (
    INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, delivery_id, state, ending, due_at,
                                 attempts, accepted_at, ended_at, version)
    SELECT 'acme', 'shop', 'sale', 'past ' || n, sha256(CAST('past ' || n AS bytea)), sha256(CAST('x' AS bytea)), 'd' || n, 'completed',
           'done', NULL, 1, past.at, past.at, 3
    FROM generate_series({first}, {last}) AS n, LATERAL (SELECT now() - ({of} - n) * interval '0.2 s' AS at) AS past
    RETURNING id)
INSERT INTO nottwice.event_contents (event_id, body) SELECT id, '{{}}' FROM ended
"""
# The primary key stays: others refer to it, and numbers that rise are cheap to add.
INDEXES = """
SELECT CASE WHEN con.oid IS NULL THEN format('DROP INDEX %s', i.indexrelid::regclass)
            ELSE format('ALTER TABLE %s DROP CONSTRAINT %I', i.indrelid::regclass, con.conname) END,
       CASE WHEN con.oid IS NULL THEN pg_get_indexdef(i.indexrelid)
            ELSE format('ALTER TABLE %s ADD CONSTRAINT %I %s', i.indrelid::regclass, con.conname, pg_get_constraintdef(con.oid)) END
FROM pg_index i LEFT JOIN pg_constraint con ON con.conindid = i.indexrelid AND con.conrelid = i.indrelid
WHERE i.indrelid = 'nottwice.events'::regclass AND NOT i.indisprimary ORDER BY i.indexrelid
"""
Say = Callable[[str], None]


def fill(connection: psycopg.Connection[Any], number: int, say: Say, *, chunk: int = CHUNK) -> None:
    """So many completed events, the last of them just now. `connection` is the owner's, in autocommit."""
    with _without_indexes(connection, say):
        for first in range(1, number + 1, chunk):
            last = min(first + chunk - 1, number)
            connection.execute(FILL.format(first=first, last=last, of=number).encode())
            say(f"{last:,} of {number:,} events")
    connection.execute(f"VACUUM (ANALYZE) {TABLES}".encode())
    connection.execute(b"CHECKPOINT")


@contextmanager
def _without_indexes(connection: psycopg.Connection[Any], say: Say) -> Iterator[None]:
    """Nor with triggers, nor waiting for the disk: the rows are right by themselves."""
    found = connection.execute(INDEXES.encode()).fetchall()
    connection.execute(b"SET session_replication_role = replica")
    connection.execute(b"SET synchronous_commit = off")
    connection.execute(b"SET maintenance_work_mem = '512MB'")
    for drop, _ in found:
        connection.execute(drop.encode())
    yield
    for _, make in found:
        say(make[:90])
        connection.execute(make.encode())
    for setting in ("session_replication_role", "synchronous_commit", "maintenance_work_mem"):
        connection.execute(f"RESET {setting}".encode())
