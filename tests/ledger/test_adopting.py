"""Hints that a person adopts: their decision "It was sent", with the hint's message, and never another send's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ledger import decisions
from ledger.actions import answers
from ledger.database import Transaction
from ledger.decisions import adopting
from ledger.decisions.adopting import LOOKED_AT
from ledger.errors import AlreadyDecided, Incomplete, NotAllowed, NotNow, Stale
from ledger.evidence import lookups
from ledger.evidence.rests import EARLY
from ledger.records import Act, Decision, Evidence, PointsTo, Role, Settled
from ledger.states import ActionState
from ledger.views import decided as views_decided
from tests.fix_notices import Provider
from tests.fix_sends import ACCEPTED, KEYED, Sends

MESSAGE = "<m-8@provider.example>"


def hinted(sends: Sends, action_id: int, message_id: str = MESSAGE, **more: Any) -> None:
    now = sends.rows("SELECT now() AS at")[0].at
    hint = Evidence(
        "AgentMail look-up", "A message to the same recipient", PointsTo.SENT, False, now, message_id
    )
    sends.by_worker.run(lambda tx: answers.add_evidence(tx, action_id, replace(hint, **more)))


def hints(sends: Sends, action_id: int, role: Role = Role.SUPPORT) -> tuple[adopting.Hint, ...]:
    return sends.by_console.run(lambda tx: adopting.hints(tx, action_id), role=role)


def adopt(sends: Sends, action_id: int, act: Act, evidence_id: int | None = None) -> Settled:
    seen = sends.seen(action_id)
    chosen = hints(sends, action_id)[0].id if evidence_id is None else evidence_id

    def do(tx: Transaction) -> Settled:
        return adopting.adopt(tx, action_id, chosen, seen, act)

    return sends.decide(act, do)


@pytest.fixture
def send(sends: Sends) -> int:
    action_id = sends.uncertain(KEYED)
    hinted(sends, action_id)
    return action_id


def test_an_adopted_hint_is_the_decision_it_was_sent_with_its_number(sends: Sends, send: int) -> None:
    act = sends.act(sends.person("Ann"), "The subject and the minute fit.", LOOKED_AT)
    settled = adopt(sends, send, act)
    row = sends.row(send)
    assert (settled.state, row.state, row.message_id) == (ActionState.SENT, "sent", MESSAGE)
    (entry,) = sends.audit(send)
    (hint,) = sends.rows("SELECT id FROM nottwice.evidence WHERE action_id = :id", id=send)
    assert (entry.act, entry.entity_version, entry.looked_at) == ("closed as sent", row.version, [LOOKED_AT])
    assert entry.detail == f"message {MESSAGE}; a hint: AgentMail look-up, evidence {hint.id}"
    assert entry.why == "The subject and the minute fit."


def test_an_adopted_hint_is_no_proof_and_can_be_opened_again(sends: Sends, send: int) -> None:
    adopt(sends, send, sends.act(sends.person("Ann")))
    assert not any(row.proof for row in sends.rows("SELECT proof FROM nottwice.evidence"))
    assert sends.rows("SELECT FROM nottwice.messages WHERE action_id IS NOT NULL") == []
    act = sends.act(sends.person("Bo"))
    sends.decide(act, lambda tx: decisions.reopen(tx, send, act))
    assert sends.state(send) is ActionState.NEEDS_REVIEW


def test_a_reason_is_asked_for(sends: Sends, send: int) -> None:
    with pytest.raises(Incomplete, match="why"):
        adopt(sends, send, sends.act(sends.person("Ann"), "  ", LOOKED_AT))
    assert sends.state(send) is ActionState.NEEDS_REVIEW


def test_the_same_press_twice_is_one_decision(sends: Sends, send: int) -> None:
    act, (hint,), seen = sends.act(sends.person("Ann")), hints(sends, send), sends.seen(send)
    sends.decide(act, lambda tx: adopting.adopt(tx, send, hint.id, seen, act))
    with pytest.raises(AlreadyDecided) as twice:
        sends.decide(act, lambda tx: adopting.adopt(tx, send, hint.id, seen, act))
    assert twice.value.same_form and len(sends.audit(send)) == 1


def test_who_is_too_late_is_told_who_was_first(sends: Sends, send: int) -> None:
    seen, (hint,) = sends.seen(send), hints(sends, send)
    first, late = sends.act(sends.person("Ann")), sends.act(sends.person("Bo"))
    sends.decide(first, lambda tx: decisions.settle(tx, send, seen, Decision.DO_NOT_SEND, first))
    with pytest.raises(AlreadyDecided, match="Ann was first"):
        sends.decide(late, lambda tx: adopting.adopt(tx, send, hint.id, seen, late))


def test_what_changed_since_the_person_looked_is_not_adopted(sends: Sends, send: int) -> None:
    seen, (hint,), act = sends.seen(send), hints(sends, send), sends.act(sends.person("Ann"))
    hinted(sends, send, "<m-9@provider.example>")
    with pytest.raises(Stale):
        sends.decide(act, lambda tx: adopting.adopt(tx, send, hint.id, seen, act))


@pytest.mark.parametrize("role", [Role.VIEWER, Role.ENGINEER, Role.AUDITOR])
def test_who_may_not_decide_may_not_adopt(sends: Sends, send: int, role: Role) -> None:
    assert len(hints(sends, send, role)) == 1
    with pytest.raises(NotAllowed):
        adopt(sends, send, sends.act(sends.person("Eva", role)))


@pytest.mark.parametrize(
    "more",
    [{"points_to": PointsTo.NOT_SENT}, {"points_to": PointsTo.NEITHER}, {"message_id": None}],
    ids=["not sent", "neither", "no message"],
)
def test_what_names_no_message_that_went_out_cannot_be_adopted(sends: Sends, more: dict[str, Any]) -> None:
    action_id = sends.uncertain(KEYED)
    hinted(sends, action_id, **more)
    assert hints(sends, action_id) == ()
    (row,) = sends.rows("SELECT id FROM nottwice.evidence")
    with pytest.raises(NotNow, match="cannot be adopted"):
        adopt(sends, action_id, sends.act(sends.person("Ann")), row.id)
    assert (sends.state(action_id), sends.audit(action_id)) == (ActionState.NEEDS_REVIEW, [])


def test_the_hint_of_another_send_is_none_of_this_one(sends: Sends, send: int) -> None:
    other, (hint,) = sends.uncertain(KEYED), hints(sends, send)
    with pytest.raises(NotNow):
        adopt(sends, other, sends.act(sends.person("Ann")), hint.id)


def test_one_message_is_one_hint_however_often_and_by_whom_it_was_seen(sends: Sends, send: int) -> None:
    hinted(sends, send, MESSAGE.strip("<>"), source="Notice from agentmail")
    hinted(sends, send, "<m-9@provider.example>")
    assert [hint.message_id for hint in hints(sends, send)] == [MESSAGE, "<m-9@provider.example>"]


def test_one_message_is_not_adopted_for_two_sends(sends: Sends, send: int) -> None:
    other = sends.uncertain(KEYED)
    hinted(sends, other)
    (hint,) = hints(sends, other)
    adopt(sends, send, sends.act(sends.person("Ann")))
    assert hints(sends, other) == ()
    with pytest.raises(NotNow, match="belongs to another send"):
        adopt(sends, other, sends.act(sends.person("Bo")), hint.id)


def closed_with(sends: Sends, action_id: int, message_id: str, read_in: str = "") -> Settled:
    act, seen = sends.act(sends.person("Ann")), sends.seen(action_id)
    number = {"message_id": message_id, "read_in": read_in}
    return sends.decide(
        act, lambda tx: decisions.settle(tx, action_id, seen, Decision.WAS_SENT, act, **number)
    )


@pytest.mark.parametrize("number", ["not a number at all", "<m-9@provider.example>"])
def test_a_number_that_nothing_of_ours_names_takes_a_second_word(
    sends: Sends, send: int, number: str
) -> None:
    with pytest.raises(Incomplete, match="on no notice and in no look-up of ours"):
        closed_with(sends, send, number, " ")
    assert sends.state(send) is ActionState.NEEDS_REVIEW
    assert closed_with(sends, send, number, "Inboxili's log, 09:12").state is ActionState.SENT
    (entry,) = sends.audit(send)
    assert entry.detail == f"message {number}; on no notice of ours; read in: Inboxili's log, 09:12"


def test_a_number_on_a_notice_or_in_a_hint_takes_none_and_neither_does_none(
    sends: Sends, send: int, provider: Provider
) -> None:
    noticed, unnumbered = sends.uncertain(KEYED), sends.uncertain(KEYED)
    provider.says("delivered", "<m-7@x>", account="agentmail")
    for action_id, number in ((noticed, " <m-7@x>"), (send, "m-8@provider.example"), (unnumbered, "")):
        assert closed_with(sends, action_id, number).state is ActionState.SENT
        assert "read in" not in sends.audit(action_id)[0].detail


@pytest.mark.parametrize("number", [MESSAGE, "m-8@provider.example", " <m-8@provider.example> "])
def test_a_number_that_is_another_sends_is_refused_by_that_sends_name(
    sends: Sends, send: int, number: str
) -> None:
    other = sends.uncertain(KEYED)
    adopt(sends, send, sends.act(sends.person("Bo")))
    with pytest.raises(NotNow, match=f"known as send {send}'s"):
        closed_with(sends, other, number)
    assert (sends.state(other), sends.row(other).message_id) == (ActionState.NEEDS_REVIEW, None)
    assert closed_with(sends, other, "<m-9@provider.example>", "their log").state is ActionState.SENT


def test_a_number_of_a_send_that_its_provider_answered_is_refused_too(sends: Sends, send: int) -> None:
    answered = sends.proposed(KEYED)
    sends.tried(answered, ACCEPTED)
    with pytest.raises(NotNow, match=f"known as send {answered}'s"):
        closed_with(sends, send, str(ACCEPTED.message_id))


def test_opening_again_lets_go_of_the_number_which_the_audit_keeps(sends: Sends, send: int) -> None:
    other = sends.uncertain(KEYED)
    closed_with(sends, other, MESSAGE)
    act = sends.act(sends.person("Bo"))
    sends.decide(act, lambda tx: decisions.reopen(tx, other, act))
    assert sends.row(other).message_id is None
    assert sends.audit(other)[0].detail == f"message {MESSAGE}"
    assert closed_with(sends, send, MESSAGE).state is ActionState.SENT


def test_a_message_whose_send_answered_meanwhile_cannot_be_adopted(sends: Sends) -> None:
    action_id = sends.uncertain(KEYED)
    hinted(sends, action_id, str(ACCEPTED.message_id).strip("<>"))
    assert len(hints(sends, action_id)) == 1
    sends.tried(sends.proposed(KEYED), ACCEPTED)
    assert hints(sends, action_id) == ()


def test_to_look_again_is_no_decision(sends: Sends, send: int) -> None:
    act = sends.act(sends.person("Ann"))
    sends.decide(act, lambda tx: lookups.ask(tx, send, act))
    assert sends.by_console.run(views_decided.today, role=Role.ADMIN) == []
    assert sends.by_console.run(lambda tx: views_decided.last(tx, send), role=Role.ADMIN) is None


def test_what_was_there_before_our_request_stands_behind_all_others(sends: Sends, send: int) -> None:
    hinted(sends, send, "early", found=f"A message to the same recipient was delivered{EARLY}")
    hinted(sends, send, "later")
    assert [hint.message_id for hint in hints(sends, send)] == [MESSAGE, "later", "early"]
