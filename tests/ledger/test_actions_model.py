"""Random lives of a send against the truth at its provider, which the ledger never sees.

What must hold whatever happens: without a person's (or the policy's) word no second e-mail goes out, and what is
called refused, failed or declined has not gone out.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pytest

from ledger import actions, answers, decisions
from ledger.errors import Declined, LeaseLost
from ledger.records import (
    Accepted,
    AttemptRef,
    ClaimedAction,
    Decision,
    Evidence,
    InFlight,
    KindRules,
    NotSent,
    Outcome,
    Person,
    PointsTo,
    Policy,
    Refused,
    Unknown,
)
from ledger.states import ActionState
from tests.fix_sends import DAY_S, KEYED, KEYLESS, Sends

S = ActionState
NEVER_WENT = {S.REFUSED, S.FAILED, S.DECLINED, S.PROPOSED}


@dataclass
class Provider:
    """Keeps a key for its window, counted from the first request that came in under it; then it forgets."""

    mails: list[str] = field(default_factory=list)
    keys: dict[str, tuple[str, float]] = field(default_factory=dict)
    clock_s: float = 0.0

    def takes(self, key: str | None) -> str:
        """Carries a request out; returns the message it made, or made before under this key."""
        known = self.keys.get(key) if key else None
        if known is not None and self.clock_s - known[1] < DAY_S:
            return known[0]
        message = f"<{uuid4().hex}@provider.example>"
        self.mails.append(message)
        if key:
            self.keys[key] = (message, self.clock_s)
        return message


@dataclass
class Life:
    """One action, its provider, and what people allowed. Each method is a thing that can happen."""

    sends: Sends
    action_id: int
    account: str
    person: Person
    provider: Provider = field(default_factory=Provider)
    claim: ClaimedAction | None = None
    silent: list[tuple[AttemptRef, Outcome]] = field(default_factory=list)
    allowed: int = 1

    def goes(self, *, arrives: bool, told: str, meanwhile: Callable[[Life], None] | None = None) -> None:
        """One try: what happens between claim and call, if the request is carried out, and what we are told of it."""
        self.sends.sql("DELETE FROM nottwice.provider_pauses")
        self.sends.due_now(self.action_id)
        claimed = self.sends.claim_or_none(self.account)
        if claimed is None:
            return
        if meanwhile:
            meanwhile(self)
        try:
            attempt = self.sends.started(claimed)
        except LeaseLost:
            with contextlib.suppress(LeaseLost):  # an acceptance that came meanwhile ended the claim
                self.sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease))
            return
        outcome = self.outcome(claimed.provider_key, arrives=arrives, told=told)
        if told in ("late", "never"):
            self.sends.run_out(self.action_id)
            self.sends.by_worker.run(actions.rescue)
            if told == "late":
                self.silent.append((attempt, outcome))
        else:
            self.sends.answered(attempt, outcome)

    def outcome(self, key: str | None, *, arrives: bool, told: str) -> Outcome:
        if arrives:
            message = self.provider.takes(key)
            return Unknown("cut off") if told == "unknown" else Accepted(message)
        busy = key is not None and key in self.provider.keys
        nothing: dict[str, Outcome] = {
            "refused": Refused("no"),
            "unknown": Unknown("cut off"),
            "busy": InFlight("busy") if busy else NotSent("no"),
        }
        return nothing.get(told, NotSent("no"))

    def late_answer(self) -> None:
        if self.silent:
            self.sends.answered(*self.silent.pop())

    def stops_before_the_call(self) -> None:
        self.sends.due_now(self.action_id)
        if self.sends.claim_or_none(self.account):
            self.sends.run_out(self.action_id)
            self.sends.by_worker.run(actions.rescue)

    def time_passes(self, hours: float) -> None:
        self.provider.clock_s += hours * 3600
        self.sends.aged(self.action_id, hours * 3600)
        self.sends.by_worker.run(actions.expire)

    def look_up(self) -> None:
        """The provider's own record, which tells the truth of what it has carried out."""
        now = self.sends.rows("SELECT now() AS now")[0].now
        went = bool(self.provider.mails)
        points_to = PointsTo.SENT if went else PointsTo.NOT_SENT
        message = self.provider.mails[0] if went else None
        found = Evidence("look-up", "record", points_to, True, now, message)
        self.sends.by_worker.run(lambda tx: answers.add_evidence(tx, self.action_id, found))

    def decides(self, decision: Decision) -> None:
        act, seen = self.sends.act(self.person), self.sends.seen(self.action_id)
        with contextlib.suppress(Declined):
            self.sends.decide(
                act, lambda tx: decisions.settle(tx, self.action_id, seen, decision, act, wait_s=0.0)
            )

    def opens_again(self) -> None:
        act = self.sends.act(self.person)
        with contextlib.suppress(Declined):
            self.sends.decide(act, lambda tx: decisions.reopen(tx, self.action_id, act))

    def holds(self) -> None:
        state = self.sends.state(self.action_id)
        assert len(self.provider.mails) <= self.allowed, f"{self.provider.mails} in {state}"
        if state in NEVER_WENT:
            assert not self.provider.mails, f"{state}, and yet it went out"
        left = self.sends.rows(
            """SELECT FROM nottwice.actions WHERE id = :id AND state = 'sending' AND lease_until < now()""",
            id=self.action_id,
        )
        assert not left, "every row has an owner, a time, a person or an end"


