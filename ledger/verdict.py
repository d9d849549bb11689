"""What is known about an action: all its attempts, all evidence and the key's window in; state and reasons out.

Pure. The state of an action is this function of its whole history, never of the last answer: a refusal says
nothing about an earlier try that ended without one. Reasons are our own sentences; nothing from outside is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from ledger.records import Attempt, Evidence, OutcomeKind, PointsTo, Policy, Window
from ledger.states import ActionState

IN_FLIGHT_MAX = 5  # as often as a provider may call one key busy before a person looks
RESENDS_MAX = 1  # further attempts that may make a second copy, under the policy "resend"


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
    used, otherwise needs_review, or what the policy says in its place. Else a refusal: refused. Else approved, or
    failed when its time is over. An attempt that still runs is not judged: then the state is sending.
    """
    case = _Case(attempts, evidence, window, now, policy, provider)
    return _was_sent(case) or _still_runs(case) or _uncertain(case) or _was_not_sent(case)


def unsettled(attempts: Sequence[Attempt], evidence: Sequence[Evidence] = ()) -> list[Attempt]:
    """The attempts of which nobody can say whether they sent. Proof of not sending settles all before it."""
    proofs = [e.observed_at for e in evidence if e.proof and e.points_to is PointsTo.NOT_SENT]
    settled_until = max(proofs, default=None)
    return [
        a for a in attempts if _is_uncertain(a) and (settled_until is None or a.started_at > settled_until)
    ]


def key_ends(attempts: Sequence[Attempt], window: Window) -> datetime | None:
    """When the provider's key stops being safe: window less margin, counted from the first attempt's start.

    None without a key, before a first attempt, and when two accounts were used: a key protects within one.
    """
    if window.key_window_s is None or len({a.account for a in attempts}) != 1:
        return None
    first = min(a.started_at for a in attempts)
    return first + timedelta(seconds=window.key_window_s - window.key_margin_s)


def is_contradicted(state: ActionState, found: Finding) -> bool:
    """Whether what was proven says the opposite of how the action was closed. Shown; nothing is done about it."""
    if state is ActionState.SENT:
        return found.verdict is VerdictWord.WAS_NOT_SENT
    closed = (ActionState.CLOSED, ActionState.DECLINED, ActionState.REFUSED, ActionState.FAILED)
    return state in closed and found.verdict is VerdictWord.WAS_SENT


# ── The four steps, in the order in which they decide ─────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Case:
    attempts: Sequence[Attempt]
    evidence: Sequence[Evidence]
    window: Window
    now: datetime
    policy: Policy
    provider: str

    @property
    def unsettled(self) -> list[Attempt]:
        return unsettled(self.attempts, self.evidence)

    @property
    def key_until(self) -> datetime | None:
        return key_ends(self.attempts, self.window)

    @property
    def key_protects(self) -> bool:
        return self.key_until is not None and self.now < self.key_until

    @property
    def busy(self) -> int:
        """How often the provider called the key busy, or used with other content."""
        return sum(a.outcome is OutcomeKind.IN_FLIGHT for a in self.attempts)

    @property
    def is_patient(self) -> bool:
        """Whether we still try by ourselves, or a person asked for this try."""
        return self.window.decided or self.now < self.window.retry_until

    def proofs(self, points_to: PointsTo) -> list[Evidence]:
        return [e for e in self.evidence if e.proof and e.points_to is points_to]

    def last(self, outcome: OutcomeKind) -> Attempt | None:
        return next((a for a in reversed(self.attempts) if a.outcome is outcome), None)

    def clock(self, at: datetime) -> str:
        at = at.astimezone(UTC)
        day = "" if at.date() == self.now.astimezone(UTC).date() else f"{at.day} {at:%b} at "
        return f"{day}{at:%H:%M:%S} UTC"


def _was_sent(case: _Case) -> Finding | None:
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


def _still_runs(case: _Case) -> Finding | None:
    running = next((a for a in case.attempts if a.outcome is None and not a.abandoned), None)
    if running is None:
        return None
    reasons = (f"A worker has been sending this since {case.clock(running.started_at)}.",)
    return Finding(ActionState.SENDING, VerdictWord.NOBODY_KNOWS, reasons, case.key_until)


