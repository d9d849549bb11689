"""The event machine under a lease: claim, renew, complete, retry later, set aside, hand back.

One transition is one function is one guarded statement. What ends or renews work takes a lease, never an id; zero
rows updated means that somebody else holds the claim, and the caller's transaction is rolled back. What brings
stuck work back, `rescue` and `requeue`, stands in `ledger/recovery.py` and is offered here too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

import sqlalchemy as sa

from ledger import counters
from ledger.database import Transaction
from ledger.errors import LeaseLost
from ledger.payload import shown
from ledger.records import ClaimedEvent, Event, EventLease, Mode, Worker
from ledger.recovery import invariant_violations, requeue, rescue
from ledger.retry import event_delay_s
from ledger.states import EventState

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

ERROR_CHARACTERS_MAX = 4000
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
    rows = tx.all(RENEW, **_pairs(leases), lease_s=lease_s)
    return {EventLease(row.id, row.claim_token) for row in rows}


COMPLETE = """
WITH held AS (
    SELECT e.id, e.claim_token FROM nottwice.events e
    JOIN unnest(CAST(:ids AS bigint[]), CAST(:tokens AS uuid[])) AS l(id, token) ON l.id = e.id
    WHERE e.state = 'processing' AND e.claim_token = l.token
    ORDER BY e.id FOR NO KEY UPDATE OF e)
UPDATE nottwice.events e SET
    state = 'completed', ending = 'done', ended_at = now(), alone = false, last_error = NULL, version = e.version + 1,
    claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL
FROM held WHERE e.id = held.id AND e.state = 'processing' AND e.claim_token = held.claim_token
RETURNING e.id, e.namespace
"""


def complete(tx: Transaction, leases: Sequence[EventLease], *, writer: UUID) -> set[EventLease]:
    """End a group's claims in one fenced statement; members that lost their lease are missing from the answer.

    The token decides: a lease that ran out but that nobody has taken may still complete.
    """
    rows = tx.all(COMPLETE, **_pairs(leases))
    counters.bump_many(tx, writer, Counter((row.namespace, "completed") for row in rows))
    ended = {row.id for row in rows}
    return {lease for lease in leases if lease.event_id in ended}


# Puts a held event somewhere else and writes the claim's end, in one statement. A pending event always has an attempt
# left: whoever has none ends as failed, whatever was asked.
END = """
WITH held AS (
    SELECT id, attempts, attempts_max, claimed_by, claim_token, claimed_at,
           attempts - CASE WHEN :give_back AND coalesce(accepted_at > now() - make_interval(secs => :give_back_s), true)
                           THEN 1 ELSE 0 END AS counted
    FROM nottwice.events
    WHERE id = :id AND state = 'processing' AND claim_token = :token FOR NO KEY UPDATE),
judged AS (
    SELECT held.*, :set_aside OR counted >= attempts_max AS over FROM held),
moved AS (
    UPDATE nottwice.events e SET
        state = CASE WHEN over THEN 'failed' ELSE 'pending' END,
        due_at = CASE WHEN over THEN NULL ELSE now() + make_interval(secs => :delay_s) END,
        ended_at = CASE WHEN over THEN now() END, attempts = counted,
        last_error = coalesce(:error, e.last_error), version = e.version + 1,
        claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL
    FROM judged j WHERE e.id = j.id AND e.state = 'processing' AND e.claim_token = j.claim_token
    RETURNING e.id, e.state, j.attempts, j.claimed_by, j.claim_token, j.claimed_at),
noted AS (
    INSERT INTO nottwice.event_attempts (event_id, attempt, worker, token_digest, claimed_at, ending, error)
    SELECT id, attempts, claimed_by, sha256(uuid_send(claim_token)), claimed_at,
           CASE WHEN state = 'failed' THEN 'set_aside' ELSE :ending END, :error FROM moved)
SELECT state FROM moved
"""


def retry_later(
    tx: Transaction,
    lease: EventLease,
    *,
    delay_s: float,
    error: str,
    counted: bool = True,
    uncounted_for_s: float = 86_400.0,
) -> EventState:
    """Back to pending, due in `delay_s` seconds; to failed when no attempt is left. Raises LeaseLost.

    `counted` False: unavailable, not the event's fault. The attempt is given back while the event was accepted less
    than `uncounted_for_s` seconds ago; afterwards it counts, so that nothing waits for ever.
    """
    ending: Ending = "retry" if counted else "unavailable"
    return _end(tx, lease, ending, error, delay_s=delay_s, give_back=not counted, give_back_s=uncounted_for_s)


def set_aside(tx: Transaction, lease: EventLease, *, error: str) -> None:
    """To failed: only a person puts it back. Raises LeaseLost."""
    _end(tx, lease, "set_aside", error)


def fail(tx: Transaction, claimed: ClaimedEvent, *, error: str, base_s: float, chance: float) -> EventState:
    """The event's own failure: wait 2, 4, 8 … seconds, or set aside at the attempt limit. Raises LeaseLost."""
    delay_s = event_delay_s(claimed.attempt, chance, base_s=base_s)
    return retry_later(tx, claimed.lease, delay_s=delay_s, error=error)


def hand_back(tx: Transaction, lease: EventLease) -> None:
    """Back to pending at once, the attempt not burnt: this worker is going. Raises LeaseLost."""
    _end(tx, lease, "handed_back", None, give_back=True)


Ending = Literal["retry", "unavailable", "set_aside", "handed_back"]


def _end(
    tx: Transaction,
    lease: EventLease,
    ending: Ending,
    error: str | None,
    *,
    delay_s: float = 0.0,
    give_back: bool = False,
    give_back_s: float | None = None,
) -> EventState:
    row = tx.first(
        END,
        id=lease.event_id,
        token=lease.token,
        set_aside=ending == "set_aside",
        ending=ending,
        error=None if error is None else shown(error)[:ERROR_CHARACTERS_MAX],
        delay_s=delay_s,
        give_back=give_back,
        give_back_s=give_back_s,
    )
    if row is None:
        raise LeaseLost(f"The claim of event {lease.event_id} is in other hands.")
    return EventState(row.state)


def _pairs(leases: Sequence[EventLease]) -> dict[str, Any]:
    return {"ids": [lease.event_id for lease in leases], "tokens": [lease.token for lease in leases]}
