"""What nobody handles: it waits for a handler as long as its key is kept, and is then closed as unhandled.

It stands in nobody's way meanwhile (`claiming.py`), and counts apart in the status. Handled is a kind, a source and a
type, for which some worker has a handler, or had one within the hour after its end; while no worker ever came, every
kind is, so that work which waits for the first worker is never closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ledger.database import Transaction
from ledger.events import order

Kind = tuple[str, str]

# Whether some worker takes the kind of a row `e`, for those who only read; the same rule as nottwice.kinds_unhandled().
HANDLED = """(NOT EXISTS (SELECT FROM nottwice.workers w WHERE w.kind = 'worker')
    OR e.source || ' ' || e.type IN (SELECT unnest(w.handles) FROM nottwice.workers w WHERE w.kind = 'worker'))"""

# The oldest of each kind through the claim's index, a range each. One that is locked is somebody's: the next time.
CLOSE = """
WITH over AS MATERIALIZED (
    SELECT e.id FROM nottwice.kinds_unhandled() AS k
    LEFT JOIN unnest(CAST(:namespaces AS text[]), CAST(:kept_by_namespace AS float8[])) AS own(name, kept_s) ON own.name = k.namespace
    CROSS JOIN LATERAL (
        SELECT p.id FROM nottwice.events p
        WHERE p.state = 'pending' AND p.namespace = k.namespace AND p.source = k.source AND p.type = k.type
          AND p.waits_behind = 0 AND p.due_at < now() - make_interval(secs => coalesce(own.kept_s, :kept_s))
        ORDER BY p.due_at, p.id LIMIT :limit
        FOR NO KEY UPDATE SKIP LOCKED) AS e
    LIMIT :limit)
UPDATE nottwice.events e SET state = 'completed', ending = 'unhandled', ended_at = now(), due_at = NULL, version = e.version + 1
FROM over WHERE e.id = over.id AND e.state = 'pending'
RETURNING e.id, e.source, e.type, e.ordering_digest IS NOT NULL AS in_lane
"""


def close(
    tx: Transaction, *, kept_s: float, limit: int = 100, of_namespaces: Mapping[str, float] | None = None
) -> Counter[Kind]:
    """Close events that have been due for longer than `kept_s` and that nobody handles; how many of each kind.

    `of_namespaces` says where it is another time. At most `limit`: while that many come back, call again.
    """
    own = of_namespaces or {}
    rows = tx.all(
        CLOSE, kept_s=kept_s, limit=limit, namespaces=list(own), kept_by_namespace=list(own.values())
    )
    order.let_next_go(tx, [row.id for row in rows if row.in_lane])
    return Counter((row.source, row.type) for row in rows)