def _uncertain(case: _Case) -> Finding | None:
    if not case.unsettled:
        return None
    if case.key_protects and case.window.decided:
        return _safe(case, ActionState.APPROVED)
    if case.busy >= IN_FLIGHT_MAX:  # an alarm, whatever the policy: the key may belong to other content
        return _unknown(case, ActionState.NEEDS_REVIEW)
    given_up = ActionState.CLOSED if case.policy is Policy.DROP else ActionState.NEEDS_REVIEW
    if case.key_protects:
        return _safe(case, ActionState.APPROVED if case.is_patient else given_up)
    extra = _may_try_unprotected(case)
    return _unknown(case, ActionState.APPROVED if extra else given_up, extra_attempt=extra)


def _was_not_sent(case: _Case) -> Finding:
    refused, until = case.last(OutcomeKind.REFUSED), case.key_until
    if refused is not None:
        reason = f"{case.provider} refused it at {case.clock(refused.answered_at or refused.started_at)}."
        return Finding(ActionState.REFUSED, VerdictWord.WAS_NOT_SENT, (reason,), until)
    in_time = case.window.decided or (case.is_patient and (until is None or case.now < until))
    state = ActionState.APPROVED if in_time else ActionState.FAILED
    reasons = _why_not_sent(case) + (() if in_time else ("The time in which we try by ourselves is over.",))
    return Finding(state, VerdictWord.WAS_NOT_SENT, reasons, until)


def _safe(case: _Case, state: ActionState) -> Finding:
    return Finding(state, VerdictWord.SAFE_TO_TRY_AGAIN, _why_safe(case), case.key_until)


def _unknown(case: _Case, state: ActionState, *, extra_attempt: bool = False) -> Finding:
    reasons = _why_unknown(case)
    return Finding(state, VerdictWord.NOBODY_KNOWS, reasons, case.key_until, extra_attempt=extra_attempt)


def _may_try_unprotected(case: _Case) -> bool:
    """Rather twice than not at all: once, for a provider without keys. After a key's window: never by itself."""
    keyless = case.window.key_window_s is None
    return case.policy is Policy.RESEND and keyless and len(case.unsettled) <= RESENDS_MAX and case.is_patient


def _is_uncertain(attempt: Attempt) -> bool:
    if attempt.outcome is None:
        return attempt.abandoned
    return attempt.outcome in (OutcomeKind.UNKNOWN, OutcomeKind.IN_FLIGHT)


# ── Reasons ───────────────────────────────────────────────────────────────────────────────────────────


def _why_safe(case: _Case) -> tuple[str, ...]:
    first = case.clock(min(a.started_at for a in case.attempts))
    hours, margin = _span(case.window.key_window_s or 0), _span(case.window.key_margin_s)
    return (
        f"{case.provider} keeps a key for {hours}; ours was first used at {first}. We stop {margin} early.",
        "If it went out, a repeat with this key sends nothing.",
        "If it did not, the repeat sends it once.",
    )


def _why_unknown(case: _Case) -> tuple[str, ...]:
    reasons = [_what_happened(case, case.unsettled[-1])]
    if case.busy >= IN_FLIGHT_MAX:
        said = f"{case.provider} said {case.busy} times that this key is busy or was used with other content."
        reasons.append(f"{said} That needs a look.")
    elif case.window.key_window_s is None:
        reasons.append(f"{case.provider} has no key that would stop a second copy.")
    elif case.key_until is None:
        reasons.append("It was tried under two accounts; a key protects only within one.")
    else:
        reasons.append(f"The key window is over: it was safe until {case.clock(case.key_until)}.")
    return tuple(reasons)


def _what_happened(case: _Case, attempt: Attempt) -> str:
    at = case.clock(attempt.started_at)
    if attempt.outcome is None:
        return f"The worker stopped while it was sending this at {at}, before an answer was written down."
    if attempt.outcome is OutcomeKind.IN_FLIGHT:
        return f"{case.provider} said at {at} that a request with this key was under way."
    return f"A request went to {case.provider} at {at} and no clear answer came, so it may have been sent."


def _why_not_sent(case: _Case) -> tuple[str, ...]:
    if not case.attempts:
        return ("It was never tried.",)
    if any(_is_uncertain(a) for a in case.attempts):
        at = case.clock(case.proofs(PointsTo.NOT_SENT)[-1].observed_at)
        return (f"{case.provider}'s own record said at {at} that it was not sent.",)
    return ("No try got further than connecting, or was turned away.",)


def _span(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:g} h"
    return f"{seconds / 60:g} min" if seconds >= 120 else f"{seconds:g} s"
