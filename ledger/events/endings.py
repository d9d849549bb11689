"""How a claim of an event ends: complete, retry later, set aside, hand back. Part of the event machine in `work.py`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Literal
from uuid import UUID

from ledger.database import Transaction
from ledger.database.columns import Numbers, Tokens
from ledger.errors import LeaseLost
from ledger.events import order
from ledger.events.recovery import MORE_ATTEMPTS, NO_RESULT
from ledger.payload import storable
from ledger.records import ClaimedEvent, EventLease, Mode
from ledger.retry import event_delay_s
from ledger.states import EventState

ERROR_CHARACTERS_MAX = 4000


# The statement itself is `nottwice.complete_events` in sql/0035_group_ends.sql: a function, because a server keeps its plan.
COMPLETE = """
SELECT lost, in_lane FROM nottwice.complete_events(CAST(:ids AS bigint[]), CAST(:tokens AS uuid[]), :writer)
"""


def complete(tx: Transaction, leases: Sequence[EventLease], *, writer: UUID) -> set[EventLease]:
    """End a group's claims in one fenced statement; members that lost their lease are missing from the answer.

    The token decides: a lease that ran out but that nobody has taken may still complete. What ended is counted too.
    """
    ((lost, in_lane),) = tx.straight(COMPLETE, **pairs(leases), writer=writer)
    order.let_next_go(tx, in_lane or ())
    return {lease for lease in leases if lease.event_id not in lost} if lost else set(leases)


# Puts a held event somewhere else and writes the claim's end, in one statement. A pending event always has an attempt
# left: whoever has none ends as failed, whatever was asked. One that was to be worked again stands as it stood before:
# what its first run left is still there.
END = """
WITH held AS (
    SELECT id, mode, attempts, attempts_max, claimed_by, claim_token, claimed_at,
           attempts - CASE WHEN :give_back AND coalesce(accepted_at > now() - make_interval(secs => :give_back_s), true)
                           THEN 1 ELSE 0 END AS counted
    FROM nottwice.events
    WHERE id = :id AND state = 'processing' AND claim_token = :token FOR NO KEY UPDATE),
judged AS (
    SELECT held.*, s.before_ending, s.before_ended_at,
           CASE WHEN NOT (:set_aside OR counted >= attempts_max) THEN 'pending'
                WHEN mode = 'first' THEN 'failed' ELSE 'completed' END AS target
    FROM held LEFT JOIN nottwice.reprocess_rows s ON s.event_id = held.id AND s.state = 'working' AND held.mode <> 'first'),
moved AS (
    UPDATE nottwice.events e SET
        state = target,
        due_at = CASE WHEN target = 'pending' THEN now() + make_interval(secs => :delay_s) END,
        ending = CASE WHEN target = 'completed' THEN coalesce(before_ending, 'done') END,
        ended_at = CASE WHEN target <> 'pending' THEN coalesce(before_ended_at, now()) END, attempts = counted,
        last_error = CASE WHEN target <> 'completed' THEN coalesce(:error, e.last_error) END, version = e.version + 1,
        claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL
    FROM judged j WHERE e.id = j.id AND e.state = 'processing' AND e.claim_token = j.claim_token
    RETURNING e.id, e.state, e.ordering_digest, j.attempts, j.claimed_by, j.claim_token, j.claimed_at),
noted AS (
    INSERT INTO nottwice.event_attempts (event_id, attempt, worker, token_digest, claimed_at, ending, error)
    SELECT id, attempts, claimed_by, sha256(uuid_send(claim_token)), claimed_at,
           CASE WHEN state = 'pending' THEN :ending ELSE 'set_aside' END, :error FROM moved),
result AS (
    UPDATE nottwice.reprocess_rows w SET state = 'failed', ended_at = now(), reason = coalesce(nullif(:error, ''), :silent)
    FROM moved WHERE moved.state = 'completed' AND w.event_id = moved.id AND w.state = 'working')
SELECT state, ordering_digest IS NOT NULL AS in_lane FROM moved
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
    """Back to pending, due in `delay_s` seconds; when no attempt is left to failed, or, of a recompute, to how it stood
    before. Raises LeaseLost.

    `counted` False: unavailable, not the event's fault. The attempt is given back while the event was accepted less
    than `uncounted_for_s` seconds ago; afterwards it counts, so that nothing waits for ever.
    """
    ending: Ending = "retry" if counted else "unavailable"
    return _end(tx, lease, ending, error, delay_s=delay_s, give_back=not counted, give_back_s=uncounted_for_s)


def set_aside(tx: Transaction, lease: EventLease, *, error: str) -> None:
    """To failed: only a person puts it back. A recompute stands as before it. Raises LeaseLost."""
    _end(tx, lease, "set_aside", error)


def fail(tx: Transaction, claimed: ClaimedEvent, *, error: str, base_s: float, chance: float) -> EventState:
    """The event's own failure: wait 2, 4, 8 … seconds, or set aside at the attempt limit. Raises LeaseLost.

    A further run has waits of its own: those of all runs together would grow to days.
    """
    run = claimed.event.run
    tries = (
        claimed.attempt if run.mode is Mode.FIRST else max(1, MORE_ATTEMPTS - run.attempts_max + run.attempt)
    )
    delay_s = event_delay_s(tries, chance, base_s=base_s)
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
        error=None if error is None else storable(error)[:ERROR_CHARACTERS_MAX],
        silent=NO_RESULT,
        delay_s=delay_s,
        give_back=give_back,
        give_back_s=give_back_s,
    )
    if row is None:
        raise LeaseLost(f"The claim of event {lease.event_id} is in other hands.")
    if row.in_lane and row.state != EventState.PENDING:
        order.let_next_go(tx, [lease.event_id])
    return EventState(row.state)


def pairs(leases: Sequence[EventLease]) -> dict[str, Any]:
    """Leases as the two arrays that a fenced statement takes, in the order in which rows are locked."""
    ordered = sorted(leases, key=attrgetter("event_id"))
    return {
        "ids": Numbers([lease.event_id for lease in ordered]),
        "tokens": Tokens([lease.token for lease in ordered]),
    }
