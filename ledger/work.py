"""The event machine under a lease: claim, renew, complete, retry later, set aside, hand back.

One transition is one function is one guarded statement. What ends or renews work takes a lease, never an id; zero
rows updated means that somebody else holds the claim, and the caller's transaction is rolled back. How a claim begins
stands in `claiming.py`, how it ends in `endings.py`, what brings stuck work back, `rescue` and `requeue`, in
`recovery.py`, and what holds for events with one ordering key in `order.py`; all are offered here too.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.database import Transaction
from ledger.events.claiming import claim
from ledger.events.endings import complete, fail, hand_back, pairs, retry_later, set_aside
from ledger.events.recovery import invariant_violations, requeue, rescue
from ledger.records import EventLease

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

# A row that is locked is not waited for: it is being completed, or rescued, and one that waits would hold up the
# renewal of all the others. The token is there only while an event is processing, by a CHECK; that word itself would let
# a planner walk through the index of leases. It counts as ours still; should that transaction roll back, the next beat renews it.
RENEW = """
WITH ours AS (
    SELECT e.id, e.claim_token FROM nottwice.events e
    JOIN unnest(CAST(:ids AS bigint[]), CAST(:tokens AS uuid[])) AS l(id, token) ON l.id = e.id
    WHERE e.id = ANY (CAST(:ids AS bigint[])) AND e.claim_token = l.token AND e.lease_until > now()),
free AS (
    SELECT e.id FROM nottwice.events e JOIN ours ON ours.id = e.id
    WHERE e.id = ANY (ARRAY(SELECT id FROM ours)) AND e.claim_token = ours.claim_token AND e.lease_until > now()
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
