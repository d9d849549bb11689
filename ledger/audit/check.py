"""Is the record whole? Walks the chain from its first entry, in short transactions, and says what does not fit.

Seen: an entry that was changed, removed, put in between, put in beside the ledger, or moved; a chain that ends
before, or reads otherwise than, an earlier check or a seal that somebody kept (`Kept`). Not seen: newest entries that
were cut off since the last check together with their seals, or a chain that was made anew as a whole together with
the rows of all checks. Whoever can do that owns the database; against them, keep the last seal elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from ledger.audit import memory as audit_memory
from ledger.audit import seals
from ledger.audit.memory import ENDS_EARLY, Break, Mark, Verification
from ledger.database import Transaction

T = TypeVar("T")
Progress = Callable[[int, int], None]  # entries checked, entries in all
Kept = tuple[int, bytes]  # a position in the chain, and the seal that stood there
ROWS = 2000  # of a piece; one is a transaction of some 50 ms
BACKDATED = timedelta(hours=1)  # more than any transaction lives, or clocks of two servers differ
LOWEST = -(2**63)


class Run(Protocol):
    """Runs a read in a transaction of its own: `Database.run`, with or without a role."""

    def __call__(self, body: Callable[[Transaction], T], /) -> T: ...


@dataclass(frozen=True, slots=True)
class _Walk:
    entries: int = 0
    hash: bytes = seals.GENESIS
    last: int = 0
    at: datetime | None = None
    broken: Break | None = None
    backdated: int | None = None


def verify(
    run: Run, progress: Progress = lambda _done, _all: None, *, kept: Kept | None = None
) -> Verification:
    """Walk up to the seal that is the last one now. `kept` is a seal that somebody wrote down elsewhere.

    Each piece is a transaction of its own: entries are only ever appended, so none of them needs the others'
    moment, and no table is kept from being cleaned.
    """
    walk, end, marks = _Walk(), run(_last_seal), run(audit_memory.marks)
    if kept is not None:
        marks.append(Mark(*kept, "somebody kept"))
    while walk.broken is None and walk.entries < end:
        rows = run(_piece(walk.entries, end))
        if not rows:
            break  # cut off under our feet; the next check says so
        walk = _walked(walk, rows, marks)
        progress(walk.entries, end)
    broken = walk.broken or _cut_off(walk, marks) or run(_lost) or _beside(run)
    return Verification(walk.entries, walk.hash, broken, walk.backdated, run(seals.unsealed))


# ── The walk ──────────────────────────────────────────────────────────────────────────────────────────

PIECE = """
SELECT s.sequence, s.audit_id, s.previous_hash, s.hash AS seal, a.*
FROM nottwice.audit_seals s LEFT JOIN nottwice.audit a ON a.id = s.audit_id
WHERE s.sequence > :after AND s.sequence <= :end ORDER BY s.sequence LIMIT :rows
"""


def _piece(after: int, end: int) -> Callable[[Transaction], Sequence[sa.Row[Any]]]:
    return lambda tx: tx.all(PIECE, after=after, end=end, rows=ROWS)


def _walked(walk: _Walk, rows: Sequence[sa.Row[Any]], marks: Sequence[Mark]) -> _Walk:
    for row in rows:
        words = _what_is_wrong(walk, row) or _differs(row, marks)
        if words:
            return replace(walk, broken=Break(row.audit_id, words))
        early = walk.at is not None and row.at < walk.at - BACKDATED
        backdated = row.audit_id if early and walk.backdated is None else walk.backdated
        walk = _Walk(row.sequence, bytes(row.seal), row.audit_id, row.at, None, backdated)
    return walk


def _what_is_wrong(walk: _Walk, row: sa.Row[Any]) -> str | None:
    if row.sequence != walk.entries + 1:
        before = f"entry {walk.last:,}" if walk.entries else "the beginning"
        return f"The seal between {before} and entry {row.audit_id:,} is missing."
    if row.id is None:
        return f"Entry {row.audit_id:,} is missing; only its seal is left."
    if bytes(row.previous_hash) != walk.hash:
        return f"Entry {row.audit_id:,} does not follow from the one before it."
    if bytes(row.seal) != seals.link(walk.hash, row):
        return f"Entry {row.audit_id:,} was changed after it was sealed."
    return None


def _differs(row: sa.Row[Any], marks: Sequence[Mark]) -> str | None:
    """A chain that is whole in itself, and yet not the one that was seen before."""
    for mark in marks:
        if mark.entries == row.sequence and mark.hash != bytes(row.seal):
            return f"Entry {row.audit_id:,}, or one before it, is not the one that {mark.whose}."
    return None


def _cut_off(walk: _Walk, marks: Sequence[Mark]) -> Break | None:
    for mark in marks:
        if mark.entries > walk.entries:
            n = mark.entries - walk.entries
            return Break(walk.last, f"{ENDS_EARLY} {walk.last:,}: {n:,} that {mark.whose} are gone.")
    return None


def _last_seal(tx: Transaction) -> int:
    return int(tx.one("SELECT coalesce(max(sequence), 0) AS n FROM nottwice.audit_seals").n)


# ── What stands outside the chain ─────────────────────────────────────────────────────────────────────

LOST = """
SELECT min(w.audit_id) AS id FROM nottwice.audit_unsealed w
WHERE NOT EXISTS (SELECT FROM nottwice.audit a WHERE a.id = w.audit_id)
"""
BESIDE = """
WITH piece AS (SELECT id FROM nottwice.audit WHERE id > :after ORDER BY id LIMIT :rows)
SELECT max(p.id) AS last, min(p.id) FILTER (WHERE s.audit_id IS NULL AND w.audit_id IS NULL) AS beside
FROM piece p LEFT JOIN nottwice.audit_seals s ON s.audit_id = p.id
             LEFT JOIN nottwice.audit_unsealed w ON w.audit_id = p.id
"""
HOW = "It was put in beside the ledger, or its seal was removed."


def _lost(tx: Transaction) -> Break | None:
    id_ = tx.one(LOST).id
    return id_ and Break(id_, f"Entry {id_:,} is missing; it was removed before it could be sealed.")


def _beside(run: Run) -> Break | None:
    """An entry that is neither sealed nor waits for its seal: somebody put it in past the ledger's own triggers."""
    after = LOWEST
    while True:
        row = run(lambda tx, after=after: tx.one(BESIDE, after=after, rows=ROWS))  # type: ignore[misc]
        if row.beside is not None:
            return Break(row.beside, f"Entry {row.beside:,} has no seal and waits for none. {HOW}")
        if row.last is None:
            return None
        after = row.last
