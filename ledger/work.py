"""The event machine under a lease: claim, renew, complete, retry later, set aside, hand back.

One transition is one function is one guarded statement. What ends or renews work takes a lease, never an id; zero
rows updated means that somebody else holds the claim, and the caller's transaction is rolled back. How a claim ends
stands in `endings.py`; what brings stuck work back, `rescue` and `requeue`, in `recovery.py`; all are offered here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from ledger.database import Transaction
from ledger.endings import complete, fail, hand_back, pairs, retry_later, set_aside
from ledger.records import ClaimedEvent, Event, EventLease, Mode, Worker
from ledger.recovery import invariant_violations, requeue, rescue

__all__ = [
    "claim",
    "complete",
    "fail",
    "hand_back",
    "invariant_violations",
    "renew",
    "requeue",
    "rescue",
    "retry_later",
    "set_aside",
]

ATTEMPTS_MAX = 5


# Namespaces take turns: each lane (namespace, source, type) offers its oldest due rows, then the first of each
# namespace go before the second of any. Every lane is an index range of its own, so a flood costs nobody else.
# The rows that were offered but not taken are free again when this short transaction ends. The update does not repeat
# that they are pending: they are locked, and the word would let a planner without statistics walk the backlog for them.
CLAIM = """
WITH offered AS MATERIALIZED (
    SELECT e.id, e.namespace, e.due_at
    FROM nottwice.namespaces_with_pending() AS n(namespace)
    CROSS JOIN unnest(CAST(:sources AS text[]), CAST(:types AS text[])) AS h(source, type)
    CROSS JOIN LATERAL (
        SELECT c.id, c.namespace, c.due_at FROM nottwice.events c
        WHERE c.state = 'pending' AND c.namespace = n.namespace AND c.source = h.source AND c.type = h.type
          AND c.due_at <= now() AND c.alone = :alone
        ORDER BY c.due_at, c.id LIMIT :limit
        FOR NO KEY UPDATE SKIP LOCKED) AS e),
ranked AS (
    SELECT id, due_at, row_number() OVER (PARTITION BY namespace ORDER BY due_at, id) AS turn FROM offered),
taken AS (
    SELECT id FROM ranked ORDER BY turn, due_at, id LIMIT :limit)
UPDATE nottwice.events e SET
    state = 'processing', due_at = NULL, attempts = e.attempts + 1, claim_token = gen_random_uuid(), claimed_by = :worker,
    claimed_at = now(), lease_until = now() + make_interval(secs => :lease_s), version = e.version + 1,
    attempts_max = CASE WHEN e.attempts = 0 THEN :attempts_max ELSE e.attempts_max END
FROM nottwice.event_contents c
WHERE e.id = ANY (ARRAY(SELECT id FROM taken)) AND c.event_id = e.id
RETURNING e.id, e.namespace, e.source, e.type, e.event_key, c.body, e.accepted_at, e.occurred_at, e.mode, e.run,
          e.claim_token, e.attempts, e.attempts_max, e.alone
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
    rows = tx.all(
        CLAIM,
        sources=[source for source, _ in worker.handles],
        types=[type_ for _, type_ in worker.handles],
        alone=alone,
        limit=limit,
        worker=worker.id,
        lease_s=lease_s,
        attempts_max=attempts_max,
    )
    return sorted((_claimed(row) for row in rows), key=lambda c: (c.event.accepted_at, c.event.id))


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
        Mode(row.mode),
        row.run,
    )
    return ClaimedEvent(EventLease(row.id, row.claim_token), event, row.attempts, row.attempts_max, row.alone)


# A row that is locked is not waited for: it is being completed, or rescued, and one that waits would hold up the
# renewal of all the others. It counts as ours still; should that transaction roll back, the next beat renews it.
RENEW = """
WITH ours AS (
    SELECT e.id, e.claim_token FROM nottwice.events e
    JOIN unnest(CAST(:ids AS bigint[]), CAST(:tokens AS uuid[])) AS l(id, token) ON l.id = e.id
    WHERE e.state = 'processing' AND e.claim_token = l.token AND e.lease_until > now()),
free AS (
    SELECT e.id FROM nottwice.events e JOIN ours ON ours.id = e.id
    WHERE e.state = 'processing' AND e.claim_token = ours.claim_token AND e.lease_until > now()
    ORDER BY e.id FOR NO KEY UPDATE OF e SKIP LOCKED),
renewed AS (
    UPDATE nottwice.events e SET lease_until = now() + make_interval(secs => :lease_s)
    FROM free WHERE e.id = free.id)
SELECT id, claim_token FROM ours
"""


def renew(tx: Transaction, leases: Sequence[EventLease], *, lease_s: float) -> set[EventLease]:
    """Push out the leases that are still ours and have not run out; returns those. An expired one is not renewed.

    One whose row is locked, as by our own completion under way, is returned but not pushed out: renew again within
    a third of the lease.
    """
    rows = tx.all(RENEW, **pairs(leases), lease_s=lease_s)
    return {EventLease(row.id, row.claim_token) for row in rows}