# What a try is told, that was carried out or was not; doubts are what we are here for.
WENT = {"unknown": 4, "never": 3, "late": 3, "answer": 1}
DID_NOT = {"unknown": 3, "never": 2, "late": 2, "refused": 2, "busy": 3, "answer": 1}


# Where the judge is needed: all of these were not so when the action was claimed.
MEANWHILE: dict[Callable[[Life], None] | None, int] = {
    None: 8,
    Life.late_answer: 2,
    Life.look_up: 1,
    lambda life: life.time_passes(24.2): 5,
}


def one_of(chance: random.Random, weights: dict[str, int]) -> str:
    return chance.choices(list(weights), list(weights.values()))[0]


def goes(life: Life, chance: random.Random) -> None:
    arrives = chance.random() < 0.5
    (meanwhile,) = chance.choices(list(MEANWHILE), list(MEANWHILE.values()))
    life.goes(arrives=arrives, told=one_of(chance, WENT if arrives else DID_NOT), meanwhile=meanwhile)


STEPS: dict[Callable[[Life, random.Random], None], int] = {
    goes: 12,
    lambda life, chance: life.time_passes(chance.choice((0.2, 11.0, 23.6, 24.2))): 4,
    lambda life, _: life.late_answer(): 2,
    lambda life, _: life.stops_before_the_call(): 1,
    lambda life, _: life.look_up(): 1,
    lambda life, _: life.opens_again(): 1,
    lambda life, _: life.decides(Decision.RESEND_SAME_KEY): 4,
    lambda life, chance: life.decides(chance.choice((Decision.DO_NOT_SEND, Decision.WAS_SENT))): 1,
}


@pytest.mark.parametrize("rules", [KEYED, KEYLESS], ids=["key", "no key"])
@pytest.mark.parametrize("policy", Policy)
def test_no_second_mail_without_a_word(sends: Sends, policy: Policy, rules: KindRules) -> None:
    chance, person, ends = random.Random(f"{policy}{rules.kind}"), sends.person("Ann"), set()
    for _ in range(30):
        account = f"account-{uuid4().hex}"
        action_id = sends.proposed(replace(rules, account=account, policy=policy, evidence_s=0.0))
        life = Life(sends, action_id, account, person)
        # The policy "resend" is the operator's word for one further copy, where no key can stop it.
        life.allowed = 2 if policy is Policy.RESEND and rules is KEYLESS else 1
        for step in chance.choices(list(STEPS), list(STEPS.values()), k=10):
            step(life, chance)
            life.holds()
        ends.add(sends.state(action_id))
    assert len(ends) >= 3, f"the lives were not lively enough: {ends}"
