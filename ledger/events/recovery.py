"""What brings stuck events back: the sweep's rescue, a person's requeue; and the query that finds what nobody would.

Part of the event machine in `work.py`, where its functions are offered too.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ledger import audit
from ledger.database import Transaction
from ledger.errors import AlreadyDecided, NotAllowed, NotNow, Stale
from ledger.events import order
from ledger.figures import counters
from ledger.records import Act, Rescued, Role
from ledger.states import EventState

REQUEUERS = frozenset({Role.ENGINEER, Role.ADMIN})
MAY_NOT = "You can read this. Engineer or admin tries it again."
MORE_ATTEMPTS = 5  # what a person's "try again" adds to the limit
SILENT = "Its worker gave no sign until the lease ran out: it was killed, stopped or cut off."
SILENT_TOO_OFTEN = (
    "Set aside: its worker went silent again, on the last attempt it had. Find out whether this event kills its worker, "
    "then try it again."
)
NO_RESULT = "It ended without a result."  # of one that was to be worked again
SILENT_AGAIN = "Its worker went silent on every attempt of this run; the event stands as before. Find out whether it kills its worker."

# The rows are locked while state and expiry are looked at, and the update repeats state, token and expiry: what was
# completed, renewed or claimed anew in between is left alone. A locked row is skipped, so that it cannot hold up a sweep.
# One that was to be worked again stands as it stood before, when no attempt is left.
RESCUE = """
WITH expired AS (
    SELECT id, mode, attempts, attempts_max, claimed_by, claim_token, claimed_at
    FROM nottwice.events WHERE state = 'processing' AND lease_until < now()
    ORDER BY lease_until, id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED),
judged AS (
    SELECT x.*, s.before_ending, s.before_ended_at,
           CASE WHEN attempts < attempts_max THEN :silent WHEN mode = 'first' THEN :too_often ELSE :again END AS error,
           CASE WHEN attempts < attempts_max THEN 'pending' WHEN mode = 'first' THEN 'failed' ELSE 'completed' END AS target
    FROM expired x LEFT JOIN nottwice.reprocess_rows s ON s.event_id = x.id AND s.state = 'working' AND x.mode <> 'first'),
moved AS (
    UPDATE nottwice.events e SET
        state = x.target, due_at = CASE WHEN x.target = 'pending' THEN now() END,
        ending = CASE WHEN x.target = 'completed' THEN coalesce(x.before_ending, 'done') END,
        ended_at = CASE WHEN x.target <> 'pending' THEN coalesce(x.before_ended_at, now()) END,
        alone = true, last_error = CASE WHEN x.target <> 'completed' THEN x.error END, version = e.version + 1,
        claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL
    FROM judged x
    WHERE e.id = x.id AND e.state = 'processing' AND e.claim_token = x.claim_token AND e.lease_until < now()
    RETURNING e.id, e.namespace, e.state, e.ordering_digest, x.error, x.attempts, x.claimed_by, x.claim_token, x.claimed_at),
noted AS (
    INSERT INTO nottwice.event_attempts (event_id, attempt, worker, token_digest, claimed_at, ending, error)
    SELECT id, attempts, claimed_by, sha256(uuid_send(claim_token)), claimed_at, 'rescued', error FROM moved),
result AS (
    UPDATE nottwice.reprocess_rows w SET state = 'failed', ended_at = now(), reason = moved.error
    FROM moved WHERE moved.state = 'completed' AND w.event_id = moved.id AND w.state = 'working')
