"""What came of an attempt, what else was observed, and the one place where an action's state follows from both.

A late answer is evidence, not a transition: it is written to its own attempt whoever holds the action by now, and
then the whole history is judged. The lease decides only who may act next.
"""

from __future__ import annotations

from typing import Any, assert_never
from uuid import UUID

import sqlalchemy as sa

from ledger import audit, counters
from ledger.database import Transaction
from ledger.errors import LeaseLost
from ledger.records import (
    Accepted,
    Attempt,
    AttemptRef,
    Evidence,
    InFlight,
    NotSent,
    Outcome,
    OutcomeKind,
    PointsTo,
    Policy,
    Refused,
    Unknown,
    Window,
)
from ledger.retry import action_delay_s
from ledger.states import ActionState
from ledger.verdict import Finding, verdict

METRICS = {kind: kind.value for kind in OutcomeKind} | {OutcomeKind.ACCEPTED: "sent"}
PAUSE_S = 30.0  # how long an account is held when the provider names no time
PAUSE_S_MAX = 600.0


def record_answer(
    tx: Transaction, attempt: AttemptRef, outcome: Outcome, *, chance: float, writer: UUID
) -> ActionState:
    """Write the answer to its attempt, once, and judge the action. `chance` in [0, 1) spreads the next try.

    Raises LeaseLost when this attempt has its answer already, or is not ours. Never loses an acceptance: it
    settles the action whoever holds it now.
    """
    kind = kind_of(outcome)
    row = lock(tx, attempt.action_id)
    late = not is_held(tx, attempt.action_id, attempt.token)
    if not _write_answer(tx, attempt, outcome, kind):
        raise LeaseLost(
            f"Attempt {attempt.attempt_id} has its answer already; the second one was not written."
        )
    counters.bump(tx, writer, row.namespace, "late_answer" if late else METRICS[kind])
    if isinstance(outcome, Accepted):
        meet(tx, row.account, outcome.message_id, attempt.action_id)
    if isinstance(outcome, NotSent) and outcome.pauses:
        pause(tx, row.account, outcome)
    if late and row.state == ActionState.SENDING and kind is not OutcomeKind.ACCEPTED:
        return ActionState(row.state)  # somebody else's live claim; its own end will judge this answer too
    retry_after_s = outcome.retry_after_s if isinstance(outcome, NotSent) else None
    return judge(tx, row, chance=chance, retry_after_s=retry_after_s)


def add_evidence(
    tx: Transaction, action_id: int, evidence: Evidence, *, event_id: int | None = None
) -> ActionState:
    """Keep what was observed and judge the action. Proof is kept and shown even when the action is final."""
    row = lock(tx, action_id)
    tx.execute(
        """INSERT INTO nottwice.evidence (action_id, source, found, points_to, proof, message_id, event_id, observed_at)
           VALUES (:action_id, :source, :found, :points_to, :proof, :message_id, :event_id, :observed_at)""",
        action_id=action_id,
        source=evidence.source,
        found=evidence.found,
        points_to=evidence.points_to.value,
        proof=evidence.proof,
        message_id=evidence.message_id,
        event_id=event_id,
        observed_at=evidence.observed_at,
    )
    proves_sent = evidence.proof and evidence.points_to is PointsTo.SENT
    settles = proves_sent or (evidence.proof and row.state != ActionState.SENDING)
    return judge(tx, row, chance=0.5) if settles else ActionState(row.state)


def meet(tx: Transaction, account: str, message_id: str, action_id: int | None) -> int | None:
    """Lock the row where a webhook and the record of a sending meet; returns the action known under the message.

    Both sides call this before they look, so that neither looks too early.
    """
    row = tx.one(
        """INSERT INTO nottwice.messages (account, message_id, action_id) VALUES (:account, :message_id, :action_id)
           ON CONFLICT (account, message_id)
           DO UPDATE SET action_id = coalesce(nottwice.messages.action_id, excluded.action_id)
           RETURNING action_id""",
        account=account,
        message_id=message_id,
        action_id=action_id,
    )
    return None if row.action_id is None else int(row.action_id)


