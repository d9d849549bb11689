"""Every small history of a send, on paper, with the truth at its provider beside it: what the verdict must never say.

A history is up to four steps: a try, what was seen of it late, time, evidence, an account that moved, a person's word.
Whatever they are: without the policy's word no second e-mail goes out; what is called refused or failed has not gone
out; what is called sent has. Providers forget a key a little early, and a try may reach them a little late: that is what
the margin is for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from ledger.records import Attempt, Evidence, OutcomeKind, PointsTo, Policy, Window
from ledger.states import ActionState
from ledger.verdict import Finding, verdict

K, S = OutcomeKind, ActionState
START = datetime(2026, 11, 30, tzinfo=UTC)
DAY_S = 86_400.0
MARGIN_S, EARLY_S, DELAY_S = 900.0, 600.0, 250.0  # ours; how early a provider forgets; how late a try arrives
GAPS_S = (0.5 * DAY_S, DAY_S - 1000.0, DAY_S - 700.0, DAY_S)

# Whether it is carried out, what we are told (None: nothing, its worker vanished), and what is said later of that.
TRIES: tuple[tuple[bool, OutcomeKind | None, OutcomeKind | None], ...] = (
    (True, K.ACCEPTED, None),
    (True, K.UNKNOWN, None),
    (True, None, K.ACCEPTED),
    (True, None, K.UNKNOWN),
    (True, K.IN_FLIGHT, None),
    (False, K.NOT_SENT, None),
    (False, K.REFUSED, None),
    (False, K.UNKNOWN, None),
    (False, K.IN_FLIGHT, None),
    (False, None, K.REFUSED),
    (False, None, K.NOT_SENT),
)


@dataclass(frozen=True)
class Told:
    """What the ledger knows, and what is true: `mails` went out, `keys` are kept since then by account."""

    window: Window
    policy: Policy
    now: datetime = START
    attempts: tuple[Attempt, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    late: tuple[OutcomeKind | None, ...] = ()
    mails: int = 0
    keys: tuple[tuple[str, datetime], ...] = ()
    path: tuple[str, ...] = field(default=(), compare=False)

    def finding(self) -> Finding:
        return verdict(self.attempts, self.evidence, self.window, self.now, policy=self.policy)

    def after(self, what: str, **changed: object) -> Told:
        return replace(self, path=(*self.path, what), **changed)  # type: ignore[arg-type]

    # -- what can happen ----------------------------------------------------------------------------------

    def steps(self, found: Finding) -> Iterator[Told]:
        if found.state is S.APPROVED:
            yield from (self.tried(*how) for how in TRIES)
        yield from (self.after(f"{s:g} s", now=self.now + timedelta(seconds=s)) for s in GAPS_S)
        yield from (self.answered(n) for n, kind in enumerate(self.late) if kind is not None)
        yield from self.looked()
        if self.attempts and not self.window.moved:
            yield self.after("moved", window=replace(self.window, moved=True))
        if found.state is S.NEEDS_REVIEW:
            yield self.after("decided", window=replace(self.window, decided=True))

    def tried(self, went: bool, told: OutcomeKind | None, late: OutcomeKind | None) -> Told:
        """One more try by the account that the provider's name stands for."""
        account = "b" if self.window.moved else "a"
        gone = told is None
        attempt = Attempt(
            len(self.attempts) + 1,
            "a",
            self.now,
            None if gone else self.now,
            told,
            gone,
            message_id="<m>" if told is K.ACCEPTED else None,
        )
        made = self.after(
            f"{'went' if went else 'not'}/{told}",
            attempts=(*self.attempts, attempt),
            late=(*self.late, late),
            now=self.now + timedelta(seconds=1),
            window=replace(self.window, decided=False),
        )
        return made.carried_out(account, delayed=gone) if went else made

    def carried_out(self, account: str, *, delayed: bool) -> Told:
        """At the provider: under a key that it still keeps, nothing is sent again."""
        at = self.now + timedelta(seconds=DELAY_S if delayed else 0.0)
        kept = dict(self.keys).get(account)
        keeps_s = DAY_S - EARLY_S
        if self.window.key_window_s and kept and at < kept + timedelta(seconds=keeps_s):
            return self
        keys = (*(k for k in self.keys if k[0] != account), (account, at))
        return replace(self, mails=self.mails + 1, keys=keys)

    def answered(self, n: int) -> Told:
        """The answer to a try comes when its worker had been given up."""
        late = self.late[n]
        told = replace(
            self.attempts[n],
            outcome=late,
            answered_at=self.now,
            message_id="<m>" if late is K.ACCEPTED else None,
        )
        attempts = (*self.attempts[:n], told, *self.attempts[n + 1 :])
        return self.after(f"late {late}", attempts=attempts, late=(*self.late[:n], None, *self.late[n + 1 :]))

    def looked(self) -> Iterator[Told]:
        """The provider's record tells the truth; a hint may say anything."""
        if not self.attempts or self.evidence:
            return
        truth = PointsTo.SENT if self.mails else PointsTo.NOT_SENT
        seen = self.now + timedelta(seconds=DELAY_S)
        for points_to, proof in ((truth, True), (PointsTo.SENT, False), (PointsTo.NOT_SENT, False)):
            one = Evidence(
                "look-up", "record", points_to, proof, seen, "<m>" if points_to is PointsTo.SENT else None
            )
            yield self.after(f"{'proof' if proof else 'hint'} {points_to}", evidence=(one,), now=seen)


