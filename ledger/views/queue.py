"""The queue of the review desk: what waits for a person, the most pressing first, a page at a time.

A key that ends within the hour goes first, then the costliest mistake, then the longest wait. A page reads its own rows
and those whose key ends soon, however many wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from ledger.database import Transaction
from ledger.database.rows import made

Segment = Literal["uncertain", "to_approve", "second_person"]
Place = tuple[bool, int, datetime, int]  # where a page of the queue ends
START = (0, datetime(1, 1, 1, tzinfo=UTC), 0)


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One send that waits for a person. `key_left_s` is None without keys, negative when the key ran out.

    `points_to_sent`: something hints that it went, and was not taken back.
    """

    id: int
    kind: str
    about: str
    provider: str
    cost: str
    verdict: str | None
    recipients: tuple[str, ...]
    waiting_s: float
    key_left_s: float | None
    looking_s: float
    points_to_sent: bool
    place: Place


ROW = """
SELECT a.id, a.kind, a.about, a.provider, a.cost, a.verdict, a.evidence_until, nottwice.cost_rank(a.cost) AS rank,
       coalesce(a.review_since, a.created_at) AS since,
       nottwice.key_ends(a.first_started_at, a.key_window_s, a.key_margin_s) AS key_until,
       coalesce({soon}, false) AS soon
FROM nottwice.actions a
"""
SOON = """nottwice.key_ends_s(a.first_started_at, a.key_window_s, a.key_margin_s)
          BETWEEN nottwice.seconds_of(now()) AND nottwice.seconds_of(now()) + 3600"""
ASKED = "SELECT q.action_id FROM nottwice.requests q WHERE q.decision IS NULL AND q.expires_at > now()"
# Each through an index of its own, in its order.
PRESSING = (
    f"WHERE a.state = 'needs_review' AND a.key_window_s IS NOT NULL AND {SOON} AND a.id NOT IN ({ASKED})"
)
OTHERS = f"""
WHERE a.state = {{state}} AND NOT coalesce({SOON}, false){{more}}
  AND (nottwice.cost_rank(a.cost), coalesce(a.review_since, a.created_at), a.id)
      > (CAST(:from_rank AS integer), CAST(:from_since AS timestamptz), CAST(:from_id AS bigint))
ORDER BY nottwice.cost_rank(a.cost), coalesce(a.review_since, a.created_at), a.id LIMIT :most"""
FOUND: dict[Segment, tuple[str, ...]] = {
    "uncertain": (PRESSING, OTHERS.format(state="'needs_review'", more=f" AND a.id NOT IN ({ASKED})")),
    "to_approve": (OTHERS.format(state="'proposed'", more=""),),
    "second_person": (f"WHERE a.state = 'needs_review' AND a.id = ANY (ARRAY({ASKED}))",),
}
PAGE = """
WITH found AS ({found}),
page AS MATERIALIZED (  -- recipients are looked up for these alone
    SELECT *, NOT soon AS later FROM found
    WHERE CAST(:id AS bigint) IS NULL
       OR (NOT soon, rank, since, id)
          > (CAST(:later AS boolean), CAST(:rank AS integer), CAST(:since AS timestamptz), CAST(:id AS bigint))
    ORDER BY later, rank, since, id LIMIT :most)
"""
IDS = "SELECT id FROM page ORDER BY later, rank, since, id"
ROWS = """
SELECT a.id, a.kind, a.about, a.provider, a.cost, coalesce(r.recipients, '{}') AS recipients, a.later, a.rank, a.since,
       CASE WHEN a.verdict = 'safe_to_try_again' AND a.key_until < now() THEN 'nobody_knows' ELSE a.verdict END AS verdict,
       nottwice.seconds_since(a.since) AS waiting_s,
       CAST(extract(epoch FROM a.key_until - now()) AS double precision) AS key_left_s,
       CAST(greatest(0, coalesce(extract(epoch FROM a.evidence_until - now()), 0)) AS double precision) AS looking_s,
       nottwice.points_to_sent(a.id) AS points_to_sent
FROM page a LEFT JOIN nottwice.recipients r ON r.action_id = a.id
ORDER BY a.later, a.rank, a.since, a.id
"""


def queue(tx: Transaction, segment: Segment, *, after: Place | None = None, most: int = 25) -> list[QueueRow]:
    """The next `most` sends that wait, behind the place where the page before ended."""
    rows = tx.all(page(segment) + ROWS, **values(after, most))
    return [
        made(QueueRow, row, recipients=tuple(row.recipients), place=(row.later, row.rank, row.since, row.id))
        for row in rows
    ]


def in_order(tx: Transaction, segment: Segment, *, most: int) -> list[int]:
    """Which sends wait, in the order of the queue."""
    return [row.id for row in tx.all(page(segment) + IDS, **values(None, most))]


def asked_by(tx: Transaction, person_id: int) -> frozenset[int]:
    """Those about which this person asks a second one, and cannot be the second one."""
    rows = tx.all(f"{ASKED} AND q.requested_by = :person", person=person_id)
    return frozenset(row.action_id for row in rows)


def page(segment: Segment) -> str:
    """The statement that finds one page of a segment, for `IDS` or `ROWS` to say what of it is wanted."""
    row = ROW.format(soon=SOON)
    return PAGE.format(found=" UNION ALL ".join(f"({row}{where})" for where in FOUND[segment]))


def values(after: Place | None, most: int) -> dict[str, object]:
    """Among those whose key ends soon, a page begins; the others begin where they do, or behind the place."""
    later, rank, since, id_ = after or (None, None, None, None)
    from_rank, from_since, from_id = after[1:] if after and after[0] else START
    return {
        "later": later,
        "rank": rank,
        "since": since,
        "id": id_,
        "most": most,
        "from_rank": from_rank,
        "from_since": from_since,
        "from_id": from_id,
    }
