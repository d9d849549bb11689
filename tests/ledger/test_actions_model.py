"""A send's life, step by step as hypothesis chooses, against the truth at its provider, which the ledger never sees.

What must hold whatever happens: without a person's (or the policy's) word no second e-mail goes out, what is called
refused, failed or declined has not gone out, and nothing is left to nobody. `test_verdict_model.py` says the same on paper.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ledger import actions, decisions
from ledger.actions import answers
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
    PointsTo,
    Policy,
    Refused,
    Role,
    Unknown,
)
from ledger.states import ActionState
from tests.fix_sends import DAY_S, KEYED, KEYLESS, Sends

S = ActionState
NEVER_WENT = {S.REFUSED, S.FAILED, S.DECLINED, S.PROPOSED}
LIVES, STEPS = 60, 14


def often(**weights: int) -> st.SearchStrategy[str]:
    return st.sampled_from([what for what, times in weights.items() for _ in range(times)])


# What a try is told, that was carried out or was not; doubts are what we are here for.
WENT = often(unknown=4, never=3, late=3, answer=1)
DID_NOT = often(unknown=3, never=2, late=2, refused=2, busy=3, answer=1)
# What can happen between claim and call, where the judge is needed: none of it was so when the action was claimed.
MEANWHILE = often(nothing=8, late_answer=2, look_up=1, day=4, moves=1, rescued=1)
A_TRY: dict[str, Any] = {"arrives": st.booleans(), "went": WENT, "did_not": DID_NOT, "meanwhile": MEANWHILE}
# What else can happen, each with its weight: trying is what lives are made of, so the rest shares three turns of six.
WORKERS = often(late_answer=4, stops_before_the_call=2, wakes_up=2)
WORLD = often(time=6, look_up=2, hint=2, moves=1)
PEOPLE = often(same_key=6, new_key=3, do_not_send=1, was_sent=1, opens_again=3, takes_back=1, tries_again=3)
HOURS = st.sampled_from((0.2, 11.0, 23.6, 24.2))
SAYS = st.sampled_from((PointsTo.SENT, PointsTo.NOT_SENT))


@dataclass
class Provider:
    """Keeps a key for its window, counted from the first request that came in under it; then it forgets."""

    mails: list[tuple[int, str]] = field(default_factory=list)
    keys: dict[str, tuple[str, float]] = field(default_factory=dict)
    clock_s: float = 0.0

    def takes(self, action_id: int, key: str | None) -> str:
        """Carries a request out; returns the message it made, or made before under this key."""
        known = self.keys.get(key) if key else None
        if known is not None and self.clock_s - known[1] < DAY_S:
            return known[0]
        message = f"<{uuid4().hex}@provider.example>"
        self.mails.append((action_id, message))
        if key:
            self.keys[key] = (message, self.clock_s)
        return message


class Life(RuleBasedStateMachine):
    """One action with its later generations, its provider, and what people allowed. Each rule is a thing that can happen."""

    def __init__(self, sends: Sends, rules: KindRules, ends: Counter[ActionState]) -> None:
        super().__init__()
        self.sends, self.rules, self.ends = sends, rules, ends
        self.ann, self.bo = sends.person("Ann"), sends.person("Bo", Role.ADMIN)
        self.provider = Provider()
        self.silent: list[tuple[AttemptRef, Outcome]] = []
        self.stale: list[ClaimedAction] = []

    @initialize(policy=st.sampled_from(Policy))
    def proposed(self, policy: Policy) -> None:
        self.name = f"p-{uuid4().hex}"
        own = replace(self.rules, provider=self.name, account=self.name, policy=policy, evidence_s=0.0)
        self.ids = [self.sends.proposed(own)]
        # The policy "resend" is the operator's word for one further copy, where no key can stop it.
        self.allowed = 2 if policy is Policy.RESEND and own.key_window_s is None else 1

    @property
    def id(self) -> int:
        return self.ids[-1]

    # -- workers --------------------------------------------------------------------------------------------

    def _goes(self, arrives: bool, went: str, did_not: str, meanwhile: str) -> None:
        """One try: what happens between claim and call, if it is carried out, and what we are told of it."""
        claimed = self._claimed()
        if claimed is None:
            return
        self._meanwhile(meanwhile)
        told = went if arrives else did_not
        try:
            attempt = self.sends.started(claimed)
        except LeaseLost:
            with suppress(LeaseLost):  # an acceptance that came meanwhile ended the claim
                self.sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease))
            return
        outcome = self._outcome(claimed, arrives, told)
        if told in ("late", "never"):
            self._is_swept()
            self.silent += [(attempt, outcome)] if told == "late" else []
        else:
            self.sends.answered(attempt, outcome)

    goes = rule(**A_TRY)(_goes)
    goes_again = rule(**A_TRY)(_goes)
    goes_once_more = rule(**A_TRY)(_goes)

    @rule(what=WORKERS)
    def something_odd_in_a_worker(self, what: str) -> None:
        getattr(self, f"_{what}")()

    @rule(what=WORLD, hours=HOURS, says=SAYS)
    def the_world_goes_on(self, what: str, hours: float, says: PointsTo) -> None:
        happens = {
            "time": partial(self._time_passes, hours),
            "look_up": self._look_up,
            "hint": partial(self._hint, says),
            "moves": self._moves,
        }
        happens[what]()

    @rule(what=PEOPLE)
    def people_decide(self, what: str) -> None:
        decision = {
            "same_key": Decision.RESEND_SAME_KEY,
            "do_not_send": Decision.DO_NOT_SEND,
            "was_sent": Decision.WAS_SENT,
        }
        with suppress(Declined):
            self._settles(decision[what]) if what in decision else getattr(self, f"_{what}")()

    def _claimed(self) -> ClaimedAction | None:
        self.sends.sql("DELETE FROM nottwice.provider_pauses")
        for action_id in self.ids:
            self.sends.due_now(action_id)
        return self.sends.claim_or_none(self.name)

    def _meanwhile(self, what: str) -> None:
        happens = {
            "late_answer": self._late_answer,
            "look_up": self._look_up,
            "day": partial(self._time_passes, 24.2),
            "moves": self._moves,
            "rescued": self._is_swept,
        }
        if what in happens:
            happens[what]()

    def _outcome(self, claimed: ClaimedAction, arrives: bool, told: str) -> Outcome:
        key = claimed.provider_key
        if arrives:
            message = self.provider.takes(claimed.lease.action_id, key)
            return Unknown("cut off") if told == "unknown" else Accepted(message)
        busy = key is not None and key in self.provider.keys
        nothing: dict[str, Outcome] = {
            "refused": Refused("no"),
            "unknown": Unknown("cut off"),
            "busy": InFlight("busy") if busy else NotSent("no"),
        }
        return nothing.get(told, NotSent("no"))

    def _is_swept(self) -> None:
        for action_id in self.ids:
            self.sends.run_out(action_id)
        self.sends.by_worker.run(actions.rescue)

    def _late_answer(self) -> None:
        if self.silent:
            self.sends.answered(*self.silent.pop())

    def _stops_before_the_call(self) -> None:
        """Killed, or only frozen: then it will wake up and believe that it still holds its claim."""
        if claimed := self._claimed():
            self._is_swept()
            self.stale.append(claimed)

    def _wakes_up(self) -> None:
        """It may not make its call any more, whatever happened meanwhile."""
        if self.stale:
            with pytest.raises(LeaseLost):
                self.sends.started(self.stale.pop())

    # -- the world ------------------------------------------------------------------------------------------

    def _time_passes(self, hours: float) -> None:
        self.provider.clock_s += hours * 3600
        for action_id in self.ids:
            self.sends.aged(action_id, hours * 3600)
        self.sends.by_worker.run(actions.expire)

    def _moves(self) -> None:
        """Its provider's name stands for another account from now on."""
        self.sends.sql(
            """INSERT INTO nottwice.providers (name, kind, account, key_margin_s)
               VALUES (:name, 'agentmail', 'another', 900) ON CONFLICT DO NOTHING""",
            name=self.name,
        )

    def _look_up(self) -> None:
        """The provider's own record, which tells the truth of what it has carried out."""
        mine = [message for action_id, message in self.provider.mails if action_id == self.id]
        self._observed(PointsTo.SENT if mine else PointsTo.NOT_SENT, True, mine[0] if mine else None)

    def _hint(self, points_to: PointsTo) -> None:
        """It may say anything, and changes nothing by itself."""
        before = self.sends.state(self.id)
        self._observed(points_to, False, "<h>" if points_to is PointsTo.SENT else None)
        assert self.sends.state(self.id) is before

    def _observed(self, points_to: PointsTo, proof: bool, message: str | None) -> None:
        now = self.sends.rows("SELECT clock_timestamp() AS now")[0].now
        found = Evidence("look-up", "record", points_to, proof, now, message)
        self.sends.by_worker.run(lambda tx: answers.add_evidence(tx, self.id, found))

    # -- people ---------------------------------------------------------------------------------------------

    def _settles(self, decision: Decision) -> None:
        act, seen = self.sends.act(self.ann), self.sends.seen(self.id)
        self.sends.decide(act, lambda tx: decisions.settle(tx, self.id, seen, decision, act, wait_s=0.0))

    def _new_key(self) -> None:
        """The word of two allows one e-mail more."""
        asks, agrees, seen = self.sends.act(self.ann), self.sends.act(self.bo), self.sends.seen(self.id)
        request = self.sends.decide(asks, lambda tx: decisions.ask_new_key(tx, self.id, seen, asks))
        done = self.sends.decide(agrees, lambda tx: decisions.agree(tx, request, seen, agrees, wait_s=0.0))
        self.ids.append(done.action_id)
        self.allowed += 1

    def _opens_again(self) -> None:
        act = self.sends.act(self.ann)
        self.sends.decide(act, lambda tx: decisions.reopen(tx, self.id, act))

    def _takes_back(self) -> None:
        act = self.sends.act(self.ann)
        self.sends.decide(act, lambda tx: decisions.take_back(tx, self.id, act))

    def _tries_again(self) -> None:
        act, seen = self.sends.act(self.ann), self.sends.seen(self.id)
        self.sends.decide(act, lambda tx: decisions.requeue(tx, self.id, seen, act, wait_s=0.0))

    # -- what must hold -------------------------------------------------------------------------------------

    @invariant()
    def it_holds(self) -> None:
        mails = self.provider.mails
        rows = self.sends.rows(
            "SELECT id, state, lease_until < now() AS over FROM nottwice.actions WHERE id = ANY(:ids)",
            ids=self.ids,
        )
        assert len(mails) <= self.allowed, f"{mails} in {rows}"
        for row in rows:
            went = any(action_id == row.id for action_id, _ in mails)
            assert not (row.state in NEVER_WENT and went), f"{row.state}, and yet it went out"
            assert not (row.state == S.SENDING and row.over), (
                "every row has an owner, a time, a person or an end"
            )

    def teardown(self) -> None:
        for action_id in getattr(self, "ids", ()):
            self.ends[self.sends.state(action_id)] += 1


@pytest.mark.parametrize("rules", [KEYED, KEYLESS], ids=["key", "no key"])
def test_no_second_mail_without_a_word(sends: Sends, rules: KindRules) -> None:
    ends: Counter[ActionState] = Counter()
    few = settings(max_examples=LIVES, stateful_step_count=STEPS)
    run_state_machine_as_test(lambda: Life(sends, rules, ends), settings=few)  # type: ignore[no-untyped-call]
    assert len(ends) >= 4, f"the lives were not lively enough: {ends}"
