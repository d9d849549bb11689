"""What a person does with a send that has ended: open it again, or close for good one that ran out of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ledger import actions, decisions
from ledger.database import Transaction
from ledger.errors import Incomplete, NotAllowed, NotNow
from ledger.records import Act, Decision, NotSent, Role, Settled
from ledger.states import ActionState
from tests.fix_sends import KEYED, KEYLESS, Sends

S = ActionState


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
def failed(sends: Sends) -> int:
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
    sends: Sends, failed: int
) -> None:
    ann = sends.person("Ann")
    silent, act = replace(sends.act(ann), reason=""), sends.act(ann, "She has paid in the shop.")
    with pytest.raises(Incomplete, match="Please say why"):
        sends.decide(silent, giving_up(sends, failed, silent))
    assert sends.decide(act, giving_up(sends, failed, act)).state is S.CLOSED
    (entry,) = sends.audit(failed)
    assert (entry.act, entry.why, entry.state_before, entry.state_after) == (
        "closed: not tried again",
        "She has paid in the shop.",
        "failed",
        "closed",
    )
    late = sends.act(sends.person("Bo"))
    with pytest.raises(NotNow, match="This send is closed"):
        sends.decide(late, giving_up(sends, failed, late))
    assert reopened(sends, failed, sends.act(ann)).state is S.NEEDS_REVIEW


def test_only_who_decides_about_sends_closes_one_and_only_one_whose_time_was_over(
    sends: Sends, failed: int
) -> None:
    eve = sends.act(sends.person("Eve", Role.ENGINEER))
    with pytest.raises(NotAllowed):
        sends.decide(eve, giving_up(sends, failed, eve))
    other, act = sends.proposed(KEYED), sends.act(sends.person("Ann"))
    with pytest.raises(NotNow, match="This send is approved"):
        sends.decide(act, giving_up(sends, other, act))
