"""What arrived and became no event: other content under a key that is taken, and what has no usable key or shape.

Neither list carries a body. Pages follow each other by the id where the last one ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ledger.database import Transaction
from ledger.database.rows import made

COUNTED_MAX = 10_000
PATHS_MAX = 200


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many conflicts nobody has seen and how much is in quarantine; COUNTED_MAX + 1 stands for more than that."""

    conflicts: int
    quarantine: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """One other content of an event. `bytes` and `first_bytes` are None when they are no longer kept.

    `seen_by` is who marked it as seen, last.
    """

    id: int
    event_id: int
    version: int
    source: str
    type: str
    event_key: str
    accepted_at: datetime
    deliveries: int
    delivery_id: str
    content_type: str
    first_seen_at: datetime
    last_seen_at: datetime
    acknowledged_at: datetime | None
    bytes: int | None
    first_bytes: int | None
    seen_by: str | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One element without a usable key or shape. `element` is its place in a body that is a list.

    `bytes` is None when it is no longer kept. `asked_at` is when a person last had it examined again, `result` and
    `why_not` what came of that.
    """

    id: int
    namespace: str
    source: str
    element: int
    reason: str
    deliveries: int
    first_seen_at: datetime
    last_seen_at: datetime
    settled_at: datetime | None
    bytes: int | None
    asked_at: datetime | None
    examined_at: datetime | None
    result: str | None
    why_not: str
    event_id: int | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Change:
    """A path at which two contents differ, and on which sides it is."""

    path: tuple[str, ...]
    in_first: bool
    in_later: bool


CONFLICT = """
SELECT c.id, c.event_id, c.version, e.source, e.type, e.event_key, e.accepted_at, c.deliveries, c.delivery_id, c.content_type,
       c.first_seen_at, c.last_seen_at, c.acknowledged_at, s.bytes, f.bytes AS first_bytes, now() AS now,
       (SELECT p.name FROM nottwice.audit u JOIN nottwice.people p ON p.id = u.person_id
        WHERE u.entity = 'conflict' AND u.entity_id = c.id AND u.entity_version = c.version) AS seen_by
FROM {found} c JOIN nottwice.events e ON e.id = c.event_id JOIN nottwice.conflict_sizes s ON s.id = c.id
LEFT JOIN nottwice.event_sizes f ON f.event_id = c.event_id
"""
LISTED = """(SELECT id, event_id, version, deliveries, delivery_id, content_type, first_seen_at, last_seen_at, acknowledged_at
             FROM nottwice.conflicts WHERE {which} ORDER BY id DESC LIMIT :most)"""
QUARANTINED = """
SELECT q.id, q.namespace, q.source, q.element, q.reason, q.deliveries, q.first_seen_at, q.last_seen_at, q.settled_at, s.bytes,
       x.asked_at, x.done_at AS examined_at, x.result, coalesce(x.reason, '') AS why_not, x.event_id, now() AS now
FROM nottwice.quarantine q JOIN nottwice.quarantine_sizes s ON s.id = q.id
LEFT JOIN LATERAL (SELECT * FROM nottwice.examinations e WHERE e.quarantine_id = q.id ORDER BY e.id DESC LIMIT 1) x ON true
"""
SIZES = """
SELECT (SELECT count(*) FROM (SELECT FROM nottwice.conflicts WHERE acknowledged_at IS NULL LIMIT :most) AS c) AS conflicts,
       (SELECT count(*) FROM (SELECT FROM nottwice.quarantine WHERE settled_at IS NULL LIMIT :most) AS q) AS quarantine
"""


def sizes(tx: Transaction) -> Sizes:
    return made(Sizes, tx.one(SIZES, most=COUNTED_MAX + 1))


def conflicts(
    tx: Transaction, *, seen_too: bool = False, after: int | None = None, most: int = 25
) -> list[Conflict]:
    """The newest first, behind an id; those that somebody has seen only when asked for."""
    which = ["true" if seen_too else "acknowledged_at IS NULL"]
    which += ["id < :after"] if after is not None else []
    found = LISTED.format(which=" AND ".join(which))
    sql = CONFLICT.format(found=found) + " ORDER BY c.id DESC"
    return [made(Conflict, row) for row in tx.all(sql, after=after, most=most)]


def conflict(tx: Transaction, conflict_id: int) -> Conflict | None:
    row = tx.first(CONFLICT.format(found="nottwice.conflicts") + " WHERE c.id = :id", id=conflict_id)
    return made(Conflict, row) if row else None


def changes(tx: Transaction, conflict_id: int, ignored: Sequence[str] = ()) -> list[Change]:
    """Where the two contents differ, at most PATHS_MAX places; none for what is no document.

    `ignored` are the members of this source that differ between honest retries.
    """
    rows = tx.all("SELECT * FROM nottwice.changed_paths(:id, :most)", id=conflict_id, most=PATHS_MAX)
    found = [Change(tuple(row.path), row.in_first, row.in_later) for row in rows]
    return [change for change in found if not _is_ignored(change.path, ignored)]


def quarantine(tx: Transaction, *, after: int | None = None, most: int = 25) -> list[Quarantined]:
    """What is not settled yet, the newest first, behind an id."""
    place = "" if after is None else " AND q.id < :after"
    sql = QUARANTINED + f" WHERE q.settled_at IS NULL{place} ORDER BY q.id DESC LIMIT :most"
    return [made(Quarantined, row) for row in tx.all(sql, after=after, most=most)]


def quarantined(tx: Transaction, quarantine_id: int) -> Quarantined | None:
    row = tx.first(QUARANTINED + " WHERE q.id = :id", id=quarantine_id)
    return made(Quarantined, row) if row else None


def _is_ignored(path: tuple[str, ...], ignored: Sequence[str]) -> bool:
    return any(path[: len(names)] == names for names in (tuple(member.split(".")) for member in ignored))