def pause(tx: Transaction, account: str, outcome: NotSent) -> None:
    """Hold a provider account for a bounded time; a longer pause is never shortened."""
    seconds = min(outcome.retry_after_s or PAUSE_S, PAUSE_S_MAX)
    tx.execute(
        """INSERT INTO nottwice.provider_pauses (account, paused_until, reason)
           VALUES (:account, now() + make_interval(secs => :s), :reason)
           ON CONFLICT (account) DO UPDATE
           SET paused_until = greatest(nottwice.provider_pauses.paused_until, excluded.paused_until),
               since = CASE WHEN nottwice.provider_pauses.paused_until < now() THEN now()
                            ELSE nottwice.provider_pauses.since END,
               reason = excluded.reason""",
        account=account,
        s=seconds,
        reason=outcome.reason,
    )


# ── Judging ───────────────────────────────────────────────────────────────────────────────────────────


LOCK = """
SELECT id, namespace, state, version, provider, account, policy, failures, evidence_s, content_digest,
       key_window_s, key_margin_s, retry_until, evidence_until, review_since, decided_send, now() AS now
FROM nottwice.actions WHERE id = :id FOR NO KEY UPDATE
"""


def lock(tx: Transaction, action_id: int) -> sa.Row[Any]:
    """The action's row, held against every other judge and decision until this transaction ends."""
    row = tx.first(LOCK, id=action_id)
    if row is None:
        raise LeaseLost(f"There is no action {action_id}.")
    return row


def is_held(tx: Transaction, action_id: int, token: UUID) -> bool:
    """Whether the claim on a locked action is this one. People may not read tokens, so `lock` does not."""
    sql = "SELECT FROM nottwice.actions WHERE id = :id AND state = 'sending' AND claim_token = :token"
    return tx.first(sql, id=action_id, token=token) is not None


def history(tx: Transaction, action_id: int) -> tuple[list[Attempt], list[Evidence]]:
    """All attempts and all evidence, oldest first: what the verdict reads."""
    attempts = tx.all(
        """SELECT number, account, started_at, answered_at, outcome, abandoned_at IS NOT NULL AS abandoned, reason, code,
                  message_id, CAST(worker AS text) AS worker
           FROM nottwice.action_attempts WHERE action_id = :id ORDER BY number""",
        id=action_id,
    )
    evidence = tx.all(
        """SELECT source, found, points_to, proof, observed_at, message_id FROM nottwice.evidence
           WHERE action_id = :id ORDER BY id""",
        id=action_id,
    )
    return (
        [Attempt(**(a._asdict() | {"outcome": a.outcome and OutcomeKind(a.outcome)})) for a in attempts],
        [Evidence(**(e._asdict() | {"points_to": PointsTo(e.points_to)})) for e in evidence],
    )


def window_of(row: Any) -> Window:
    return Window(row.key_window_s, row.key_margin_s, row.retry_until, decided=row.decided_send)


def finding(tx: Transaction, row: Any) -> Finding:
    """The verdict on a row as read by `lock` (or a view with the same columns)."""
    attempts, evidence = history(tx, row.id)
    return verdict(
        attempts, evidence, window_of(row), row.now, policy=Policy(row.policy), provider=row.provider
    )


JUDGED = """
UPDATE nottwice.actions SET
    state = :state, verdict = :verdict, version = version + 1,
    claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL,
    message_id = coalesce(:message_id, message_id),
    failures = :failures,
    due_at = CASE WHEN :state = 'approved' THEN now() + make_interval(secs => :delay_s) END,
    decided_send = decided_send AND :state = 'approved',
    evidence_until = CASE WHEN :state = 'needs_review' THEN coalesce(evidence_until, now() + make_interval(secs => evidence_s)) END,
    review_since = CASE WHEN :state = 'needs_review' THEN coalesce(review_since, now()) END,
    settled_at = CASE WHEN :final THEN coalesce(settled_at, now()) END
WHERE id = :id AND version = :version
RETURNING version
"""


