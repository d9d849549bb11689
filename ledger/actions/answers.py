"""What came of an attempt, and what else was observed.

A late answer is evidence, not a transition: it is written to its own attempt whoever holds the action by now, and
then the whole history is judged. The lease decides only who may act next.
"""

from __future__ import annotations

from typing import assert_never
from uuid import UUID

from ledger.accounts.pauses import pause as pause
from ledger.accounts.pauses import touch
from ledger.database import Transaction
from ledger.errors import LeaseLost
from ledger.evidence.message_ids import meeting_key
from ledger.figures import counters
from ledger.judging import history as history
from ledger.judging import is_held, judge, lock
from ledger.judging import window_of as window_of
from ledger.records import (
    Accepted,
    AttemptRef,
    Evidence,
    InFlight,
    NotSent,
    Outcome,
    OutcomeKind,
    PointsTo,
    Refused,
    Unknown,
)
from ledger.states import ActionState

METRICS = {kind: kind.value for kind in OutcomeKind} | {OutcomeKind.ACCEPTED: "sent"}


def record_answer(
    tx: Transaction,
    attempt: AttemptRef,
    outcome: Outcome,
    *,
    chance: float,
    writer: UUID,
    base_s: float = 2.0,
    pause_s: float = 30.0,
) -> ActionState:
    """Write the answer to its attempt, once, and judge the action. `chance` in [0, 1) spreads the next try.

    Raises LeaseLost when this attempt has its answer already, or is not ours: nothing was written, and whoever
    tried again after an unconfirmed commit may forget it. Never loses an acceptance: it settles the action whoever
    holds it now. Any other late answer leaves a living claim of somebody else alone; the end of that one judges both.
    """
    kind = kind_of(outcome)
    if isinstance(outcome, Accepted):  # before the action's row, in the order in which webhooks lock them
        meet(tx, _account(tx, attempt.action_id), outcome.message_id, attempt.action_id)
    row = lock(tx, attempt.action_id)
    late = not is_held(tx, attempt.action_id, attempt.token)
    _write_answer(tx, attempt, outcome, kind)
    counters.bump_many(tx, writer, _counts(row.namespace, kind, late=late))
    pauses = touch(tx, row.account, outcome, keyless=row.key_window_s is None, pause_s=pause_s)
    if late and row.state == ActionState.SENDING and kind is not OutcomeKind.ACCEPTED:
        return ActionState.SENDING
    retry_after_s = outcome.retry_after_s if isinstance(outcome, NotSent) else None
    return judge(tx, row, chance=chance, base_s=base_s, retry_after_s=retry_after_s, counts=not pauses)


def add_evidence(
    tx: Transaction, action_id: int, evidence: Evidence, *, event_id: int | None = None
) -> ActionState:
    """Keep what was observed and judge the action; returns where it is. Kept and shown even when it is final.

    A hint changes nothing by itself, but makes a page stale that was drawn without it.
    """
    row = lock(tx, action_id)
    tx.execute(
        """INSERT INTO nottwice.evidence (action_id, source, found, points_to, proof, message_id, event_id, observed_at)
           VALUES (:action_id, :source, :found, :points_to, :proof, :message_id, :event_id, :observed_at)""",
        action_id=action_id,
        source=evidence.source,
        found=_storable(evidence.found)[:2000],
        points_to=evidence.points_to.value,
        proof=evidence.proof,
        message_id=evidence.message_id,
        event_id=event_id,
        observed_at=evidence.observed_at,
    )
    settles = evidence.proof and (evidence.points_to is PointsTo.SENT or row.state != ActionState.SENDING)
    if not settles and row.state != ActionState.NEEDS_REVIEW:
        return ActionState(row.state)
    return judge(tx, row, counts=False)


def meet(tx: Transaction, account: str, message_id: str, action_id: int | None) -> int | None:
    """Lock the row where a webhook and the record of a sending meet; returns the action known under the message.

    Both sides call this before they look, and before they lock an action, so that neither looks too early. It does not
    matter how either spells the id, with brackets or without.
    """
    row = tx.one(
        """INSERT INTO nottwice.messages (account, message_id, action_id) VALUES (:account, :message_id, :action_id)
           ON CONFLICT (account, message_id)
           DO UPDATE SET action_id = coalesce(nottwice.messages.action_id, excluded.action_id)
           RETURNING action_id""",
        account=account,
        message_id=meeting_key(message_id),
        action_id=action_id,
    )
    return None if row.action_id is None else int(row.action_id)


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


def _write_answer(tx: Transaction, attempt: AttemptRef, outcome: Outcome, kind: OutcomeKind) -> None:
    said = (outcome.note, "") if isinstance(outcome, Accepted) else (outcome.reason, outcome.code)
    written = tx.execute(
        """UPDATE nottwice.action_attempts
           SET answered_at = clock_timestamp(), outcome = :outcome, reason = :reason, code = :code, message_id = :message_id,
               sent_as = :sent_as, other_content = :other_content
           WHERE id = :id AND action_id = :action_id AND token = :token AND answered_at IS NULL""",
        id=attempt.attempt_id,
        action_id=attempt.action_id,
        token=attempt.token,
        outcome=kind.value,
        reason=_storable(said[0])[:2000],
        code=_storable(said[1])[:200],
        message_id=outcome.message_id if isinstance(outcome, Accepted) else None,
        sent_as=outcome.sent_as if isinstance(outcome, Unknown) else None,
        other_content=isinstance(outcome, InFlight) and outcome.other_content,
    )
    if written.rowcount != 1:
        raise LeaseLost(f"Attempt {attempt.attempt_id} has its answer already; this one was not written.")


def _counts(namespace: str, kind: OutcomeKind, *, late: bool) -> dict[tuple[str, str], int]:
    counts = {(namespace, METRICS[kind]): 1}
    return counts | {(namespace, "late_answer"): 1} if late else counts


def _account(tx: Transaction, action_id: int) -> str:
    return str(tx.one("SELECT account FROM nottwice.actions WHERE id = :id", id=action_id).account)


def _storable(text: str) -> str:
    """A provider's words as PostgreSQL can hold them."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
