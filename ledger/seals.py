"""The hash chain over the audit: appended after the commits, so that nobody waits for anybody, and never reordered.

A chain inside the changing transaction would make everyone wait for the slowest. A sealer, one at a time by a row
lock, takes the rows of transactions older than every running one: none can appear before them later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
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
LATEST = 10_000  # a transaction lives at most some seconds, so what is unsealed is among the latest rows

# Visible though it is not older than every running transaction, in the second case: a number from before a dump and
# restore, whose transaction is long over.
UNSEALED = """
SELECT a.* FROM nottwice.audit a
WHERE a.id > (SELECT coalesce(max(audit_id), 0) - :latest FROM nottwice.audit_seals)
  AND NOT EXISTS (SELECT FROM nottwice.audit_seals s WHERE s.audit_id = a.id)
  AND (a.transaction < pg_snapshot_xmin(pg_current_snapshot()) OR a.transaction >= pg_snapshot_xmax(pg_current_snapshot()))
ORDER BY a.transaction, a.id LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class Verification:
    """`broken` names the first entry that does not fit, in words; None: the record is whole.

    `unsealed` counts the audit rows that wait for their seal longer than a minute: something is wrong with the sealer.
    """

    entries: int
    broken: str | None
    unsealed: int


def seal(tx: Transaction, limit: int = 500) -> int:
    """Append finished audit rows to the chain; returns how many. Only one sealer at a time, the others return 0."""
    if not _is_the_sealer(tx):
        return 0
    last = tx.first("SELECT sequence, hash FROM nottwice.audit_seals ORDER BY sequence DESC LIMIT 1")
    sequence, previous = (last.sequence, bytes(last.hash)) if last else (0, GENESIS)
    seals = []
    for row in tx.all(UNSEALED, limit=limit, latest=LATEST):
        sequence, link = sequence + 1, _link(previous, row)
        seals.append({"sequence": sequence, "audit_id": row.id, "previous": previous, "hash": link})
        previous = link
    tx.many(
        """INSERT INTO nottwice.audit_seals (sequence, audit_id, previous_hash, hash)
           VALUES (:sequence, :audit_id, :previous, :hash)""",
        seals,
    )
    return len(seals)


def _is_the_sealer(tx: Transaction) -> bool:
    """A row lock of this transaction; the row is made by the first sealer of all."""
    sql = "SELECT FROM nottwice.maintenance WHERE duty = 'seal' FOR UPDATE SKIP LOCKED"
    if tx.first(sql) is not None:
        return True
    tx.execute("INSERT INTO nottwice.maintenance (duty) VALUES ('seal') ON CONFLICT DO NOTHING")
    return tx.first(sql) is not None


CHAIN = """
SELECT s.sequence, s.audit_id, s.previous_hash, s.hash AS seal, a.*
FROM nottwice.audit_seals s LEFT JOIN nottwice.audit a ON a.id = s.audit_id
ORDER BY s.sequence
"""


def verify(tx: Transaction, progress: Callable[[int], None] = lambda _: None) -> Verification:
    """Walk the chain from its beginning; `progress` is told the number of entries checked so far.

    A row that was changed, removed or put in between is named. What nobody can see: that the newest seals were cut
    off together with their rows. Keep the last hash elsewhere where that matters.
    """
    previous, checked, broken = GENESIS, 0, None
    with closing(tx.execute(sa.text(CHAIN).execution_options(yield_per=1000))) as rows:
        for row in rows:
            broken = _what_is_wrong(row, checked + 1, previous)
            if broken:
                break
            previous, checked = bytes(row.seal), checked + 1
            progress(checked)
    return Verification(checked, broken, unsealed(tx))


def unsealed(tx: Transaction, older_than_s: float = 60.0) -> int:
    """Audit rows that wait for their seal longer than this."""
    return int(
        tx.one(
            """SELECT count(*) AS n FROM nottwice.audit a WHERE a.at < now() - make_interval(secs => :s)
               AND NOT EXISTS (SELECT FROM nottwice.audit_seals s WHERE s.audit_id = a.id)""",
            s=older_than_s,
        ).n
    )


def _what_is_wrong(row: sa.Row[Any], expected: int, previous: bytes) -> str | None:
    if row.sequence != expected:
        return f"Entry {expected} of the chain is missing."
    if row.id is None:
        return f"Audit row {row.audit_id} is missing (entry {row.sequence} of the chain names it)."
    if bytes(row.previous_hash) != previous:
        return f"Entry {row.sequence} of the chain does not follow from the one before it."
    if bytes(row.seal) != _link(previous, row):
        return (
            f"Audit row {row.audit_id} was changed after it was sealed (entry {row.sequence} of the chain)."
        )
    return None


def _link(previous: bytes, row: sa.Row[Any]) -> bytes:
    """The hash of a row behind the hash of the one before it, over one spelling of each value."""
    values = {name: _spelled(getattr(row, name)) for name in SEALED}
    return hashlib.sha256(previous + canonical_json(values)).digest()


def _spelled(value: Any) -> Any:
    if value is None or isinstance(value, list):
        return value
    if isinstance(value, datetime):  # the same instant, whatever zone the session is in
        value = value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value)
