"""A run carried out: a worker's turn takes one that is due, closes what has ended, and begins the next rows at its pace.

A turn is one transaction, and a run is one worker's at a time: killed anywhere in it, nothing of it happened, and the next
turn is anybody's. An event that was begun is worked under its own claim, by whichever worker claims it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ledger.database import Transaction
from ledger.reprocess import events as reprocess_events
from ledger.reprocess import sends as reprocess_sends
from ledger.reprocess import stages as reprocess_stages
from ledger.reprocess.sends import Rules

ROWS_MAX = 50  # of one turn, so that it stays short however fast the pace
LOOK_S = 0.5  # between two looks while as much is under way as may be, or nothing is left to begin

# The one that waits longest; another worker has another one.
DUE = """
SELECT r.id, r.mode, r.pace_per_s, r.under_way_max, r.version, r.why, r.requested_by, r.requested_role,
       p.issuer, p.subject, p.name, p.email,
       least(:rows_max, 1 + floor(extract(epoch FROM now() - r.next_at) * r.pace_per_s)) AS earned
FROM nottwice.reprocess_runs r JOIN nottwice.people p ON p.id = r.requested_by
WHERE r.state = 'running' AND r.next_at <= now() ORDER BY r.next_at, r.id LIMIT 1 FOR NO KEY UPDATE OF r SKIP LOCKED
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn did. `ended`: the run is done."""

    run_id: int
    begun: int
    ended: bool


def turn(tx: Transaction, rules: Rules, *, wait_s: float = 15.0) -> Turn | None:
    """The next step of the run that is due longest; None when none is.

    `rules` says what configuration says of a kind now; `wait_s` is how long a repeat can be taken back before it goes out.
    """
    run = tx.first(DUE, rows_max=ROWS_MAX)
    if run is None:
        return None
    reprocess_stages.close_ended(tx, run.id)
    under_way = reprocess_stages.under_way(tx, run.id)
    rows = _next(tx, run, min(int(run.earned), run.under_way_max - under_way))
    begun = sum(_begin(tx, run, row, rules, wait_s) for row in rows)
    return Turn(run.id, begun, _pace(tx, run, len(rows)))


NEXT = """
SELECT id, event_id, action_id, finding_id, seen_version, seen_evidence, content_digest FROM nottwice.reprocess_rows
WHERE run_id = :run_id AND state = 'waiting' ORDER BY id LIMIT :limit
"""


def _next(tx: Transaction, run: sa.Row[Any], limit: int) -> list[sa.Row[Any]]:
    return list(tx.all(NEXT, run_id=run.id, limit=limit)) if limit > 0 else []


def _begin(tx: Transaction, run: sa.Row[Any], row: sa.Row[Any], rules: Rules, wait_s: float) -> bool:
    if row.event_id is not None:
        return reprocess_events.begin(tx, run, row)
    return reprocess_sends.send(tx, run, row, rules, wait_s)


PACE = """
UPDATE nottwice.reprocess_runs r SET
    rows_done = n.done, rows_skipped = n.skipped, rows_failed = n.failed,
    state = CASE WHEN o.ended THEN 'done' ELSE r.state END, ended_at = CASE WHEN o.ended THEN now() END,
    next_at = CASE WHEN o.ended THEN NULL WHEN :rows < :earned THEN now() + make_interval(secs => :look_s)
                   ELSE greatest(r.next_at, now() - interval '1 s') + make_interval(secs => :rows / r.pace_per_s) END,
    version = r.version + CASE WHEN o.ended THEN 1 ELSE 0 END
FROM (SELECT NOT EXISTS (SELECT FROM nottwice.reprocess_rows w WHERE w.run_id = :id AND w.state IN ('waiting', 'working')) AS ended) o
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE w.state = 'done') AS done, count(*) FILTER (WHERE w.state = 'skipped') AS skipped,
           count(*) FILTER (WHERE w.state = 'failed') AS failed
    FROM nottwice.reprocess_rows w WHERE w.run_id = :id) AS n ON o.ended
WHERE r.id = :id AND r.state = 'running' RETURNING o.ended
"""


def _pace(tx: Transaction, run: sa.Row[Any], rows: int) -> bool:
    """When the next row may begin, or that there is none; whether the run is done."""
    return bool(tx.one(PACE, id=run.id, rows=rows, earned=int(run.earned), look_s=LOOK_S).ended)
