"""What the review desk reads about sends that share a cause: their groups, one group whole, and lists that were decided."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ledger.database import Transaction
from ledger.database.rows import made
from ledger.evidence import rests
from ledger.evidence.rests import Rest
from ledger.together import LIST_MAX

SHARED_MIN = 5  # fewer are decided one by one
CAUSES_MAX = 3  # shown above the queue, the largest first


@dataclass(frozen=True, slots=True)
class Cause:
    """Sends of one provider and kind that began in one quarter of an hour and wait. `id` is one of them."""

    id: int
    provider: str
    kind: str
    first_at: datetime
    last_at: datetime
    n: int


CAUSES = """
SELECT min(id) AS id, provider, kind, min(first_started_at) AS first_at, max(first_started_at) AS last_at, count(*) AS n
FROM nottwice.waiting_by_cause GROUP BY provider, kind, slot HAVING count(*) >= :least ORDER BY n DESC, first_at LIMIT :most
"""


def causes(tx: Transaction) -> list[Cause]:
    """The largest groups that can be decided together."""
    rows = tx.all(CAUSES, least=SHARED_MIN, most=CAUSES_MAX)
    return [made(Cause, row) for row in rows]


@dataclass(frozen=True, slots=True)
class Member:
    """One send of a group, with what travels with a decision about it, and what a common word would rest on."""

    id: int
    version: int
    content_digest: bytes
    about: str
    recipients: tuple[str, ...]
    waiting_s: float
    verdict: str | None
    key_left_s: float | None
    looking_s: float
    rest: Rest


@dataclass(frozen=True, slots=True)
class Group:
    """A cause and those of its sends that one list holds, the oldest first; `cause.n` may be more."""

    cause: Cause
    members: tuple[Member, ...]
    now: datetime


# Of which cause a send is, or was when it still waited.
SAME = """
SELECT id, provider, kind, nottwice.quarter_of_an_hour(first_started_at) AS slot
FROM nottwice.actions WHERE id = :id AND first_started_at IS NOT NULL
"""
MEMBERS = """
SELECT a.id, a.version, a.content_digest, a.about, coalesce(r.recipients, '{}') AS recipients, a.first_started_at,
       nottwice.seconds_since(a.review_since) AS waiting_s, count(*) OVER () AS n,
       min(a.first_started_at) OVER () AS first_at, max(a.first_started_at) OVER () AS last_at, now() AS now,
       CASE WHEN a.verdict = 'safe_to_try_again' AND k.ends < now() THEN 'nobody_knows' ELSE a.verdict END AS verdict,
       CAST(extract(epoch FROM k.ends - now()) AS double precision) AS key_left_s,
       CAST(greatest(0, coalesce(extract(epoch FROM a.evidence_until - now()), 0)) AS double precision) AS looking_s
FROM nottwice.waiting_by_cause s JOIN nottwice.actions a ON a.id = s.id LEFT JOIN nottwice.recipients r ON r.action_id = a.id,
     LATERAL (SELECT nottwice.key_ends(a.first_started_at, a.key_window_s, a.key_margin_s) AS ends) k
WHERE s.provider = :provider AND s.kind = :kind AND s.slot = :slot
ORDER BY a.review_since, a.id LIMIT :most
"""


def group(tx: Transaction, action_id: int) -> Group | None:
    """Those that share the cause of one send and wait; None when there is no such send, or none of them waits."""
    of = tx.first(SAME, id=action_id)
    if of is None:
        return None
    values = {"provider": of.provider, "kind": of.kind, "slot": of.slot}
    rows = tx.all(MEMBERS, **values, most=LIST_MAX)
    if not rows:
        return None
    first = rows[0]
    cause = Cause(first.id, of.provider, of.kind, first.first_at, first.last_at, first.n)
    found = rests.of_each(tx, [row.id for row in rows])
    members = tuple(
        made(
            Member,
            row,
            recipients=tuple(row.recipients),
            content_digest=bytes(row.content_digest),
            rest=found[row.id],
        )
        for row in rows
    )
    return Group(cause, members, first.now)


# ── Lists that were decided, or wait for a second person ──────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class DecidedList:
    """One list as it stands. `can_go_back` counts those of it that have not gone yet."""

    id: int
    version: int
    decision: str
    cause: str
    state: str
    row_count: int
    why: str
    looked_at: tuple[str, ...]
    requested_by: int
    name: str
    requested_at: datetime
    expires_at: datetime | None
    expired: bool
    decided_name: str
    decided_by: int | None
    decided_at: datetime | None
    can_go_back: int
    now: datetime


LIST = """
SELECT t.id, t.version, t.decision, t.cause, t.state, t.row_count, t.why, t.looked_at, t.requested_by, p.name, t.requested_at, t.expires_at,
       coalesce(t.expires_at <= now(), false) AS expired, coalesce(d.name, '') AS decided_name, t.decided_by, t.decided_at, now() AS now,
       (SELECT count(*) FROM nottwice.together_rows r JOIN nottwice.actions a ON a.id = r.action_id
        WHERE r.together_id = t.id AND r.result = 'done' AND a.state = 'approved' AND a.decided_send
          AND a.version = r.seen_version + 1) AS can_go_back
FROM nottwice.together t JOIN nottwice.people p ON p.id = t.requested_by LEFT JOIN nottwice.people d ON d.id = t.decided_by
"""


def decided_list(tx: Transaction, list_id: int) -> DecidedList | None:
    row = tx.first(f"{LIST} WHERE t.id = :id", id=list_id)
    return made(DecidedList, row, looked_at=tuple(row.looked_at)) if row else None


def waiting_lists(tx: Transaction, *, most: int = 5) -> list[DecidedList]:
    """Those for which a second person is waited, the oldest first."""
    where = "WHERE t.state = 'waiting' AND t.expires_at > now() ORDER BY t.id LIMIT :most"
    return [made(DecidedList, row, looked_at=tuple(row.looked_at)) for row in tx.all(f"{LIST} {where}", most=most)]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one send of a list: `state` is where it is now, `reason` why it was left alone."""

    id: int
    about: str
    recipients: tuple[str, ...]
    result: str
    reason: str
    state: str


def results(tx: Transaction, list_id: int) -> list[Result]:
    """Every send of a list, those left alone first."""
    rows = tx.all(
        """SELECT a.id, a.about, coalesce(c.recipients, '{}') AS recipients, w.result, w.reason, a.state
           FROM nottwice.together_rows w JOIN nottwice.actions a ON a.id = w.action_id
           LEFT JOIN nottwice.recipients c ON c.action_id = a.id
           WHERE w.together_id = :id ORDER BY w.result <> 'left', a.id""",
        id=list_id,
    )
    return [made(Result, row, recipients=tuple(row.recipients)) for row in rows]
