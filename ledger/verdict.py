"""What is known about an action: all its attempts, all evidence and the key's window in; state and reasons out.

Pure. The state of an action is this function of its whole history, never of the last answer: a refusal says
nothing about an earlier try that ended without one. Reasons are our own sentences; nothing from outside is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ledger.records import Attempt, Evidence, OutcomeKind, PointsTo, Policy, Window
from ledger.states import ActionState

IN_FLIGHT_MAX = 5  # as often as a provider may call one key busy before a person looks
RESENDS_MAX = 1  # further attempts under the policy "resend"


class VerdictWord(StrEnum):
    """The four things that can be known. They are the headings of the review desk."""

    WAS_SENT = "was_sent"
    WAS_NOT_SENT = "was_not_sent"
    SAFE_TO_TRY_AGAIN = "safe_to_try_again"
    NOBODY_KNOWS = "nobody_knows"


@dataclass(frozen=True, slots=True)
class Finding:
    """`key_until`: until when the provider's key makes a repeat harmless (less the margin); None without keys.

    `extra_attempt` is True when the policy "resend" allows the one attempt that may make a second copy.
    """

    state: ActionState
    verdict: VerdictWord
    reasons: tuple[str, ...]
    key_until: datetime | None = None
    message_id: str | None = None
    extra_attempt: bool = False


def verdict(
    attempts: Sequence[Attempt],
    evidence: Sequence[Evidence],
    window: Window,
    now: datetime,
    *,
    policy: Policy = Policy.REVIEW,
    provider: str = "the provider",
) -> Finding:
    """The state that follows from the whole history. Expects no attempt that still runs under a live lease."""
    sent = _proof_of_sending(attempts, evidence, provider)
    if sent is not None:
        return sent
    key_until = key_ends(attempts, window)
    if unsettled(attempts, evidence):
        return _uncertain(attempts, window, now, policy, provider, key_until)
    return _certainly_not_sent(attempts, evidence, window, now, provider, key_until)


def unsettled(attempts: Sequence[Attempt], evidence: Sequence[Evidence] = ()) -> list[Attempt]:
    """The attempts of which nobody can say whether they sent. Proof of not sending settles all before it."""
    proofs = [e.observed_at for e in evidence if e.proof and e.points_to is PointsTo.NOT_SENT]
    settled_until = max(proofs, default=None)
    return [
        a for a in attempts if _is_uncertain(a) and (settled_until is None or a.started_at > settled_until)
    ]


def key_ends(attempts: Sequence[Attempt], window: Window) -> datetime | None:
    """When the provider's key stops being safe: window less margin, counted from the first attempt's start."""
    if window.key_window_s is None or not attempts:
        return None
    first = min(a.started_at for a in attempts)
    return first + timedelta(seconds=window.key_window_s - window.key_margin_s)


def _is_uncertain(attempt: Attempt) -> bool:
    if attempt.outcome is None:
        return attempt.abandoned
    return attempt.outcome in (OutcomeKind.UNKNOWN, OutcomeKind.IN_FLIGHT)


def _proof_of_sending(
    attempts: Sequence[Attempt], evidence: Sequence[Evidence], provider: str
) -> Finding | None:
    accepted = next((a for a in attempts if a.outcome is OutcomeKind.ACCEPTED), None)
    if accepted is not None:
        reason = f"{provider} accepted it at {_clock(accepted.answered_at or accepted.started_at)}."
        return Finding(ActionState.SENT, VerdictWord.WAS_SENT, (reason,), None, accepted.message_id)
    proofs = [e for e in evidence if e.proof and e.points_to is PointsTo.SENT]
    if not proofs:
        return None
    reasons = tuple(f"Proof that it went out was found at {_clock(e.observed_at)}." for e in proofs)
    return Finding(ActionState.SENT, VerdictWord.WAS_SENT, reasons, None, proofs[0].message_id)


def _uncertain(
    attempts: Sequence[Attempt],
    window: Window,
    now: datetime,
    policy: Policy,
    provider: str,
    key_until: datetime | None,
) -> Finding:
    busy = sum(a.outcome is OutcomeKind.IN_FLIGHT for a in attempts)
    if _key_is_safe(attempts, key_until, now) and (busy < IN_FLIGHT_MAX or window.decided):
        return Finding(
            ActionState.APPROVED if _patient(window, now) else ActionState.NEEDS_REVIEW,
            VerdictWord.SAFE_TO_TRY_AGAIN,
            _why_safe(attempts, window, provider),
            key_until,
        )
    return _nobody_knows(attempts, window, now, policy, provider, key_until, busy)


def _key_is_safe(attempts: Sequence[Attempt], key_until: datetime | None, now: datetime) -> bool:
    return key_until is not None and now < key_until and len({a.account for a in attempts}) == 1


def _patient(window: Window, now: datetime) -> bool:
    return window.decided or now < window.retry_until


def _nobody_knows(
    attempts: Sequence[Attempt],
    window: Window,
    now: datetime,
    policy: Policy,
    provider: str,
    key_until: datetime | None,
    busy: int,
) -> Finding:
    reasons = _why_unknown(attempts, window, now, provider, key_until, busy)
    if policy is Policy.DROP:
        return Finding(ActionState.CLOSED, VerdictWord.NOBODY_KNOWS, reasons, key_until)
    extra = (
        policy is Policy.RESEND and window.key_window_s is None and len(unsettled(attempts)) <= RESENDS_MAX
    )
    state = ActionState.APPROVED if extra and _patient(window, now) else ActionState.NEEDS_REVIEW
    return Finding(
        state,
        VerdictWord.NOBODY_KNOWS,
        reasons,
        key_until,
        extra_attempt=state is ActionState.APPROVED,
    )


def _certainly_not_sent(
    attempts: Sequence[Attempt],
    evidence: Sequence[Evidence],
    window: Window,
    now: datetime,
    provider: str,
    key_until: datetime | None,
) -> Finding:
    refused = next((a for a in reversed(attempts) if a.outcome is OutcomeKind.REFUSED), None)
    if refused is not None:
        reason = f"{provider} refused it at {_clock(refused.answered_at or refused.started_at)}."
        return Finding(ActionState.REFUSED, VerdictWord.WAS_NOT_SENT, (reason,), key_until)
    if any(_is_uncertain(a) for a in attempts):
        return Finding(
            ActionState.NEEDS_REVIEW, VerdictWord.WAS_NOT_SENT, _why_not_sent(evidence, provider), key_until
        )
    reasons = ("No try got further than connecting, or was turned away.",) if attempts else ()
    state = ActionState.APPROVED if _patient(window, now) else ActionState.FAILED
    return Finding(state, VerdictWord.WAS_NOT_SENT, reasons, key_until)


def _why_safe(attempts: Sequence[Attempt], window: Window, provider: str) -> tuple[str, ...]:
    first = min(a.started_at for a in attempts)
    hours, margin = _span(window.key_window_s or 0), _span(window.key_margin_s)
    return (
        f"{provider} keeps a key for {hours}; ours was first used at {_clock(first)}. We stop {margin} early.",
        "If it went out, a repeat with this key sends nothing.",
        "If it did not, the repeat sends it once.",
    )


def _why_unknown(
    attempts: Sequence[Attempt],
    window: Window,
    now: datetime,
    provider: str,
    key_until: datetime | None,
    busy: int,
) -> tuple[str, ...]:
    last = unsettled(attempts)[-1]
    reasons = [_what_happened(last, provider)]
    if busy >= IN_FLIGHT_MAX:
        reasons.append(
            f"{provider} said {busy} times that this key is busy or was used with other content. That needs a look."
        )
    elif window.key_window_s is None:
        reasons.append(f"{provider} has no key that would stop a second copy.")
    elif key_until is not None and now >= key_until:
        reasons.append(f"The key window is over: it was safe until {_clock(key_until)}.")
    elif len({a.account for a in attempts}) > 1:
        reasons.append("It was tried under two accounts; a key protects only within one.")
    return tuple(reasons)


def _what_happened(attempt: Attempt, provider: str) -> str:
    at = _clock(attempt.started_at)
    if attempt.outcome is None:
        return f"The worker stopped while it was sending this at {at}, before an answer was written down."
    if attempt.outcome is OutcomeKind.IN_FLIGHT:
        return f"{provider} said at {at} that a request with this key was under way."
    return f"The request reached {provider} at {at} and no clear answer came, so it may have been sent."


def _why_not_sent(evidence: Sequence[Evidence], provider: str) -> tuple[str, ...]:
    proofs = [e for e in evidence if e.proof and e.points_to is PointsTo.NOT_SENT]
    return tuple(
        f"{provider}'s own record said at {_clock(e.observed_at)} that it was not sent." for e in proofs
    )


def _clock(at: datetime) -> str:
    return f"{at:%d %b %H:%M:%S} UTC"


def _span(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:g} h"
    return f"{seconds / 60:g} min" if seconds >= 120 else f"{seconds:g} s"