def judge(
    tx: Transaction,
    row: sa.Row[Any],
    *,
    chance: float,
    retry_after_s: float | None = None,
    counts: bool = True,
) -> ActionState:
    """Put a locked action where its whole history says. A final state stays, except that an acceptance wins.

    `counts` False: no try was made, so the next one is due at once and the backoff does not grow.
    """
    found = finding(tx, row)
    before = ActionState(row.state)
    if not _may_move(before, found.state):
        return before
    failures = row.failures + counts if found.state is ActionState.APPROVED else 0
    backoff_s = action_delay_s(failures, chance) if counts else 0.0
    delay_s = max(backoff_s, min(retry_after_s or 0.0, PAUSE_S_MAX))
    tx.one(
        JUDGED,
        id=row.id,
        version=row.version,
        state=found.state.value,
        verdict=found.verdict.value,
        message_id=found.message_id,
        failures=failures,
        delay_s=delay_s,
        final=found.state in (ActionState.SENT, ActionState.REFUSED, ActionState.FAILED, ActionState.CLOSED),
    )
    if found.state is ActionState.CLOSED or found.extra_attempt:
        _note_policy(tx, row, found)
    if found.state is ActionState.SENT:
        _void_requests(tx, row.id)
    return found.state


def _may_move(before: ActionState, after: ActionState) -> bool:
    if before in (ActionState.SENDING, ActionState.APPROVED):
        return True
    if before is ActionState.NEEDS_REVIEW:  # a person's desk: only proof takes it away
        return after in (ActionState.SENT, ActionState.NEEDS_REVIEW)
    return before in (ActionState.REFUSED, ActionState.FAILED) and after is ActionState.SENT


def _note_policy(tx: Transaction, row: sa.Row[Any], found: Finding) -> None:
    audit.by_policy(
        tx,
        "dropped by policy" if found.state is ActionState.CLOSED else "sent again by policy",
        row.id,
        version=row.version + 1,
        before=row.state,
        after=found.state.value,
        why="The policy of this kind says so. It may have gone out.",
    )


def _void_requests(tx: Transaction, action_id: int) -> None:
    tx.execute(
        """UPDATE nottwice.requests SET decision = 'void', decided_at = now(), version = version + 1
           WHERE action_id = :id AND decision IS NULL""",
        id=action_id,
    )


# ── Answers as values ─────────────────────────────────────────────────────────────────────────────────


def kind_of(outcome: Outcome) -> OutcomeKind:
    match outcome:
        case Accepted():
            return OutcomeKind.ACCEPTED
        case Refused():
            return OutcomeKind.REFUSED
        case NotSent():
            return OutcomeKind.NOT_SENT
        case InFlight():
            return OutcomeKind.IN_FLIGHT
        case Unknown():
            return OutcomeKind.UNKNOWN
        case _:
            assert_never(outcome)


def _write_answer(tx: Transaction, attempt: AttemptRef, outcome: Outcome, kind: OutcomeKind) -> bool:
    written = tx.execute(
        """UPDATE nottwice.action_attempts
           SET answered_at = clock_timestamp(), outcome = :outcome, reason = :reason, code = :code, message_id = :message_id
           WHERE id = :id AND action_id = :action_id AND token = :token AND answered_at IS NULL""",
        id=attempt.attempt_id,
        action_id=attempt.action_id,
        token=attempt.token,
        outcome=kind.value,
        reason="" if isinstance(outcome, Accepted) else outcome.reason[:2000],
        code="" if isinstance(outcome, Accepted) else outcome.code[:200],
        message_id=outcome.message_id if isinstance(outcome, Accepted) else None,
    )
    return written.rowcount == 1
