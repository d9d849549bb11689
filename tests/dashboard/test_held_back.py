"""What may not go out, on its page: why it was closed, until when it was worth sending, and what a person may still do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger import actions
from ledger.records import Proposal, Rate, Unknown
from ledger.states import ActionState
from tests.dashboard.conftest import App
from tests.dashboard.test_events import pages
from tests.fix_sends import EMAIL, KEYED, KEYLESS, TO_APPROVE, Sends


def words(at: object) -> str:
    """Everything the page says outside its own markup."""
    assert not at.exception  # type: ignore[attr-defined]
    parts = [*at.info, *at.caption, *at.markdown]  # type: ignore[attr-defined]
    return "\n".join(str(one.value) for one in parts)


def buttons(at: object) -> list[str]:
    return [one.label for one in at.button]  # type: ignore[attr-defined]


def over(sends: Sends, action_id: int) -> None:
    sends.sql("UPDATE nottwice.actions SET send_before = now() WHERE id = :id", id=action_id)


def test_too_late_is_said_and_offers_nothing(app: App, sends: Sends) -> None:
    action_id = sends.proposed(replace(KEYED, send_before_s=600.0))
    assert "To be sent before" in pages(app("review", send=str(action_id)))
    over(sends, action_id)
    sends.by_worker.run(actions.expire)
    at = app("review", send=str(action_id))
    assert "**Closed.** It was to go out before" in words(at)
    assert "Nothing went out. Nothing more goes out under this key." in words(at)
    assert "Put it back on the desk" not in buttons(at)


def test_over_its_rate_is_said_and_can_be_opened_again(app: App, sends: Sends) -> None:
    rules = replace(KEYLESS, kind="alert", rate=Rate(1, 3600.0))
    made = [
        sends.by_worker.run(
            lambda tx, n=n: actions.propose(tx, Proposal("acme", f"k:{n}", rules, EMAIL.content(), EMAIL.to))
        )
        for n in range(2)
    ]
    at = app("review", send=str(made[1].action_id))
    assert "**Closed.** A recipient has had 1 of this kind within 1 h" in words(at)
    assert "Why?" in next(one.label for one in at.text_input)
    at = next(one for one in at.button if one.label == "Put it back on the desk").click().run()
    assert at.warning[-1].value == "Nothing was done. Please say why."
    at.text_input[0].input("She asked for all of them.")
    next(one for one in at.button if one.label == "Put it back on the desk").click().run()
    assert sends.state(made[1].action_id) is ActionState.NEEDS_REVIEW
    assert sends.audit(made[1].action_id)[-1].why == "She asked for all of them."


def test_one_that_ran_out_of_time_is_closed_with_a_reason(app: App, sends: Sends) -> None:
    action_id = sends.proposed(replace(KEYED, retry_for_s=0.0))
    sends.by_worker.run(actions.expire)
    at = app("review", send=str(action_id))
    at.text_input[0].input("She has paid in the shop.")
    next(one for one in at.button if one.label == "Close it: nobody tries it again").click().run()
    assert sends.state(action_id) is ActionState.CLOSED
    assert "**Closed without sending, by you" in "".join(one.value for one in at.success)


@pytest.mark.parametrize(
    "rules", [replace(KEYED, send_before_s=600.0), replace(KEYLESS, send_before_s=600.0)]
)
def test_on_the_desk_too_late_to_send_again(app: App, sends: Sends, rules: object) -> None:
    action_id = sends.proposed(rules)  # type: ignore[arg-type]
    attempt = sends.started(sends.claimed())
    over(sends, action_id)
    sends.answered(attempt, Unknown("no answer"))
    sends.sql("UPDATE nottwice.actions SET evidence_until = now() WHERE id = :id", id=action_id)
    at = app("review", send=str(action_id))
    (choice,) = at.radio
    assert choice.options == ["**It was sent**", "**Do not send**"]
    assert "**Sending it again** is not possible: it was to go out before" in words(at)


def test_too_late_to_approve(app: App, sends: Sends) -> None:
    action_id = sends.proposed(replace(TO_APPROVE, send_before_s=600.0))
    assert "Approve exactly this text" in buttons(app("review", send=str(action_id)))
    over(sends, action_id)
    at = app("review", send=str(action_id))
    assert "**It is too late for it.**" in words(at)
    assert "Approve exactly this text" not in buttons(at) and "Do not send this" in buttons(at)
