"""What becomes of a decision later: taken back, opened again, met by proof; and what ran out of time, closed for good."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ledger import actions, decisions, judging
from ledger.database import Transaction
from ledger.errors import Incomplete, NotAllowed, NotNow
from ledger.records import (
    Act,
    Decision,
    NotSent,
    PointsTo,
    Policy,
    Refused,
    Role,
    Settled,
)
from ledger.states import ActionState
from ledger.verdict import is_contradicted
from tests.fix_sends import ACCEPTED, KEYED, KEYLESS, TO_APPROVE, UNKNOWN, Sends
from tests.ledger.test_decisions import evidence, settle

S, D = ActionState, Decision


def closed(sends: Sends) -> int:
    action_id = sends.uncertain(KEYLESS)
    act, seen = sends.act(sends.person("Ann")), sends.seen(action_id)
    sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.DO_NOT_SEND, act))
    return action_id


def reopened(sends: Sends, action_id: int, act: Act) -> Settled:
    return sends.decide(act, lambda tx: decisions.reopen(tx, action_id, act))


def test_opening_again_says_why(sends: Sends) -> None:
    action_id, bo = closed(sends), sends.person("Bo")
    with pytest.raises(Incomplete, match="Please say why"):
        reopened(sends, action_id, replace(sends.act(bo), reason=" "))
    assert sends.state(action_id) is S.CLOSED
    reopened(sends, action_id, sends.act(bo, "She called: it never came."))
    assert [(e.act, e.why) for e in sends.audit(action_id)][1:] == [
        ("opened again", "She called: it never came.")
    ]


@pytest.mark.parametrize("back", ["opened again", "taken back"])
def test_back_on_the_desk_it_has_waited_since_it_first_came_there(sends: Sends, back: str) -> None:
    action_id, ann = sends.uncertain(KEYED), sends.person("Ann")
    sends.sql("UPDATE nottwice.actions SET evidence_s = 300, evidence_until = now() - interval '55 minutes'")
    act, seen = sends.act(ann), sends.seen(action_id)
    decision = Decision.DO_NOT_SEND if back == "opened again" else Decision.RESEND_SAME_KEY
    sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, decision, act))
    again, undo = sends.act(ann), decisions.reopen if back == "opened again" else decisions.take_back
    sends.decide(again, lambda tx: undo(tx, action_id, again))
    (row,) = sends.rows("SELECT extract(epoch FROM now() - review_since) AS s, state FROM nottwice.actions")
    assert row.state == "needs_review" and 3600 <= row.s < 3660


# ── A send that ran out of time ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def timed_out(sends: Sends) -> int:
    action_id = sends.proposed(KEYED)
    sends.tried(action_id, NotSent("turned away"))
    sends.sql("UPDATE nottwice.actions SET retry_until = now() WHERE id = :id", id=action_id)
    sends.by_worker.run(actions.expire)
    assert sends.state(action_id) is S.FAILED
    return action_id


def giving_up(sends: Sends, action_id: int, act: Act) -> Callable[[Transaction], Settled]:
    seen = sends.seen(action_id)
    return lambda tx: decisions.give_up(tx, action_id, seen, act)


def test_a_send_that_ran_out_of_time_is_closed_with_a_reason_and_can_be_opened_again(
    sends: Sends, timed_out: int
) -> None:
    ann = sends.person("Ann")
    silent, act = replace(sends.act(ann), reason=""), sends.act(ann, "She has paid in the shop.")
    with pytest.raises(Incomplete, match="Please say why"):
        sends.decide(silent, giving_up(sends, timed_out, silent))
    assert sends.decide(act, giving_up(sends, timed_out, act)).state is S.CLOSED
    (entry,) = sends.audit(timed_out)
    assert (entry.act, entry.why, entry.state_before, entry.state_after) == (
        "closed: not tried again",
        "She has paid in the shop.",
        "failed",
        "closed",
    )
    late = sends.act(sends.person("Bo"))
    with pytest.raises(NotNow, match="This send is closed"):
        sends.decide(late, giving_up(sends, timed_out, late))
    assert reopened(sends, timed_out, sends.act(ann)).state is S.NEEDS_REVIEW


def test_only_who_decides_about_sends_closes_one_and_only_one_whose_time_was_over(
    sends: Sends, timed_out: int
) -> None:
    eve = sends.act(sends.person("Eve", Role.ENGINEER))
    with pytest.raises(NotAllowed):
        sends.decide(eve, giving_up(sends, timed_out, eve))
    other, act = sends.proposed(KEYED), sends.act(sends.person("Ann"))
    with pytest.raises(NotNow, match="This send is approved"):
        sends.decide(act, giving_up(sends, other, act))


def test_what_failed_is_tried_again_by_a_person(sends: Sends) -> None:
    action_id, ann = sends.proposed(), sends.act(sends.person("Ann"))
    for _ in range(3):
        sends.tried(action_id, NotSent("no"))
    sends.sql("UPDATE nottwice.actions SET retry_until = now()")
    sends.by_worker.run(actions.expire)
    assert sends.state(action_id) is S.FAILED
    seen = sends.seen(action_id)
    assert sends.decide(ann, lambda tx: decisions.requeue(tx, action_id, seen, ann)).state is S.APPROVED
    sends.tried(action_id, NotSent("again"))
    assert sends.state(action_id) is S.APPROVED, "it is given an hour"
    assert sends.row(action_id).failures == 1, "its backoff begins anew"


# ── The way back ──────────────────────────────────────────────────────────────────────────────────────

WAY_BACK: dict[str, tuple[Callable[[Sends], int], Callable[..., Settled], ActionState]] = {
    "settled": (
        lambda s: s.uncertain(KEYED),
        lambda tx, i, seen, act: decisions.settle(tx, i, seen, D.RESEND_SAME_KEY, act),
        S.NEEDS_REVIEW,
    ),
    "approved": (lambda s: s.proposed(TO_APPROVE), decisions.approve, S.PROPOSED),
    "requeued": (lambda s: failed(s), decisions.requeue, S.FAILED),
}


def failed(sends: Sends) -> int:
    action_id = sends.proposed(replace(KEYED, retry_for_s=0.0))
    sends.by_worker.run(actions.expire)
    return action_id


@pytest.mark.parametrize("how", WAY_BACK)
def test_a_decided_send_can_be_taken_back_to_where_it_was(sends: Sends, how: str) -> None:
    make, decide, place = WAY_BACK[how]
    action_id, ann, bo = make(sends), sends.act(sends.person("Ann")), sends.act(sends.person("Bo"))
    seen = sends.seen(action_id)
    sends.decide(ann, lambda tx: decide(tx, action_id, seen, ann))
    assert sends.decide(bo, lambda tx: decisions.take_back(tx, action_id, bo)).state is place
    assert sends.claim_or_none() is None
    assert [e.act for e in sends.audit(action_id)][-1] == "taken back"


def test_what_has_gone_cannot_be_taken_back(sends: Sends) -> None:
    action_id, ann = sends.uncertain(KEYED), sends.person("Ann")
    settle(sends, action_id, D.RESEND_SAME_KEY, sends.act(ann), wait_s=0.0)
    sends.claimed()
    act = sends.act(ann)
    with pytest.raises(NotNow, match="has gone"):
        sends.decide(act, lambda tx: decisions.take_back(tx, action_id, act))


def test_what_no_person_decided_cannot_be_taken_back(sends: Sends) -> None:
    action_id, act = sends.proposed(), sends.act(sends.person("Ann"))
    with pytest.raises(NotNow):
        sends.decide(act, lambda tx: decisions.take_back(tx, action_id, act))


@pytest.mark.parametrize("decision", [D.WAS_SENT, D.DO_NOT_SEND])
def test_a_closing_can_be_opened_again(sends: Sends, decision: Decision) -> None:
    action_id, ann = sends.uncertain(), sends.person("Ann")
    settle(sends, action_id, decision, sends.act(ann))
    act = sends.act(ann)
    assert sends.decide(act, lambda tx: decisions.reopen(tx, action_id, act)).state is S.NEEDS_REVIEW
    assert len(sends.audit(action_id)) == 2
    assert settle(sends, action_id, D.DO_NOT_SEND, sends.act(ann)).state is S.CLOSED


def test_what_a_policy_closed_can_be_opened_again(sends: Sends) -> None:
    action_id = sends.proposed(replace(KEYLESS, policy=Policy.DROP))
    sends.tried(action_id, UNKNOWN)
    act = sends.act(sends.person("Ann"))
    assert sends.decide(act, lambda tx: decisions.reopen(tx, action_id, act)).state is S.NEEDS_REVIEW


@pytest.mark.parametrize("state", [S.PROPOSED, S.APPROVED, S.NEEDS_REVIEW, S.FAILED, S.DECLINED, S.REFUSED])
def test_only_what_was_closed_is_opened_again(sends: Sends, state: ActionState) -> None:
    action_id, act = in_state(sends, state), sends.act(sends.person("Ann"))
    assert sends.state(action_id) is state
    with pytest.raises(NotNow, match="closed without proof"):
        sends.decide(act, lambda tx: decisions.reopen(tx, action_id, act))
    assert sends.state(action_id) is state


def in_state(sends: Sends, state: ActionState) -> int:
    if state is S.NEEDS_REVIEW:
        return sends.uncertain()
    if state is S.FAILED:
        return failed(sends)
    action_id = sends.proposed(TO_APPROVE if state in (S.PROPOSED, S.DECLINED) else KEYED)
    if state is S.DECLINED:
        ann, seen = sends.act(sends.person("Ann")), sends.seen(action_id)
        sends.decide(ann, lambda tx: decisions.decline(tx, action_id, seen, ann))
    if state is S.REFUSED:
        sends.tried(action_id, Refused("no"))
    return action_id


def test_what_is_proven_stays_closed(sends: Sends) -> None:
    action_id, act = sends.proposed(), sends.act(sends.person("Ann"))
    sends.tried(action_id, ACCEPTED)
    with pytest.raises(NotNow, match="without proof"):
        sends.decide(act, lambda tx: decisions.reopen(tx, action_id, act))


def test_late_proof_against_a_decision_is_kept_and_seen(sends: Sends) -> None:
    action_id = sends.uncertain()
    settle(sends, action_id, D.DO_NOT_SEND, sends.act(sends.person("Ann")))
    assert evidence(sends, action_id, PointsTo.SENT) is S.CLOSED

    def found(tx: Transaction) -> bool:
        row = judging.lock(tx, action_id)
        return is_contradicted(S(row.state), judging.finding(tx, row))

    assert sends.by_worker.run(found)


# ── Proof about a send that a person decided ──────────────────────────────────────────────────────────


def test_proof_of_not_sending_brings_a_decided_send_no_nearer(sends: Sends) -> None:
    """The fifteen seconds in which it can be taken back stay."""
    action_id, ann = sends.uncertain(KEYED), sends.act(sends.person("Ann"))
    settle(sends, action_id, D.RESEND_SAME_KEY, ann)
    due_at = sends.row(action_id).due_at
    assert evidence(sends, action_id, PointsTo.NOT_SENT) is S.APPROVED
    row = sends.row(action_id)
    assert row.due_at == due_at and row.decided_send


def test_proof_of_sending_ends_a_decided_send(sends: Sends) -> None:
    action_id, ann = sends.uncertain(KEYED), sends.act(sends.person("Ann"))
    settle(sends, action_id, D.RESEND_SAME_KEY, ann)
    assert evidence(sends, action_id, PointsTo.SENT) is S.SENT
    assert not sends.row(action_id).decided_send


def test_a_sweep_leaves_a_decided_send_as_the_person_saw_it(sends: Sends) -> None:
    action_id, ann = sends.uncertain(KEYED), sends.act(sends.person("Ann"))
    settle(sends, action_id, D.RESEND_SAME_KEY, ann)
    sends.sql("UPDATE nottwice.actions SET retry_until = now()")
    before = sends.row(action_id)
    assert sends.by_worker.run(actions.expire) == []
    assert sends.row(action_id) == before
