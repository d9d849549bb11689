"""The event machine: claim, renew, complete, retry later, set aside, hand back, rescue, requeue.

One transition is one function is one guarded statement. What ends or renews work takes a lease, never an id; zero
rows updated means that somebody else holds the claim, and the caller's transaction is rolled back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ledger import audit, counters
from ledger.database import Transaction
from ledger.errors import LeaseLost, NotAllowed, NotNow, Stale
from ledger.records import Act, ClaimedEvent, Event, EventLease, Mode, Rescued, Role, Worker
from ledger.retry import event_delay_s
from ledger.states import EventState

# Namespaces take turns: each lane (namespace, source, type) offers its oldest due rows, then the first of each
# namespace go before the second of any. Every lane is an index range of its own, so a flood costs nobody else.
# The rows that were offered but not taken are free again when this short transaction ends.
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
    claimed_at = now(), lease_until = now() + make_interval(secs => :lease_s), version = e.version + 1
FROM nottwice.event_contents c
WHERE e.id = ANY (ARRAY(SELECT id FROM taken)) AND c.event_id = e.id
RETURNING e.id, e.namespace, e.source, e.type, e.event_key, c.body, e.accepted_at, e.occurred_at, e.mode, e.run,
          e.claim_token, e.attempts, e.attempts_max, e.alone
"""


def claim(
    tx: Transaction, worker: Worker, *, limit: int, lease_s: float, idle: bool = False
) -> list[ClaimedEvent]:
    """Take up to `limit` due events of handled kinds, oldest first, namespaces in turn. Counts the attempt.

    What was rescued runs with nothing beside it in its process, so that an event that kills its worker counts
    against itself alone: such an event is taken only when the caller is `idle`, and then it is the only one.
    """
    if idle:
        alone = _claim(tx, worker, 1, lease_s, alone=True)
        if alone:
            return alone
    return _claim(tx, worker, limit, lease_s, alone=False)


