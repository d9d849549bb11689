"""The hash chain over the audit: each entry is sealed behind the one before it, right after its commit.

A chain inside the changing transaction would make everyone wait for the slowest. A sealer, one at a time by a row
lock, appends what is committed. It waits for no running transaction, its own database's or a stranger's: a row of
one that is still open is not visible yet and comes later. What it guarantees: an entry stands behind every entry
that its writer could have seen, and nothing ever comes between two that are sealed.

What waits is in a table of its own (sql/0013), so a look costs the same however long the history is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from ledger.database import Transaction
from ledger.records import canonical_json

GENESIS = bytes(32)
SEALED = (
    *("id", "at", "person_id", "role", "act", "entity", "entity_id", "entity_version", "outcome", "why"),
    *("looked_at", "known", "state_before", "state_after", "detail", "form_id", "transaction"),
)
# In the order of their ids: of two entries of which one writer saw the other, that one drew its id later.
WAITING = "SELECT audit_id FROM nottwice.audit_unsealed ORDER BY audit_id LIMIT :limit"
ENTRIES = "SELECT * FROM nottwice.audit WHERE id = ANY(CAST(:ids AS bigint[])) ORDER BY id"
APPEND = """
INSERT INTO nottwice.audit_seals (sequence, audit_id, previous_hash, hash) VALUES (:sequence, :audit_id, :previous, :hash)
"""
WAITS_NO_MORE = "DELETE FROM nottwice.audit_unsealed WHERE audit_id = ANY(CAST(:ids AS bigint[]))"


def seal(tx: Transaction, limit: int = 500) -> int:
    """Append committed audit rows to the chain; returns how many. Only one sealer at a time, the others return 0."""
    if tx.first(WAITING, limit=1) is None or not _is_the_sealer(tx):
        return 0
    ids = [row.audit_id for row in tx.all(WAITING, limit=limit)]
    seals = _links(tx, tx.all(ENTRIES, ids=ids))
    tx.many(APPEND, seals)
    tx.execute(WAITS_NO_MORE, ids=[one["audit_id"] for one in seals])
    return len(seals)


def unsealed(tx: Transaction, older_than_s: float = 60.0) -> int:
    """Audit rows that wait for their seal longer than this: no worker runs, or its sealer is in trouble."""
    sql = "SELECT count(*) AS n FROM nottwice.audit_unsealed WHERE since < now() - make_interval(secs => :s)"
    return int(tx.one(sql, s=older_than_s).n)


def link(previous: bytes, row: sa.Row[Any]) -> bytes:
    """The hash of a row behind the hash of the one before it, over one spelling of each value."""
    values = {name: _spelled(getattr(row, name)) for name in SEALED}
    return hashlib.sha256(previous + canonical_json(values)).digest()


def _links(tx: Transaction, rows: Sequence[sa.Row[Any]]) -> list[dict[str, Any]]:
    last = tx.first("SELECT sequence, hash FROM nottwice.audit_seals ORDER BY sequence DESC LIMIT 1")
    sequence, previous = (last.sequence, bytes(last.hash)) if last else (0, GENESIS)
    seals = []
    for row in rows:
        sequence, sealed = sequence + 1, link(previous, row)
        seals.append({"sequence": sequence, "audit_id": row.id, "previous": previous, "hash": sealed})
        previous = sealed
    return seals


def _is_the_sealer(tx: Transaction) -> bool:
    """A row lock of this transaction; the row is made by the first sealer of all."""
    sql = "SELECT FROM nottwice.maintenance WHERE duty = 'seal' FOR UPDATE SKIP LOCKED"
    if tx.first(sql) is not None:
        return True
    tx.execute("INSERT INTO nottwice.maintenance (duty) VALUES ('seal') ON CONFLICT DO NOTHING")
    return tx.first(sql) is not None


def _spelled(value: Any) -> Any:
    if value is None or isinstance(value, list):
        return value
    if isinstance(value, datetime):  # the same instant, whatever zone the session is in
        value = value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value)
