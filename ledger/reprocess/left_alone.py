"""pending ──left alone──▶ completed: what a run put back and no worker takes any more stands again as it stood before.

Its kind had a handler when the run was asked for and has none now: its last worker ended an hour ago, and none came with it
since. It would wait as long as its key is kept, and be closed as if nobody had ever handled it.
"""

from __future__ import annotations

from ledger.database import Transaction
from ledger.events import order

REASON = "No worker handles its kind any more. It was not worked again; it stands as before."

# Few rows are being carried out at a time, whatever became of their run. The event is locked first, as where it is begun.
LEAVE = """
WITH gone AS MATERIALIZED (
    SELECT w.id AS row_id, e.id, w.before_ending, w.before_ended_at
    FROM nottwice.reprocess_rows w JOIN nottwice.events e ON e.id = w.event_id
    WHERE w.state = 'working' AND e.state = 'pending' AND e.mode <> 'first' AND e.run = w.event_run
      AND EXISTS (SELECT FROM nottwice.workers WHERE kind = 'worker')
      AND (e.source, e.type) NOT IN (SELECT k.source, k.type FROM nottwice.kinds_handled('{}', '{}') AS k)
    ORDER BY e.id LIMIT :limit FOR NO KEY UPDATE OF e SKIP LOCKED),
back AS (
    UPDATE nottwice.events e SET
        state = 'completed', ending = coalesce(g.before_ending, 'done'), ended_at = coalesce(g.before_ended_at, now()),
        due_at = NULL, waits_behind = 0, version = e.version + 1
    FROM gone g WHERE e.id = g.id AND e.state = 'pending' RETURNING e.id, g.row_id, e.ordering_digest),
result AS (
    UPDATE nottwice.reprocess_rows w SET state = 'skipped', ended_at = now(), reason = :reason
    FROM back WHERE w.id = back.row_id AND w.state = 'working')
SELECT id, ordering_digest IS NOT NULL AS in_lane FROM back ORDER BY id
"""


def leave_alone(tx: Transaction, *, limit: int = 100) -> int:
    """Put such events back as they stood, each row with the reason; how many. While `limit` come back, call again."""
    rows = tx.all(LEAVE, limit=limit, reason=REASON)
    order.let_next_go(tx, [row.id for row in rows if row.in_lane])
    return len(rows)
