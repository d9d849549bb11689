"""Decisions, as the console makes them: its own login, and the person's role for one transaction."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import actions, audit, decisions
from ledger.actions import answers
from ledger.database import Transaction
from ledger.errors import AlreadyDecided, Declined, Incomplete, MayNotStart, NotAllowed, NotNow, Stale
from ledger.records import (
    Act,
    Decision,
    Evidence,
    InFlight,
    PointsTo,
    Role,
    Seen,
    Settled,
)
from ledger.states import ActionState
from tests.fix_sends import ACCEPTED, DAY_S, KEYED, KEYLESS, TO_APPROVE, UNKNOWN, Sends

S = ActionState
D = Decision


def settle(sends: Sends, action_id: int, decision: Decision, act: Act, **more: object) -> Settled:
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, decision, act, **more))  # type: ignore[arg-type]


def evidence(sends: Sends, action_id: int, points_to: PointsTo, *, is_proof: bool = True) -> ActionState:
    now = sends.rows("SELECT now() AS now")[0].now
    found = Evidence("look-up", "found", points_to, is_proof, now, "<m>")
    return sends.by_worker.run(lambda tx: answers.add_evidence(tx, action_id, found))


# ── What each decision does ───────────────────────────────────────────────────────────────────────────


def test_it_was_sent(sends: Sends) -> None:
    action_id, ann = sends.uncertain(), sends.person("Ann")
    done = settle(sends, action_id, D.WAS_SENT, sends.act(ann), message_id="  <m-9>  ", read_in="their log")
    assert (done.state, done.goes_at) == (S.SENT, None)
    row = sends.row(action_id)
    assert (row.state, row.message_id) == (S.SENT, "<m-9>")
    (entry,) = sends.audit(action_id)
    assert (entry.id, entry.act, entry.person_id, entry.role) == (
        done.audit_id,
        "closed as sent",
        ann.id,
        "support",
    )
    assert (entry.state_before, entry.state_after, entry.entity_version) == (
        "needs_review",
        "sent",
        row.version,
    )
    assert entry.known.startswith("nobody_knows: A request went to inboxili at ")
    assert (entry.why, entry.looked_at) == (
        "The log shows it.",
        ["Provider's own log"],
    )
    assert sends.claim_or_none() is None


def test_do_not_send(sends: Sends) -> None:
    action_id = sends.uncertain()
    assert settle(sends, action_id, D.DO_NOT_SEND, sends.act(sends.person("Ann"))).state is S.CLOSED
    assert sends.claim_or_none() is None


def test_the_same_key_again_waits_and_then_goes_through_the_judge(sends: Sends) -> None:
    action_id = sends.uncertain(KEYED)
    done = settle(sends, action_id, D.RESEND_SAME_KEY, sends.act(sends.person("Ann")), wait_s=15.0)
    assert done.state is S.APPROVED
    assert done.goes_at is not None
    assert (done.goes_at - done.at).total_seconds() == 15.0
    assert sends.claim_or_none() is None
    sends.due_now(action_id)
    claimed = sends.claimed()
    assert claimed.provider_key == sends.row(action_id).provider_key
    sends.started(claimed)
    assert sends.row(action_id).decided_send is False


def test_a_resend_whose_key_ran_out_meanwhile_comes_back_to_the_desk(sends: Sends) -> None:
    action_id = sends.uncertain(KEYED)
    settle(sends, action_id, D.RESEND_SAME_KEY, sends.act(sends.person("Ann")))
    sends.aged(action_id, DAY_S)
    claimed = sends.claimed()
    with pytest.raises(MayNotStart):
        sends.started(claimed)
    assert sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease)) is S.NEEDS_REVIEW
    assert len(sends.attempts(action_id)) == 1


def test_a_resend_that_is_uncertain_again_looks_for_evidence_anew(sends: Sends) -> None:
    action_id = sends.uncertain(KEYED)
    settle(sends, action_id, D.RESEND_SAME_KEY, sends.act(sends.person("Ann")))
    sends.sql("UPDATE nottwice.actions SET retry_until = now() - interval '1 h' WHERE id = :id", id=action_id)
    sends.tried(action_id, UNKNOWN)
    row = sends.row(action_id)
    assert row.state == S.NEEDS_REVIEW
    assert row.evidence_until > row.review_since


def test_a_person_may_try_a_key_that_was_always_busy(sends: Sends) -> None:
    action_id = sends.proposed(KEYED)
    for _ in range(5):
        sends.tried(action_id, InFlight("conflict", "409"))
    sends.sql("UPDATE nottwice.actions SET evidence_until = now()")
    settle(sends, action_id, D.RESEND_SAME_KEY, sends.act(sends.person("Ann")))
    sends.tried(action_id, InFlight("conflict", "409"))
    assert sends.state(action_id) is S.NEEDS_REVIEW, "once, not in a loop"


def test_what_is_proven_not_sent_can_go_without_a_key(sends: Sends) -> None:
    action_id = sends.uncertain(KEYLESS)
    evidence(sends, action_id, PointsTo.NOT_SENT)
    settle(sends, action_id, D.RESEND_SAME_KEY, sends.act(sends.person("Ann")))
    sends.tried(action_id, ACCEPTED)
    assert sends.state(action_id) is S.SENT


# ── What must be said ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reason", "looked_at", "missing"),
    [
        ("", (), "what you looked at and why"),
        ("  ", ("Only this page",), "why"),
        ("It is so.", (), "what you looked at"),
    ],
)
def test_a_decision_says_what_was_looked_at_and_why(
    sends: Sends, reason: str, looked_at: tuple[str, ...], missing: str
) -> None:
    action_id, ann = sends.uncertain(), sends.person("Ann")
    act = Act(ann, uuid4(), reason, looked_at)
    with pytest.raises(Incomplete, match=f"Please say {missing}."):
        settle(sends, action_id, D.WAS_SENT, act)
    assert sends.state(action_id) is S.NEEDS_REVIEW
    assert sends.audit(action_id) == []
    done = settle(
        sends, action_id, D.WAS_SENT, replace(act, reason="It is so.", looked_at=("Our own records",))
    )
    assert done.state is S.SENT, "the same form may be sent again, complete"


def test_a_choice_that_follows_a_proof_needs_no_words(sends: Sends) -> None:
    action_id, ann = sends.uncertain(), sends.person("Ann")
    evidence(sends, action_id, PointsTo.NOT_SENT)
    act = Act(ann, uuid4(), "", ("Only this page",))
    with pytest.raises(Incomplete):
        settle(sends, action_id, D.WAS_SENT, act)
    assert settle(sends, action_id, D.DO_NOT_SEND, act).state is S.CLOSED


# ── Not now ───────────────────────────────────────────────────────────────────────────────────────────


def test_no_resend_before_the_time_for_evidence_is_over(sends: Sends) -> None:
    action_id = sends.uncertain(KEYED)
    sends.sql("UPDATE nottwice.actions SET evidence_until = now() + interval '4 min'")
    with pytest.raises(NotNow, match=r"looking for evidence until \d\d:\d\d:\d\d UTC"):
        settle(sends, action_id, D.RESEND_SAME_KEY, sends.act(sends.person("Ann")))
    assert settle(sends, action_id, D.DO_NOT_SEND, sends.act(sends.person("Ann"))).state is S.CLOSED


def test_no_resend_without_a_key(sends: Sends) -> None:
    action_id = sends.uncertain(KEYLESS)
    with pytest.raises(NotNow, match="inboxili has no key that would stop a second copy"):
        settle(sends, action_id, D.RESEND_SAME_KEY, sends.act(sends.person("Ann")))


@pytest.mark.parametrize("left_s", [-1.0, 10.0])
def test_no_resend_with_a_key_that_does_not_outlive_the_wait(sends: Sends, left_s: float) -> None:
    action_id = sends.uncertain(KEYED)
    sends.aged(action_id, DAY_S - 900 - left_s)
    with pytest.raises(NotNow, match="The key ran out at"):
        settle(sends, action_id, D.RESEND_SAME_KEY, sends.act(sends.person("Ann")), wait_s=15.0)


def test_a_new_key_is_no_single_persons_decision(sends: Sends) -> None:
    action_id = sends.uncertain()
    with pytest.raises(NotNow, match="second person"):
        settle(sends, action_id, D.RESEND_NEW_KEY, sends.act(sends.person("Ann")))


@pytest.mark.parametrize("role", [Role.VIEWER, Role.ENGINEER, Role.AUDITOR])
def test_others_may_not_decide(sends: Sends, role: Role) -> None:
    action_id, eve = sends.uncertain(), sends.person("Eve", role)
    with pytest.raises(NotAllowed):
        settle(sends, action_id, D.WAS_SENT, sends.act(eve))
    assert sends.state(action_id) is S.NEEDS_REVIEW


def test_a_send_that_is_not_there(sends: Sends) -> None:
    act, seen = sends.act(sends.person("Ann")), Seen(1, b"")
    with pytest.raises(NotNow, match="nothing here"):
        sends.decide(act, lambda tx: decisions.settle(tx, 99, seen, D.WAS_SENT, act))


def test_only_what_is_on_the_desk_is_settled(sends: Sends) -> None:
    action_id = sends.proposed()
    with pytest.raises(NotNow, match="is approved"):
        settle(sends, action_id, D.WAS_SENT, sends.act(sends.person("Ann")))


# ── Stale pages and races told in words ───────────────────────────────────────────────────────────────


def test_what_changed_since_is_not_decided(sends: Sends) -> None:
    action_id, act = sends.uncertain(), sends.act(sends.person("Ann"))
    seen = sends.seen(action_id)
    evidence(sends, action_id, PointsTo.SENT, is_proof=False)
    with pytest.raises(Stale, match="changed while you had it open"):
        sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, D.DO_NOT_SEND, act))


def test_another_content_is_not_decided(sends: Sends) -> None:
    action_id, act = sends.uncertain(), sends.act(sends.person("Ann"))
    seen = replace(sends.seen(action_id), content_digest=b"another")
    with pytest.raises(Stale, match="content"):
        sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, D.DO_NOT_SEND, act))


def test_ui_07_the_second_is_told_who_was_first_what_and_when(sends: Sends) -> None:
    action_id = sends.uncertain()
    ann, bo = sends.act(sends.person("Ann")), sends.act(sends.person("Bo", Role.ADMIN))
    seen = sends.seen(action_id)
    done = settle(sends, action_id, D.WAS_SENT, ann)
    with pytest.raises(AlreadyDecided) as lost:
        sends.decide(bo, lambda tx: decisions.settle(tx, action_id, seen, D.DO_NOT_SEND, bo))
    told = lost.value
    assert (told.who, told.what, told.same_form) == ("Ann", "closed as sent", False)
    assert abs((told.at - done.at).total_seconds()) < 40
    assert "Ann was first: closed as sent" in str(told)


def test_ui_05_the_same_form_is_one_decision(sends: Sends) -> None:
    action_id, act = sends.uncertain(), sends.act(sends.person("Ann"))
    seen = sends.seen(action_id)
    settle(sends, action_id, D.WAS_SENT, act)
    with pytest.raises(AlreadyDecided) as again:
        sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, D.WAS_SENT, act))
    assert (again.value.same_form, again.value.what) == (True, "closed as sent")
    assert len(sends.audit(action_id)) == 1


# ── Approve and decline ───────────────────────────────────────────────────────────────────────────────


def test_approve_exactly_this_content(sends: Sends) -> None:
    action_id, ann = sends.proposed(TO_APPROVE), sends.act(sends.person("Ann"))
    seen = sends.seen(action_id)
    done = sends.decide(ann, lambda tx: decisions.approve(tx, action_id, seen, ann, wait_s=0.0))
    assert done.state is S.APPROVED
    assert sends.claimed().content_digest == seen.content_digest


def test_an_approval_names_the_content_it_saw(sends: Sends) -> None:
    action_id, ann = sends.proposed(TO_APPROVE), sends.act(sends.person("Ann"))
    seen = replace(sends.seen(action_id), content_digest=bytes(32))
    with pytest.raises(Stale):
        sends.decide(ann, lambda tx: decisions.approve(tx, action_id, seen, ann))
    assert sends.state(action_id) is S.PROPOSED


def approved(sends: Sends) -> int:
    action_id, ann = sends.proposed(TO_APPROVE), sends.act(sends.person("Ann"))
    seen = sends.seen(action_id)
    sends.decide(ann, lambda tx: decisions.approve(tx, action_id, seen, ann, wait_s=0.0))
    return action_id


# As the owner of the database could do it by hand: the content, and its digest with it, so that the row is in itself sound.
SWAP = """
UPDATE nottwice.action_contents SET content = convert_to('{"subject":"Send me money"}', 'UTF8') WHERE action_id = :id"""
RESIGN = """
UPDATE nottwice.actions a SET content_digest = nottwice.request_digest(a.provider, a.account, c.recipients, c.content)
FROM nottwice.action_contents c WHERE c.action_id = a.id AND a.id = :id"""
GO = "UPDATE nottwice.actions SET state = 'approved', due_at = now() WHERE id = :id"


def by_hand(sends: Sends, action_id: int, *statements: str) -> None:
    with sends.by_owner.transaction() as tx:
        tx.execute("SET LOCAL session_replication_role = replica")  # no trigger of ours
        for statement in statements:
            tx.execute(statement, id=action_id)


def refused_by_the_claim(sends: Sends, action_id: int) -> str:
    assert sends.claim_or_none() is None
    assert sends.state(action_id) is S.NEEDS_REVIEW
    return str(
        sends.rows("SELECT found FROM nottwice.evidence WHERE action_id = :id", id=action_id)[-1].found
    )


def test_an_approval_is_on_record_with_the_content_it_is_for(sends: Sends) -> None:
    action_id = approved(sends)
    (entry,) = sends.audit(action_id)
    assert entry.detail == f"content {bytes(sends.row(action_id).content_digest).hex()}"


def test_what_was_swapped_after_its_approval_goes_nowhere_though_its_row_is_sound(sends: Sends) -> None:
    action_id = approved(sends)
    by_hand(sends, action_id, SWAP, RESIGN)
    assert refused_by_the_claim(sends, action_id) == "No person let this content go. It was not sent."


def test_what_was_swapped_after_its_claim_is_not_started(sends: Sends) -> None:
    action_id = approved(sends)
    claimed = sends.claimed()
    by_hand(sends, action_id, SWAP, RESIGN)
    with pytest.raises(MayNotStart):
        sends.started(claimed)
    sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease))
    assert "No person let this content go" in refused_by_the_claim(sends, action_id)
    assert sends.attempts(action_id) == []


def test_a_row_that_only_says_it_was_approved_goes_nowhere(sends: Sends) -> None:
    action_id = sends.proposed(TO_APPROVE)
    by_hand(sends, action_id, GO)
    assert "No person let this content go" in refused_by_the_claim(sends, action_id)


def test_an_approval_that_was_taken_back_counts_no_more(sends: Sends) -> None:
    action_id = approved(sends)
    ann = sends.act(sends.person("Ann"))
    sends.decide(ann, lambda tx: decisions.take_back(tx, action_id, ann))
    by_hand(sends, action_id, GO)
    assert "No person let this content go" in refused_by_the_claim(sends, action_id)


def test_a_person_who_sends_it_from_the_desk_lets_it_go(sends: Sends) -> None:
    action_id = sends.proposed(TO_APPROVE)
    by_hand(sends, action_id, GO)
    refused_by_the_claim(sends, action_id)
    ann, seen = sends.act(sends.person("Ann")), sends.seen(action_id)
    sends.decide(ann, lambda tx: decisions.settle(tx, action_id, seen, D.RESEND_SAME_KEY, ann, wait_s=0.0))
    sends.tried(action_id, ACCEPTED)
    assert sends.state(action_id) is S.SENT


def test_a_declined_key_is_never_sent(sends: Sends) -> None:
    action_id, ann = sends.proposed(TO_APPROVE, key="answer:1"), sends.act(sends.person("Ann"))
    seen = sends.seen(action_id)
    sends.decide(ann, lambda tx: decisions.decline(tx, action_id, seen, ann))
    assert sends.proposed(TO_APPROVE, key="answer:1") == action_id
    assert sends.state(action_id) is S.DECLINED


# ── Refused tries are on record ───────────────────────────────────────────────────────────────────────


def test_aud_05_a_refused_try_says_what_was_and_what_stayed(sends: Sends) -> None:
    action_id, act = sends.uncertain(), sends.act(sends.person("Eve", Role.VIEWER))
    seen = sends.seen(action_id)
    with pytest.raises(Declined) as refusal:
        sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, D.WAS_SENT, act))
    reason = str(refusal.value)
    for note, outcome in ((audit.refused, "refused"), (audit.failed, "failed")):
        sends.decide(act, lambda tx, note=note: note(tx, act, "closed as sent", "action", action_id, reason))  # type: ignore[misc]
        entry = sends.audit(action_id)[-1]
        assert (entry.outcome, entry.role, entry.entity_version) == (outcome, "viewer", None)
        assert (entry.state_before, entry.state_after) == ("needs_review", "needs_review")
        assert entry.detail == "You can read this. Support or admin decides."


def test_a_decision_is_a_single_transaction(sends: Sends) -> None:
    action_id, act = sends.uncertain(), sends.act(sends.person("Ann"))
    seen = sends.seen(action_id)

    def broken(tx: Transaction) -> None:
        decisions.settle(tx, action_id, seen, D.WAS_SENT, act)
        tx.execute("SELECT 1 / 0")

    with pytest.raises(DBAPIError):
        sends.decide(act, broken)
    assert sends.state(action_id) is S.NEEDS_REVIEW
    assert sends.audit(action_id) == []
