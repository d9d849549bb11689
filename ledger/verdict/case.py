"""One action's whole history and the questions that the verdict asks of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ledger.records import Attempt, Evidence, OutcomeKind, PointsTo, Policy, Window

IN_FLIGHT_MAX = 5  # as often as a provider may call one key busy before a person looks
LONGEST_S = 3_153_600_000.0  # a hundred years, as in the configuration: the calendar holds no more
RESENDS_MAX = 1  # further attempts that may make a second copy, under the policy "resend"


def unsettled(attempts: Sequence[Attempt], evidence: Sequence[Evidence] = ()) -> list[Attempt]:
    """The attempts of which nobody can say whether they sent. Proof of not sending settles all before it."""
    proofs = [e.observed_at for e in evidence if e.proof and e.points_to is PointsTo.NOT_SENT]
    settled_until = max(proofs, default=None)
    return [
        a for a in attempts if is_uncertain(a) and (settled_until is None or a.started_at >= settled_until)
    ]


def key_ends(attempts: Sequence[Attempt], window: Window) -> datetime | None:
    """When the provider's key stops being safe: window less margin, counted from the first attempt's start.

    None without a key, before a first attempt, and when two accounts were used, or it moved, or what may have gone out did
    so elsewhere: a key protects within one.
    """
    if window.key_window_s is None or window.moved or len({a.account for a in attempts}) != 1:
        return None
    if is_elsewhere(attempts, window):
        return None
    first = min(a.started_at for a in attempts)
    return first + timedelta(seconds=min(window.key_window_s - window.key_margin_s, LONGEST_S))


def is_elsewhere(attempts: Sequence[Attempt], window: Window) -> bool:
    """Whether a try that may have sent went to another place than where it was accepted, or else would go now."""
    accepted = [a.place for a in attempts if a.outcome is OutcomeKind.ACCEPTED]
    here = accepted[-1] if accepted else window.place
    return any(a.place != here for a in attempts if is_uncertain(a) and a.place and here)


def is_uncertain(attempt: Attempt) -> bool:
    """Whether nobody can say of this try, taken alone, if it sent."""
    if attempt.outcome is None:
        return attempt.abandoned
    return attempt.outcome in (OutcomeKind.UNKNOWN, OutcomeKind.IN_FLIGHT)


@dataclass(frozen=True, slots=True)
class Case:
    """What the verdict is about: the whole history at one moment, under one policy."""

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
    def is_too_late(self) -> bool:
        """Whether it is worth nothing any more to whom it should go."""
        return self.window.send_before is not None and self.now >= self.window.send_before

    @property
    def is_alarming(self) -> bool:
        """Whether the key may belong to other content: said so, or called busy too often to be believed."""
        return self.busy >= IN_FLIGHT_MAX or any(a.other_content for a in self.attempts)

    @property
    def is_patient(self) -> bool:
        """Whether we still try by ourselves, or a person asked for this try."""
        return not self.is_too_late and (self.window.decided or self.now < self.window.retry_until)

    def proofs(self, points_to: PointsTo) -> list[Evidence]:
        return [e for e in self.evidence if e.proof and e.points_to is points_to]

    def last(self, outcome: OutcomeKind) -> Attempt | None:
        return next((a for a in reversed(self.attempts) if a.outcome is outcome), None)

    def clock(self, at: datetime) -> str:
        at = at.astimezone(UTC)
        day = "" if at.date() == self.now.astimezone(UTC).date() else f"{at.day} {at:%b} at "
        return f"{day}{at:%H:%M:%S} UTC"