def _claim(tx: Transaction, worker: Worker, limit: int, lease_s: float, *, alone: bool) -> list[ClaimedEvent]:
    rows = tx.all(
        CLAIM,
        sources=[source for source, _ in worker.handles],
        types=[type_ for _, type_ in worker.handles],
        alone=alone,
        limit=limit,
        worker=worker.id,
        lease_s=lease_s,
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


HELD = """
WITH held AS (
    SELECT e.id FROM nottwice.events e
    JOIN unnest(CAST(:ids AS bigint[]), CAST(:tokens AS uuid[])) AS l(id, token) ON l.id = e.id
    WHERE e.state = 'processing' AND e.claim_token = l.token
    ORDER BY e.id FOR NO KEY UPDATE OF e)
"""


def renew(tx: Transaction, leases: Sequence[EventLease], *, lease_s: float) -> set[EventLease]:
    """Push out the leases that are still ours and have not run out; returns those. An expired one is not renewed."""
    rows = tx.all(
        """WITH held AS (
               SELECT e.id FROM nottwice.events e
               JOIN unnest(CAST(:ids AS bigint[]), CAST(:tokens AS uuid[])) AS l(id, token) ON l.id = e.id
               WHERE e.state = 'processing' AND e.claim_token = l.token AND e.lease_until > now()
               ORDER BY e.id FOR NO KEY UPDATE OF e SKIP LOCKED)
           UPDATE nottwice.events e SET lease_until = now() + make_interval(secs => :lease_s)
           FROM held WHERE e.id = held.id RETURNING e.id, e.claim_token""",
        **_pairs(leases),
        lease_s=lease_s,
    )
    return {EventLease(row.id, row.claim_token) for row in rows}


COMPLETE = (
    HELD
    + """
, ended AS (
    UPDATE nottwice.events e SET
        state = 'completed', ending = 'done', ended_at = now(), alone = false, last_error = NULL, version = e.version + 1,
        claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL
    FROM held WHERE e.id = held.id RETURNING e.id, e.namespace)
SELECT ended.id, ended.namespace FROM ended
"""
)


def complete(tx: Transaction, leases: Sequence[EventLease], *, writer: UUID) -> set[EventLease]:
    """End a group's claims in one fenced statement; members that lost their lease are missing from the answer.

    The token decides: a lease that ran out but that nobody has taken may still complete.
    """
    rows = tx.all(COMPLETE, **_pairs(leases))
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        counts[row.namespace, "completed"] = counts.get((row.namespace, "completed"), 0) + 1
    counters.bump_many(tx, writer, counts)
    ended = {row.id for row in rows}
    return {lease for lease in leases if lease.event_id in ended}


# Puts a held event somewhere else and writes the claim's end, in one statement; `%s` is the SET list.
END = """
WITH held AS (
    SELECT id, attempts, claimed_by, claim_token, claimed_at FROM nottwice.events
    WHERE id = :id AND state = 'processing' AND claim_token = :token FOR NO KEY UPDATE),
moved AS (
    UPDATE nottwice.events e SET
        state = :state, due_at = CASE WHEN :state = 'pending' THEN now() + make_interval(secs => :delay_s) END,
        ended_at = CASE WHEN :state = 'failed' THEN now() END, attempts = e.attempts - :given_back,
        last_error = coalesce(:error, e.last_error), version = e.version + 1,
        claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL
    FROM held WHERE e.id = held.id RETURNING e.id)
INSERT INTO nottwice.event_attempts (event_id, attempt, worker, token_digest, claimed_at, ending, error)
SELECT held.id, held.attempts, held.claimed_by, sha256(uuid_send(held.claim_token)), held.claimed_at, :ending, :error
FROM held JOIN moved ON moved.id = held.id
RETURNING event_id
"""


def retry_later(
    tx: Transaction, lease: EventLease, *, delay_s: float, error: str, counted: bool = True
) -> None:
    """Back to pending, due in `delay_s`. `counted` False: unavailable, not the event's fault; the attempt is given back.

    Raises LeaseLost.
    """
    ending = "retry" if counted else "unavailable"
    _end(tx, lease, EventState.PENDING, ending, error, delay_s=delay_s, given_back=0 if counted else 1)


def set_aside(tx: Transaction, lease: EventLease, *, error: str) -> None:
    """To failed: only a person puts it back. Raises LeaseLost."""
    _end(tx, lease, EventState.FAILED, "set_aside", error)


def fail(tx: Transaction, claimed: ClaimedEvent, *, error: str, base_s: float, chance: float) -> EventState:
    """The event's own failure: wait 2, 4, 8 … seconds, or set aside at the attempt limit. Raises LeaseLost."""
    if claimed.attempt >= claimed.attempts_max:
        set_aside(tx, claimed.lease, error=error)
        return EventState.FAILED
    retry_later(tx, claimed.lease, delay_s=event_delay_s(claimed.attempt, chance, base_s=base_s), error=error)
    return EventState.PENDING


def hand_back(tx: Transaction, lease: EventLease) -> None:
    """Back to pending at once, the attempt not burnt: this worker is going. Raises LeaseLost."""
    _end(tx, lease, EventState.PENDING, "handed_back", None, given_back=1)


def _end(
    tx: Transaction,
    lease: EventLease,
    state: EventState,
    ending: str,
    error: str | None,
    *,
    delay_s: float = 0.0,
    given_back: int = 0,
) -> None:
    row = tx.first(
        END,
        id=lease.event_id,
        token=lease.token,
        state=state.value,
        ending=ending,
        error=error and shortened(error),
        delay_s=delay_s,
        given_back=given_back,
    )
    if row is None:
        raise LeaseLost(f"The claim of event {lease.event_id} is in other hands.")


ERROR_CHARACTERS_MAX = 4000


def shortened(error: str) -> str:
    """An error's text as it may be stored: bounded, and without what PostgreSQL cannot hold."""
    clean = error.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= ERROR_CHARACTERS_MAX else clean[: ERROR_CHARACTERS_MAX - 1] + "…"


RESCUE = """
WITH expired AS (
    SELECT id, attempts, claimed_by, claim_token, claimed_at, attempts >= attempts_max AS over
    FROM nottwice.events WHERE state = 'processing' AND lease_until < now()
    ORDER BY lease_until, id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED),
moved AS (
    UPDATE nottwice.events e SET
        state = CASE WHEN x.over THEN 'failed' ELSE 'pending' END,
        due_at = CASE WHEN x.over THEN NULL ELSE now() END, ended_at = CASE WHEN x.over THEN now() END,
        alone = true, last_error = :error, version = e.version + 1,
        claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL
    FROM expired x WHERE e.id = x.id RETURNING e.id, e.state),
noted AS (
    INSERT INTO nottwice.event_attempts (event_id, attempt, worker, token_digest, claimed_at, ending, error)
    SELECT id, attempts, claimed_by, sha256(uuid_send(claim_token)), claimed_at, 'rescued', :error FROM expired)
SELECT id, state FROM moved ORDER BY id
"""


def rescue(tx: Transaction, *, limit: int = 100) -> list[Rescued]:
    """Take back expired claims: to pending, to run alone; at the attempt limit to failed.

    The rows are locked while state and expiry are checked, so that a completion that came first is not undone.
    """
    error = "Its worker gave no sign until the lease ran out: it was killed, stopped or cut off."
    return [Rescued(row.id, EventState(row.state)) for row in tx.all(RESCUE, limit=limit, error=error)]


RETRY_ATTEMPTS = 5


def requeue(tx: Transaction, event_id: int, version: int, act: Act) -> int:
    """A person puts a set-aside event back: the limit is raised, history is never rewound. Returns the audit entry.

    Raises NotAllowed, Stale, NotNow, AlreadyDecided.
    """
    if act.person.role not in (Role.ENGINEER, Role.ADMIN):
        raise NotAllowed("You can read this. Engineer or admin tries it again.")
    audit.refuse_second_use(tx, act)
    row = tx.first("SELECT state, version FROM nottwice.events WHERE id = :id FOR NO KEY UPDATE", id=event_id)
    if row is None or row.state != EventState.FAILED:
        raise NotNow(
            f"It was not set aside any more: it is {row.state if row else 'gone'}. Nothing was done."
        )
    if row.version != version:
        raise Stale("This event changed while you had it open. Nothing was done; look at it as it is now.")
    audit_id = audit.done(
        tx, act, "try again", "event", event_id, version=version + 1, before="failed", after="pending"
    )
    tx.execute(
        """UPDATE nottwice.events SET state = 'pending', due_at = now(), ended_at = NULL, attempts_max = attempts_max + :more,
                  version = version + 1 WHERE id = :id AND state = 'failed' AND version = :version""",
        id=event_id,
        version=version,
        more=RETRY_ATTEMPTS,
    )
    return audit_id


def _pairs(leases: Sequence[EventLease]) -> dict[str, Any]:
    return {"ids": [lease.event_id for lease in leases], "tokens": [lease.token for lease in leases]}
