"""`send_before`: from then on an action is not sent, whoever asks, and everybody is told why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from ledger import actions, decisions
from ledger.actions import expiry
from ledger.errors import MayNotStart, NotNow
from ledger.records import Accepted, Decision, KindRules, NotSent, Policy, Proposal, Proposed, Role, Unknown
from ledger.reprocess import repeats as reprocess_repeats
from ledger.states import ActionState
from tests.fix_sends import EMAIL, KEYED, KEYLESS, TO_APPROVE, Sends

S = ActionState
CODE = replace(KEYED, kind="code", send_before_s=600.0)
CODE_KEYLESS = replace(KEYLESS, kind="code", send_before_s=600.0)


def proposed(sends: Sends, rules: KindRules = CODE, **more: object) -> Proposed:
    key = f"code:{len(sends.rows('SELECT FROM nottwice.actions'))}"
    proposal = Proposal("acme", key, rules, EMAIL.content(), EMAIL.to, **more)  # type: ignore[arg-type]
    return sends.by_worker.run(lambda tx: actions.propose(tx, proposal))


def ends(sends: Sends, action_id: int) -> None:
    """Its last moment is over."""
    sends.sql("UPDATE nottwice.actions SET send_before = now() WHERE id = :id", id=action_id)


def now(sends: Sends) -> datetime:
    at: datetime = sends.rows("SELECT now() AS at")[0].at
    return at


def why(sends: Sends, action_id: int) -> str:
    return str(sends.audit(action_id)[-1].why)


# ── When it ends ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("at_s", "own_s", "left_s"),
    [
        (None, None, 600),  # nobody says when it happened: from now
        (-240, None, 360),
        (3600, None, 600),  # a source whose clock is ahead makes nothing last longer
        (-240, 60, 60),
        (-240, 9000, 360),  # a proposal may end it sooner, not later
    ],
)
def test_counted_from_the_event_or_the_proposal_whichever_was_first(
    sends: Sends, at_s: float | None, own_s: float | None, left_s: float
) -> None:
    here = now(sends)
    at = None if at_s is None else here + timedelta(seconds=at_s)
    own = None if own_s is None else here + timedelta(seconds=own_s)
    row = sends.row(proposed(sends, at=at, send_before=own).action_id)
    assert abs((row.send_before - here).total_seconds() - left_s) < 60


def test_a_proposal_alone_may_set_it(sends: Sends) -> None:
    until = now(sends) + timedelta(hours=1)
    assert sends.row(proposed(sends, KEYED, send_before=until).action_id).send_before == until
    assert sends.row(proposed(sends, KEYED).action_id).send_before is None


def test_a_time_without_a_zone_is_refused(sends: Sends) -> None:
    with pytest.raises(ValueError, match="send_before of a proposed action is a time without a zone"):
        proposed(sends, KEYED, send_before=now(sends).replace(tzinfo=None))


def test_what_is_too_late_when_it_is_proposed_has_its_key_and_is_closed(sends: Sends) -> None:
    for rules, before in ((CODE, "approved"), (replace(CODE, approval=True), "proposed")):
        made = proposed(sends, rules, at=now(sends) - timedelta(minutes=11))
        assert (made.created, made.state) == (True, S.CLOSED)
        (entry,) = sends.audit(made.action_id)
        assert (entry.act, entry.role, entry.state_before, entry.state_after) == (
            "closed by policy", "policy", before, "closed",
        )  # fmt: skip
        assert entry.why.startswith("It was to go out before ")
        assert entry.why.endswith(", before it was proposed. Nothing went out.")
        assert sends.row(made.action_id).verdict == "was_not_sent"
    assert sends.claim_or_none() is None


# ── It ends while it waits ────────────────────────────────────────────────────────────────────────────


def test_the_judge_refuses_a_call_that_comes_too_late(sends: Sends) -> None:
    action_id = proposed(sends).action_id
    claimed = sends.claimed()
    ends(sends, action_id)
    with pytest.raises(MayNotStart, match="It was to go out before"):
        sends.started(claimed)
    assert sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease)) is S.CLOSED
    assert sends.attempts(action_id) == []
    assert why(sends, action_id).endswith(", and did not. Nothing went out.")


@pytest.mark.parametrize("rules", [CODE, replace(CODE, approval=True)], ids=["approved", "proposed"])
def test_the_sweep_closes_what_nobody_took_or_approved(sends: Sends, rules: KindRules) -> None:
    action_id = proposed(sends, rules).action_id
    sends.by_worker.run(actions.expire)
    assert sends.state(action_id) is (S.PROPOSED if rules.approval else S.APPROVED)
    ends(sends, action_id)
    (moved,) = sends.by_worker.run(actions.expire)
    assert (moved.id, moved.state) == (action_id, S.CLOSED)
    assert sends.by_worker.run(actions.expire) == []


def test_certainly_not_sent_and_then_too_late(sends: Sends) -> None:
    action_id = proposed(sends).action_id
    sends.tried(action_id, NotSent("503"))
    ends(sends, action_id)
    sends.by_worker.run(actions.expire)
    row = sends.row(action_id)
    assert (row.state, row.verdict) == ("closed", "was_not_sent")


@pytest.mark.parametrize(
    ("policy", "state"),
    [(Policy.REVIEW, "needs_review"), (Policy.RESEND, "needs_review"), (Policy.DROP, "closed")],
)
@pytest.mark.parametrize("rules", [CODE, CODE_KEYLESS], ids=["keyed", "keyless"])
def test_too_late_for_what_may_have_gone_out_is_the_policys(
    sends: Sends, rules: KindRules, policy: Policy, state: str
) -> None:
    action_id = proposed(sends, replace(rules, policy=policy)).action_id
    claimed = sends.claimed()
    attempt = sends.started(claimed)
    ends(sends, action_id)
    sends.answered(attempt, Unknown("no answer"))
    assert sends.row(action_id).state == state
    assert sends.claim_or_none() is None
    if state == "closed":
        assert why(sends, action_id) == "The policy of this kind is drop. It may have gone out."


def test_an_answer_that_comes_after_it_counts(sends: Sends) -> None:
    action_id = proposed(sends).action_id
    attempt = sends.started(sends.claimed())
    ends(sends, action_id)
    assert sends.answered(attempt, Accepted("<m@provider.example>")) is S.SENT


# ── People ────────────────────────────────────────────────────────────────────────────────────────────


def test_nobody_approves_it_any_more(sends: Sends) -> None:
    action_id = proposed(sends, replace(TO_APPROVE, send_before_s=600.0)).action_id
    ends(sends, action_id)
    act = sends.act(sends.person("Ann"))
    seen = sends.seen(action_id)
    with pytest.raises(NotNow, match="It was to go out before .*; nothing was done"):
        sends.decide(act, lambda tx: actions.approve(tx, action_id, seen, act))
    assert sends.state(action_id) is S.PROPOSED


def on_the_desk(sends: Sends) -> int:
    action_id = proposed(sends).action_id
    attempt = sends.started(sends.claimed())
    ends(sends, action_id)
    sends.answered(attempt, Unknown("no answer"))
    sends.sql("UPDATE nottwice.actions SET evidence_until = now() WHERE id = :id", id=action_id)
    return action_id


Deed = Callable[[Sends, int], object]
SENDS_AGAIN: dict[str, Deed] = {}


def deed(body: Deed) -> Deed:
    SENDS_AGAIN[body.__name__] = body
    return body


@deed
def the_same_key(sends: Sends, action_id: int) -> object:
    act = sends.act(sends.person("Ann"))
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.RESEND_SAME_KEY, act))


@deed
def a_new_key(sends: Sends, action_id: int) -> object:
    act = sends.act(sends.person("Ann"))
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.ask_new_key(tx, action_id, seen, act))


@deed
def try_again(sends: Sends, action_id: int) -> object:
    sends.sql(
        "UPDATE nottwice.actions SET state = 'failed', review_since = NULL, settled_at = now() WHERE id = :id",
        id=action_id,
    )
    act = sends.act(sends.person("Ann"))
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.requeue(tx, action_id, seen, act))


@pytest.mark.parametrize("name", SENDS_AGAIN)
def test_no_person_sends_it_again(sends: Sends, name: str) -> None:
    action_id = on_the_desk(sends)
    with pytest.raises(NotNow, match="It is not sent after that"):
        SENDS_AGAIN[name](sends, action_id)
    assert len(sends.rows("SELECT FROM nottwice.actions")) == 1


def test_a_second_person_does_not_agree_too_late_and_a_new_key_ends_when_the_old_one_does(
    sends: Sends,
) -> None:
    action_id = proposed(sends, replace(CODE_KEYLESS, policy=Policy.REVIEW)).action_id
    sends.tried(action_id, Unknown("no answer"))
    sends.sql("UPDATE nottwice.actions SET evidence_until = now() WHERE id = :id", id=action_id)
    until = sends.row(action_id).send_before
    ann, bo = (sends.act(sends.person(name)) for name in ("Ann", "Bo"))
    seen = sends.seen(action_id)
    request = sends.decide(ann, lambda tx: decisions.ask_new_key(tx, action_id, seen, ann))
    ends(sends, action_id)
    with pytest.raises(NotNow, match="It is not sent after that"):
        sends.decide(bo, lambda tx: decisions.agree(tx, request, seen, bo))
    sends.sql("UPDATE nottwice.actions SET send_before = :at WHERE id = :id", at=until, id=action_id)
    made = sends.decide(bo, lambda tx: decisions.agree(tx, request, seen, bo))
    assert made.action_id != action_id
    assert sends.row(made.action_id).send_before == until


def test_a_repeat_is_refused_by_its_preview(sends: Sends) -> None:
    action_id = proposed(sends).action_id
    sends.tried(action_id, Accepted("<m@provider.example>"))
    listed = [repeatable(sends, action_id)]
    ends(sends, action_id)
    listed.append(repeatable(sends, action_id))
    assert listed == ["", "It is too late for it (send_before): it is not sent after that."]


def repeatable(sends: Sends, action_id: int) -> str:
    (row,) = sends.by_owner.run(
        lambda tx: reprocess_repeats.actions_to_repeat(tx, [action_id], (), Role.ADMIN)
    )
    return row.refusal


def test_a_decided_send_that_waited_too_long_goes_nowhere(sends: Sends) -> None:
    action_id = proposed(sends, replace(TO_APPROVE, send_before_s=600.0)).action_id
    act = sends.act(sends.person("Ann"))
    seen = sends.seen(action_id)
    sends.decide(act, lambda tx: actions.approve(tx, action_id, seen, act))
    ends(sends, action_id)
    sends.by_worker.run(actions.expire)
    assert sends.state(action_id) is S.CLOSED


def test_late_proof_contradicts_what_was_closed(sends: Sends) -> None:
    action_id = proposed(sends, replace(CODE_KEYLESS, policy=Policy.DROP)).action_id
    attempt = sends.started(sends.claimed())
    sends.run_out(action_id)
    ends(sends, action_id)
    sends.by_worker.run(actions.rescue)
    assert sends.state(action_id) is S.CLOSED
    assert sends.answered(attempt, Accepted("<m@provider.example>")) is S.CLOSED
    assert sends.attempts(action_id)[0].outcome == "accepted"


def test_what_is_too_late_is_found_by_its_index(sends: Sends) -> None:
    with sends.by_owner.transaction() as tx:
        tx.execute("SET LOCAL enable_seqscan = off")  # an empty table is read whole
        plan = "\n".join(row[0] for row in tx.all("EXPLAIN " + expiry.TOO_LATE, limit=1))
    assert "actions_too_late" in plan, plan