SELECT id, namespace, state, ordering_digest IS NOT NULL AS in_lane FROM moved ORDER BY id
"""


def rescue(tx: Transaction, *, limit: int = 100, writer: UUID | None = None) -> list[Rescued]:
    """Take back expired claims: to pending, to run alone; at the attempt limit to failed, or, of a recompute, to how it
    stood before. Counted under `writer`.

    At most `limit`: while an answer is full, call again. Ask `workers.sweep` first.
    """
    rows = tx.all(RESCUE, limit=limit, silent=SILENT, too_often=SILENT_TOO_OFTEN, again=SILENT_AGAIN)
    order.let_next_go(tx, [row.id for row in rows if row.in_lane and row.state != EventState.PENDING])
    if writer is not None:
        counters.bump_many(tx, writer, Counter((row.namespace, "rescued") for row in rows))
    return [Rescued(row.id, EventState(row.state)) for row in rows]


def requeue(tx: Transaction, event_id: int, version: int, act: Act, *, detail: str = "") -> int:
    """A person puts a set-aside event back: the limit is raised, history is never rewound. Returns the audit entry.

    `version` is the row's as the person saw it. Raises NotAllowed, Stale, NotNow, AlreadyDecided (with who was
    first). It still runs alone when a worker went silent over it.
    """
    if act.person.role not in REQUEUERS:
        raise NotAllowed(MAY_NOT)
    audit.refuse_second_use(tx, act)
    row = tx.first("SELECT state, version FROM nottwice.events WHERE id = :id FOR NO KEY UPDATE", id=event_id)
    if row is None or row.state != EventState.FAILED or row.version != version:
        raise _too_late(tx, event_id, version, row)
    audit_id = audit.done(
        tx,
        act,
        "try again",
        "event",
        event_id,
        version=version + 1,
        before="failed",
        after="pending",
        detail=detail,
    )
    tx.execute(
        """UPDATE nottwice.events SET state = 'pending', due_at = now(), ended_at = NULL,
                  attempts_max = greatest(attempts, attempts_max) + :more, version = version + 1
           WHERE id = :id AND state = 'failed' AND version = :version""",
        id=event_id,
        version=version,
        more=MORE_ATTEMPTS,
    )
    return audit_id


def _too_late(
    tx: Transaction, event_id: int, version: int, row: sa.Row[Any] | None
) -> AlreadyDecided | NotNow | Stale:
    if first := somebody_first(tx, event_id, version):
        return first
    if row is None or row.state != EventState.FAILED:
        return NotNow(f"It is not set aside: it is {row.state if row else 'gone'}. Nothing was done.")
    return Stale("This event changed while you had it open. Nothing was done; look at it as it is now.")


def somebody_first(tx: Transaction, event_id: int, version: int) -> AlreadyDecided | None:
    """What the loser of a race is told: who changed the event after this version, if a person did."""
    first = tx.first(
        """SELECT a.act, a.at, p.name FROM nottwice.audit a JOIN nottwice.people p ON p.id = a.person_id
           WHERE a.entity = 'event' AND a.entity_id = :id AND a.outcome = 'done' AND a.entity_version > :version
           ORDER BY a.id LIMIT 1""",
        id=event_id,
        version=version,
    )
    if first is None:
        return None
    words = (
        f"Not done. {first.name} was first: {first.act}, at {first.at:%H:%M:%S} UTC. Nothing was done twice."
    )
    return AlreadyDecided(words, who=first.name, what=first.act, at=first.at)


# An event or an action needs an owner with a lease, a next-try time, a final state or a review flag. The first part
# holds by constraints as well; the second finds a lease that ran out and that no sweep took back within :late_s.
VIOLATIONS = """
SELECT 'event' AS entity, id, state FROM nottwice.events
WHERE NOT CASE state
    WHEN 'pending' THEN due_at IS NOT NULL AND attempts < attempts_max
    WHEN 'processing' THEN claimed_by IS NOT NULL AND lease_until > now() - make_interval(secs => :late_s)
    ELSE ended_at IS NOT NULL END
UNION ALL
SELECT 'action', id, state FROM nottwice.actions
WHERE NOT CASE state
    WHEN 'proposed' THEN true
    WHEN 'approved' THEN due_at IS NOT NULL
    WHEN 'sending' THEN claimed_by IS NOT NULL AND lease_until > now() - make_interval(secs => :late_s)
    WHEN 'needs_review' THEN review_since IS NOT NULL
    ELSE settled_at IS NOT NULL END
ORDER BY 1, 2
"""


def invariant_violations(tx: Transaction, *, late_s: float = 0.0) -> list[str]:
    """The rows nobody would come back to, in words; a healthy ledger has none. Reads everything: for tests and audits.

    A `proposed` action waits for a person: that is its review flag. `late_s` is how long after its end a lease may
    still wait for the sweep.
    """
    return [f"{row.entity} {row.id} is {row.state}" for row in tx.all(VIOLATIONS, late_s=late_s)]
