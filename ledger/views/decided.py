"""What people decided about sends, and which of it later proof contradicts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ledger.database import Transaction
from ledger.database.rows import made

CONTRADICTED_DAYS = 7  # for how long it is told
Place = tuple[datetime, int]  # time and number of the entry where a page ends


@dataclass(frozen=True, slots=True)
class Decided:
    """One act of a person about a send. `contradicted`: proof that came later says otherwise, and nobody decided since."""

    audit_id: int
    at: datetime
    person_id: int
    who: str
    act: str
    why: str
    looked_at: tuple[str, ...]
    version: int | None
    action_id: int
    kind: str
    about: str
    state: str
    contradicted_at: datetime | None

    @property
    def contradicted(self) -> bool:
        return self.contradicted_at is not None

    @property
    def place(self) -> Place:
        return (self.at, self.audit_id)


COLUMNS = """
SELECT u.id AS audit_id, u.at, u.person_id, p.name AS who, u.act, u.why, u.looked_at, u.entity_version AS version,
       a.id AS action_id, a.kind, a.about, a.state,
       CASE WHEN u.entity_version = a.version THEN a.contradicted_at END AS contradicted_at
"""
DECISIONS = """
FROM nottwice.audit u JOIN nottwice.people p ON p.id = u.person_id JOIN nottwice.actions a ON a.id = u.entity_id
WHERE u.entity = 'action' AND u.outcome = 'done' AND u.act NOT IN ('reveal', 'look again')
"""
# What asks, takes back or opens again decides nothing; the send that a new key made is its agreement's, told there.
TODAY = """ AND u.at >= date_trunc('day', now(), 'UTC') AND u.act NOT IN ('opened again', 'taken back', 'send again with a new key')
 AND u.act !~ '^(asked a second person|withdrawn|disagreed):'"""
LATELY = " AND a.contradicted_at > now() - make_interval(days => :days) AND u.entity_version = a.version"
BEHIND = (
    " AND (CAST(:id AS bigint) IS NULL OR (u.at, u.id) < (CAST(:at AS timestamptz), CAST(:id AS bigint)))"
)


def today(tx: Transaction, *, after: Place | None = None, most: int = 25) -> list[Decided]:
    """What people decided about sends since midnight UTC, the newest first, behind the place where a page ended."""
    at, id_ = after or (None, None)
    sql = COLUMNS + DECISIONS + TODAY + BEHIND + " ORDER BY u.at DESC, u.id DESC LIMIT :most"
    return [
        made(Decided, row, looked_at=tuple(row.looked_at)) for row in tx.all(sql, at=at, id=id_, most=most)
    ]


def many_today(tx: Transaction) -> int:
    return int(tx.one("SELECT count(*) AS n" + DECISIONS + TODAY).n)


def last(tx: Transaction, action_id: int) -> Decided | None:
    """The newest act of a person about one send."""
    row = tx.first(COLUMNS + DECISIONS + " AND u.entity_id = :id ORDER BY u.id DESC LIMIT 1", id=action_id)
    return made(Decided, row, looked_at=tuple(row.looked_at)) if row else None


def contradicted(tx: Transaction, *, most: int = 25) -> list[Decided]:
    """Decisions of people that proof of the last `CONTRADICTED_DAYS` contradicts, the latest proof first."""
    sql = COLUMNS + DECISIONS + LATELY + " ORDER BY a.contradicted_at DESC, a.id DESC LIMIT :most"
    rows = tx.all(sql, days=CONTRADICTED_DAYS, most=most)
    return [made(Decided, row, looked_at=tuple(row.looked_at)) for row in rows]


def many_contradicted(tx: Transaction) -> int:
    return int(tx.one("SELECT count(*) AS n" + DECISIONS + LATELY, days=CONTRADICTED_DAYS).n)