def holds(told: Told, found: Finding) -> None:
    about = f"{' > '.join(told.path)}: {found.state} after {told.mails}"
    # The policy "resend" is the operator's word for one further copy, where no key can stop it.
    allowed = 2 if told.policy is Policy.RESEND and told.window.key_window_s is None else 1
    assert told.mails <= allowed, about
    if found.state is S.APPROVED:
        assert told.tried(True, K.UNKNOWN, None).mails <= allowed, f"{about}, and may be tried"
    if found.state in (S.REFUSED, S.FAILED):
        assert not told.mails, about
    if found.state is S.SENT:
        assert told.mails, about
    if any(not e.proof for e in told.evidence):
        assert replace(told, evidence=()).finding().state is found.state, f"{about}, by a hint"


def histories(begin: Told, steps: int) -> Iterator[tuple[Told, Finding]]:
    """Each once, however many ways lead to it."""
    known, edge = {begin}, [(begin, begin.finding())]
    for _ in range(steps):
        yield from edge
        further = list[tuple[Told, Finding]]()
        for told, found in edge:
            for one in told.steps(found):
                if one not in known:
                    known.add(one)
                    further.append((one, one.finding()))
        edge = further
    yield from edge


# With a key a policy changes only what happens when its time is over.
CASES = [(policy, key_s, 3) for policy in Policy for key_s in (None, DAY_S)] + [(Policy.REVIEW, DAY_S, 4)]


@pytest.mark.parametrize(("policy", "key_s", "steps"), CASES)
def test_no_small_history_is_misjudged(policy: Policy, key_s: float | None, steps: int) -> None:
    window = Window(key_s, MARGIN_S, START + timedelta(days=9))
    ends: Counter[ActionState] = Counter()
    for told, found in histories(Told(window, policy), steps):
        holds(told, found)
        ends[found.state] += 1
    assert {S.APPROVED, S.SENT, S.REFUSED} <= set(ends)
    assert ends.total() > 500


def test_a_try_at_the_instant_of_a_proof_is_not_settled_by_it() -> None:
    """Which was first nobody can tell; a doubt too many is harmless."""
    at = START + timedelta(seconds=9)
    doubt = Attempt(1, "a", at, at, K.UNKNOWN, False)
    proof = Evidence("look-up", "record", PointsTo.NOT_SENT, True, at)
    found = verdict([doubt], [proof], Window(None, MARGIN_S, START + timedelta(days=9)), at)
    assert found.state is S.NEEDS_REVIEW
