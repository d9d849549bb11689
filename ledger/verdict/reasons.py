"""Why a verdict is what it is, in our own sentences; nothing from outside is in them. Pure."""

from __future__ import annotations

from ledger.records import Attempt, OutcomeKind, PointsTo
from ledger.verdict.case import Case, is_elsewhere, is_uncertain

NOT_WRITTEN_DOWN = 0  # the number of a try that a release supposes (sql/0031): a real one's is 1 at least
NEVER_CHANGES = "What we send never changes, so somebody else uses the key."
ELSEWHERE = "It was tried at another address than its provider has in the configuration now; a key protects only at one."
MOVED = "It was written for another account than its provider has in the configuration now; a key protects only within one."


def why_safe(case: Case) -> tuple[str, ...]:
    first = case.clock(min(a.started_at for a in case.attempts))
    hours, margin = _span(case.window.key_window_s or 0), _span(case.window.key_margin_s)
    return (
        f"{case.provider} keeps a key for {hours}; ours was first used at {first}. We stop {margin} early.",
        "If it went out, a repeat with this key sends nothing.",
        "If it did not, the repeat sends it once.",
    )


def why_unknown(case: Case) -> tuple[str, ...]:
    reasons = [_what_happened(case, case.unsettled[-1])]
    if any(a.other_content for a in case.attempts):
        reasons.append(f"{case.provider} says that this key came with other content. {NEVER_CHANGES}")
    elif case.is_alarming:
        said = f"{case.provider} said {case.busy} times that this key is busy or was used with other content."
        reasons.append(f"{said} That needs a look.")
    elif case.window.moved:
        reasons.append(MOVED)
    elif case.window.key_window_s is None:
        reasons.append(f"{case.provider} has no key that would stop a second copy.")
    elif is_elsewhere(case.attempts, case.window):
        reasons.append(ELSEWHERE)
    elif case.key_until is None:
        reasons.append("It was tried under two accounts; a key protects only within one.")
    else:
        reasons.append(f"The key window is over: it was safe until {case.clock(case.key_until)}.")
    return tuple(reasons)


def _what_happened(case: Case, attempt: Attempt) -> str:
    at = case.clock(attempt.started_at)
    if attempt.number == NOT_WRITTEN_DOWN:
        return f"The ledger was restored or copied; this may have gone out since {at}, and nothing is written down of it."
    if attempt.outcome is None:
        return f"The worker stopped while it was sending this at {at}, before an answer was written down."
    if attempt.outcome is OutcomeKind.IN_FLIGHT:
        return f"{case.provider} said at {at} that a request with this key was under way."
    return f"A request went to {case.provider} at {at} and no clear answer came, so it may have been sent."


def why_not_sent(case: Case) -> tuple[str, ...]:
    return (_why_certain(case), MOVED) if case.window.moved else (_why_certain(case),)


def _why_certain(case: Case) -> str:
    if not case.attempts:
        return "It was never tried."
    if any(is_uncertain(a) for a in case.attempts):
        at = case.clock(case.proofs(PointsTo.NOT_SENT)[-1].observed_at)
        return f"{case.provider}'s own record said at {at} that it was not sent."
    return "No try got further than connecting, or was turned away."


def why_too_late(case: Case) -> tuple[str, ...]:
    """Nothing, while it is not."""
    if case.window.send_before is None or not case.is_too_late:
        return ()
    return (f"It was to go out before {case.clock(case.window.send_before)}; it is not sent after that.",)


def _span(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:g} h"
    return f"{seconds / 60:g} min" if seconds >= 120 else f"{seconds:g} s"
