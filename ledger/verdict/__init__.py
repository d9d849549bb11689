"""What is known about an action: all its attempts, all evidence and the key's window in; state and reasons out.

Pure. The state of an action is this function of its whole history, never of the last answer: a refusal says
nothing about an earlier try that ended without one. Reasons are our own sentences; nothing from outside is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ledger.records import Attempt, Evidence, OutcomeKind, PointsTo, Policy, Window
from ledger.states import ActionState
from ledger.verdict.case import IN_FLIGHT_MAX as IN_FLIGHT_MAX
from ledger.verdict.case import RESENDS_MAX, Case
from ledger.verdict.case import key_ends as key_ends
from ledger.verdict.case import unsettled as unsettled
from ledger.verdict.reasons import why_not_sent, why_safe, why_too_late, why_unknown


class VerdictWord(StrEnum):
    """The four things that can be known. They are the headings of the review desk."""

    WAS_SENT = "was_sent"
    WAS_NOT_SENT = "was_not_sent"
    SAFE_TO_TRY_AGAIN = "safe_to_try_again"
    NOBODY_KNOWS = "nobody_knows"


@dataclass(frozen=True, slots=True)
class Finding:
    """`key_until`: until when the provider's key makes a repeat harmless, less the margin; None: no key does.

    `extra_attempt` is True when the policy "resend" allows the one attempt that may make a second copy.
    """

    state: ActionState
    verdict: VerdictWord
    reasons: tuple[str, ...]
    key_until: datetime | None = None
    message_id: str | None = None
    extra_attempt: bool = False

    @property
    def in_words(self) -> str:
        """For the record: the verdict's word, and its reasons."""
        return f"{self.verdict.value}: {' '.join(self.reasons)}"


def verdict(
    attempts: Sequence[Attempt],
    evidence: Sequence[Evidence],
    window: Window,
    now: datetime,
    *,
    policy: Policy = Policy.REVIEW,
    provider: str = "the provider",
) -> Finding:
    """The state that follows from the whole history.

    Any acceptance, or proof of sending: sent. Else any attempt nobody can know about: approved while the key may be
    used, otherwise needs_review, or what the policy says in its place. Else a refusal: refused. Else approved; closed
    when it is too late to send it, failed when we tried for long enough. An attempt that still runs is not judged: then
    the state is sending.
    """
    case = Case(attempts, evidence, window, now, policy, provider)
    return _was_sent(case) or _still_runs(case) or _uncertain(case) or _was_not_sent(case)


def is_contradicted(state: ActionState, found: Finding) -> bool:
    """Whether what was proven says the opposite of how the action was closed. Shown; nothing is done about it."""
    if state is ActionState.SENT:
        return found.verdict is VerdictWord.WAS_NOT_SENT
    closed = (ActionState.CLOSED, ActionState.DECLINED, ActionState.REFUSED, ActionState.FAILED)
    return state in closed and found.verdict is VerdictWord.WAS_SENT


# ── The four steps, in the order in which they decide ─────────────────────────────────────────────────


def _was_sent(case: Case) -> Finding | None:
    accepted, proofs = case.last(OutcomeKind.ACCEPTED), case.proofs(PointsTo.SENT)
    if accepted is None and not proofs:
        return None
    reasons = [f"Proof that it went out was found at {case.clock(e.observed_at)}." for e in proofs[-2:]]
    if accepted is not None:
        at = case.clock(accepted.answered_at or accepted.started_at)
        reasons.insert(0, f"{case.provider} accepted it at {at}.")
        if case.unsettled and not case.key_until:
            reasons.append("An earlier try may have gone out as well: they may have it twice.")
    message_id = accepted.message_id if accepted is not None else proofs[0].message_id
    return Finding(ActionState.SENT, VerdictWord.WAS_SENT, tuple(reasons), None, message_id)


def _still_runs(case: Case) -> Finding | None:
    running = next((a for a in case.attempts if a.outcome is None and not a.abandoned), None)
    if running is None:
        return None
    reasons = (f"A worker has been sending this since {case.clock(running.started_at)}.",)
    return Finding(ActionState.SENDING, VerdictWord.NOBODY_KNOWS, reasons, case.key_until)


def _uncertain(case: Case) -> Finding | None:
    if not case.unsettled:
        return None
    if case.key_protects and case.window.decided and case.is_patient:
        return _safe(case, ActionState.APPROVED)
    if case.is_alarming:  # whatever the policy: the key may belong to other content
        return _unknown(case, ActionState.NEEDS_REVIEW)
    given_up = ActionState.CLOSED if case.policy is Policy.DROP else ActionState.NEEDS_REVIEW
    if case.key_protects:
        return _safe(case, ActionState.APPROVED if case.is_patient else given_up)
    extra = _may_try_unprotected(case)
    return _unknown(case, ActionState.APPROVED if extra else given_up, extra_attempt=extra)


def _was_not_sent(case: Case) -> Finding:
    refused, until = case.last(OutcomeKind.REFUSED), case.key_until
    if refused is not None:
        reason = f"{case.provider} refused it at {case.clock(refused.answered_at or refused.started_at)}."
        return Finding(ActionState.REFUSED, VerdictWord.WAS_NOT_SENT, (reason,), until)
    if case.is_too_late:
        return Finding(
            ActionState.CLOSED, VerdictWord.WAS_NOT_SENT, why_not_sent(case) + why_too_late(case), until
        )
    in_time = case.window.decided or (case.is_patient and (until is None or case.now < until))
    state = ActionState.APPROVED if in_time else ActionState.FAILED
    if in_time and case.window.moved:  # what was approved, and what the key protects, is another account's
        state = ActionState.NEEDS_REVIEW
    reasons = why_not_sent(case) + (() if in_time else ("The time in which we try by ourselves is over.",))
    return Finding(state, VerdictWord.WAS_NOT_SENT, reasons, until)


def _safe(case: Case, state: ActionState) -> Finding:
    return Finding(state, VerdictWord.SAFE_TO_TRY_AGAIN, why_safe(case) + why_too_late(case), case.key_until)


def _unknown(case: Case, state: ActionState, *, extra_attempt: bool = False) -> Finding:
    reasons = why_unknown(case) + why_too_late(case)
    return Finding(state, VerdictWord.NOBODY_KNOWS, reasons, case.key_until, extra_attempt=extra_attempt)


def _may_try_unprotected(case: Case) -> bool:
    """Rather twice than not at all: once, for a provider without keys. After a key's window: never by itself."""
    keyless = case.window.key_window_s is None and not case.window.moved
    return case.policy is Policy.RESEND and keyless and len(case.unsettled) <= RESENDS_MAX and case.is_patient
