"""How a claim of an event begins. Part of the event machine in `work.py`."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ledger import order
from ledger.database import Transaction
from ledger.records import ClaimedEvent, Event, EventLease, Mode, Run, Worker

ATTEMPTS_MAX = 5
ROUNDS_MAX = 20  # of looking, while all that is found has to wait for its turn

# Namespaces take turns: each range (namespace, source, type) offers its oldest due rows, then the first of each
# namespace go before the second of any. Every range is apart in the index, so a flood costs nobody else.
# The rows that were offered but not taken are free again when this short transaction ends. The update does not repeat
# that they are pending: they are locked, and the word would let a planner without statistics walk the backlog for them.
#
# A row with an ordering key goes only when nobody goes before it; else it is blocked, and `order.line_up` sees to it.
CLAIM = """
WITH offered AS MATERIALIZED (
    SELECT e.id, e.namespace, e.due_at, e.ordering_digest
    FROM nottwice.namespaces_with_pending() AS n(namespace)
    CROSS JOIN unnest(CAST(:sources AS text[]), CAST(:types AS text[])) AS h(source, type)
    CROSS JOIN LATERAL (
        SELECT c.id, c.namespace, c.due_at, c.ordering_digest FROM nottwice.events c
        WHERE c.state = 'pending' AND c.namespace = n.namespace AND c.source = h.source AND c.type = h.type
          AND c.waits_behind = 0 AND c.due_at <= now() AND c.alone = :alone
        ORDER BY c.due_at, c.id LIMIT :limit
        FOR NO KEY UPDATE SKIP LOCKED) AS e),
judged AS MATERIALIZED (
    SELECT id, namespace, due_at, CASE WHEN ordering_digest IS NOT NULL THEN
        nottwice.goes_before(namespace, ordering_digest, id, CAST(:sources AS text[]), CAST(:types AS text[])) END AS behind
    FROM offered),
ranked AS (
    SELECT id, due_at, row_number() OVER (PARTITION BY namespace ORDER BY due_at, id) AS turn FROM judged WHERE behind IS NULL),
taken AS (
    SELECT id FROM ranked ORDER BY turn, due_at, id LIMIT :limit),
claimed AS (
    UPDATE nottwice.events e SET
        state = 'processing', due_at = NULL, attempts = e.attempts + 1, claim_token = gen_random_uuid(), claimed_by = :worker,
        claimed_at = now(), lease_until = now() + make_interval(secs => :lease_s), version = e.version + 1,
        attempts_max = CASE WHEN e.attempts = 0 THEN :attempts_max ELSE e.attempts_max END,
        passed_over = CASE WHEN e.ordering_digest IS NOT NULL THEN nottwice.set_aside_before(e.namespace, e.ordering_digest, e.id) END,
        overtaken_by = CASE WHEN e.ordering_digest IS NOT NULL THEN nottwice.done_after(e.namespace, e.ordering_digest, e.id) END
    FROM nottwice.event_contents c
    WHERE e.id = ANY (ARRAY(SELECT id FROM taken)) AND c.event_id = e.id
    RETURNING e.id, e.namespace, e.source, e.type, e.event_key, c.body, e.accepted_at, e.occurred_at, e.mode, e.run,
              e.claim_token, e.attempts, e.attempts_max, e.alone, e.passed_over, e.overtaken_by,
              e.ordering_digest IS NOT NULL AS in_lane)
SELECT c.*, b.blocked, b.behind
FROM (SELECT array_agg(id) AS blocked, array_agg(behind) AS behind FROM judged WHERE behind IS NOT NULL) AS b
LEFT JOIN claimed c ON true
"""


def claim(
    tx: Transaction,
    worker: Worker,
    *,
    limit: int,
    lease_s: float,
    idle: bool = False,
    attempts_max: int = ATTEMPTS_MAX,
) -> list[ClaimedEvent]:
    """Take up to `limit` due events of handled kinds, oldest first, namespaces in turn. Counts the attempt.

    The first claim of an event sets how many it may have; afterwards only a person raises that.

    Of events with one ordering key only the first that has not ended is taken, and only while none of them is being
    worked. Raises what the referee raises, an IntegrityError of `one_of_a_lane_at_a_time`, when two claims that began
    at the same instant saw a different first one: nothing was taken, and another try sees what the other one took.

    What was rescued runs with nothing beside it in its process, so that an event that kills its worker counts
    against itself alone: such an event is taken only when the caller says it is `idle` (it runs nothing else, and
    will not until this one has ended), and then it is the only one. A caller that is not idle never gets one.
    """
    if idle:
        alone = _claim(tx, worker, 1, lease_s, attempts_max, alone=True)
        if alone:
            return alone
    return _claim(tx, worker, limit, lease_s, attempts_max, alone=False)


def _claim(
    tx: Transaction, worker: Worker, limit: int, lease_s: float, attempts_max: int, *, alone: bool
) -> list[ClaimedEvent]:
    values = {
        "sources": [source for source, _ in worker.handles],
        "types": [type_ for _, type_ in worker.handles],
        "worker": worker.id,
        "lease_s": lease_s,
        "attempts_max": attempts_max,
        "alone": alone,
    }
    claimed: list[ClaimedEvent] = []
    for _ in range(ROUNDS_MAX):
        rows = tx.all(CLAIM, **values, limit=limit - len(claimed))
        claimed += [_claimed(row) for row in rows if row.id is not None]
        if len(claimed) >= limit or not order.line_up(tx, rows[0].blocked or (), rows[0].behind or ()):
            break
    return sorted(claimed, key=lambda one: (one.event.accepted_at, one.event.id))


def _claimed(row: sa.Row[Any]) -> ClaimedEvent:
    event = Event(
        row.id,
        row.namespace,
        row.source,
        row.type,
        row.event_key,
        bytes(row.body),
        row.accepted_at,
        row.occurred_at,
        Run(Mode(row.mode), row.run, row.attempts, row.attempts_max),
        row.passed_over,
        row.overtaken_by,
    )
    lease = EventLease(row.id, row.claim_token)
    return ClaimedEvent(lease, event, row.attempts, row.attempts_max, row.alone, row.in_lane)
