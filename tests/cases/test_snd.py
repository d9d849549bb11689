"""SND: sends through the worker's own sender, the ledger and real HTTP; the sandbox counts what was asked of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledger import actions, judging
from ledger.states import ActionState
from tests.fix_sandbox import Sandbox, until
from tests.fix_sender import Senders, pump_until, state_of
from tests.fix_worker import Workshop

Propose = Callable[..., int]
HOUR_S = 3600.0
DEADLINE_S = 40.0  # answers come at once; a busy machine does not miss it

BODIES: dict[str, Any] = {
    "json": {"code": "validation_error", "message": "No."},
    "html": "<html><h1>No</h1></html>",
    "empty": "",
}
INACTIVE = {"code": "inactive_recipient", "message": "bo@example.com is an inactive recipient"}


def value(workshop: Workshop, action: int, column: str) -> Any:
    return workshop.value(f"SELECT {column} FROM nottwice.actions WHERE id = :id", id=action)


def fault(workshop: Workshop, action: int, **members: Any) -> dict[str, Any]:
    """A fault for this send alone: our label stands in its request."""
    return {"match": value(workshop, action, "reference"), "count": None, **members}


def asked(workshop: Workshop, sandbox: Sandbox, action: int) -> int:
    key = value(workshop, action, "provider_key")
    return sum(request["idempotency_key"] == key for request in sandbox.requests)


# ── SND-03 ────────────────────────────────────────────────────────────────────────────────────────────


def test_snd_03_a_permanent_refusal_is_final_whatever_its_body(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Propose
) -> None:
    answers = [(status, body) for status in (400, 413, 422) for body in BODIES.values()]
    answers += [(404, BODIES["json"]), (422, INACTIVE)]
    refused = [propose_one(f"receipt:{n}") for n in range(len(answers))]
    good = propose_one("receipt:good")  # one that stops nobody else's
    sandbox.faults(
        *(fault(workshop, one, status=s, body=b) for one, (s, b) in zip(refused, answers, strict=True))
    )
    sender = senders(timeout_s=DEADLINE_S)
    pump_until(
        sender, lambda: not workshop.value("SELECT count(*) FROM nottwice.actions WHERE settled_at IS NULL")
    )
    assert {state_of(workshop, one) for one in refused} == {"refused"}
    assert state_of(workshop, good) == "sent"
    workshop.database.run(actions.expire)
    sender.pump()
    assert [asked(workshop, sandbox, one) for one in refused] == [1] * len(refused)
    assert workshop.value("SELECT count(*) FROM nottwice.provider_pauses") == 0
    reasons = workshop.rows(
        "SELECT reason FROM nottwice.action_attempts WHERE outcome = 'refused' ORDER BY action_id"
    )
    assert all(row.reason for row in reasons)
    assert "bo@example.com" in reasons[-1].reason


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("status", [401, 403])
def test_snd_03_a_key_that_is_refused_holds_the_account_not_the_sends(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Propose, status: int, body: str
) -> None:
    waiting = [propose_one(f"receipt:{n}") for n in range(5)]
    sandbox.faults({"status": status, "body": BODIES[body], "count": None})
    sender = senders(timeout_s=DEADLINE_S, send_slots=1)
    pump_until(sender, lambda: workshop.value("SELECT count(*) FROM nottwice.provider_pauses") == 1)
    pump_until(sender, lambda: sender.calls == 0)
    assert sender.pump() == 0
    assert len(sandbox.requests) == 1, "one send found out; the others burnt no attempt"
    assert {state_of(workshop, one) for one in waiting} == {"approved"}
    assert workshop.value("SELECT sum(attempts) FROM nottwice.actions") == 1


def test_snd_03_the_key_stays_taken_and_a_corrected_mail_is_a_new_action(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Propose
) -> None:
    wrong = propose_one("receipt:7")
    sandbox.faults(fault(workshop, wrong, status=422, body=INACTIVE))
    sender = senders(timeout_s=DEADLINE_S)
    pump_until(sender, lambda: state_of(workshop, wrong) == "refused")
    assert propose_one("receipt:7") == wrong
    corrected = propose_one("receipt:7:corrected")
    pump_until(sender, lambda: state_of(workshop, corrected) == "sent")
    assert state_of(workshop, wrong) == "refused"
    assert (asked(workshop, sandbox, wrong), asked(workshop, sandbox, corrected)) == (1, 1)


# ── SND-06 ────────────────────────────────────────────────────────────────────────────────────────────


def aged(workshop: Workshop, action: int, hours: float) -> None:
    """What so many hours do to an action that waits for its next try."""
    workshop.run(
        """UPDATE nottwice.actions SET first_started_at = first_started_at - make_interval(secs => :s),
               created_at = created_at - make_interval(secs => :s), due_at = now() - make_interval(secs => :s) WHERE id = :id""",
        id=action,
        s=hours * HOUR_S,
    )
    workshop.run(
        """UPDATE nottwice.action_attempts SET started_at = started_at - make_interval(secs => :s),
               answered_at = answered_at - make_interval(secs => :s) WHERE action_id = :id""",
        id=action,
        s=hours * HOUR_S,
    )


def uncertain(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Propose, kind: str, **rules: Any
) -> tuple[Any, int]:
    """A send that was accepted, of which nobody here knows; its key is in its window."""
    action = propose_one("receipt:1", retry_for_s=30 * 24 * HOUR_S, **rules)
    sandbox.faults({"status": 503, "accept": True})
    sender = senders(timeout_s=DEADLINE_S, kind=kind)
    assert sender.pump() == 1  # and not again: its next try may be due at once
    until(lambda: sender.calls == 0, DEADLINE_S)
    assert workshop.value("SELECT outcome FROM nottwice.action_attempts") == "unknown"
    assert state_of(workshop, action) == "approved"
    return sender, action


@pytest.mark.parametrize(
    ("hours", "margin_s"),
    [
        (23 + 50 / 60, 300.0),
        (23.7, 900.0),
    ],
)
def test_snd_06_inside_the_window_the_same_key_is_tried_again(
    workshop: Workshop,
    sandbox: Sandbox,
    senders: Senders,
    propose_one: Propose,
    keyed_kind: str,
    hours: float,
    margin_s: float,
) -> None:
    sender, action = uncertain(workshop, sandbox, senders, propose_one, keyed_kind, key_margin_s=margin_s)
    aged(workshop, action, hours)
    pump_until(sender, lambda: state_of(workshop, action) == "sent")
    first, second = sandbox.requests
    assert (first["idempotency_key"], first["body_digest"]) == (
        second["idempotency_key"],
        second["body_digest"],
    )
    (mail,) = sandbox.mails
    assert value(workshop, action, "message_id") == mail["message_id"]


@pytest.mark.parametrize(
    ("hours", "margin_s"),
    [
        (24 + 10 / 60, 300.0),
        (23 + 50 / 60, 900.0),  # the default margin: a call, a lease, and clocks that run apart
        (72.0, 900.0),  # its worker was down for three days
    ],
)
@pytest.mark.parametrize("swept", [False, True], ids=["claimed", "swept"])
def test_snd_06_after_it_nothing_goes_out_by_itself(
    workshop: Workshop,
    sandbox: Sandbox,
    senders: Senders,
    propose_one: Propose,
    keyed_kind: str,
    hours: float,
    margin_s: float,
    swept: bool,
) -> None:
    sender, action = uncertain(workshop, sandbox, senders, propose_one, keyed_kind, key_margin_s=margin_s)
    aged(workshop, action, hours)
    sandbox.http.delete("/sandbox/keys")  # a repeat would be a second e-mail
    if swept:
        workshop.database.run(actions.expire)
    pump_until(sender, lambda: state_of(workshop, action) == "needs_review")
    found = workshop.database.run(lambda tx: judging.finding(tx, judging.lock(tx, action)))
    assert found.state is ActionState.NEEDS_REVIEW
    assert any("The key window is over" in reason for reason in found.reasons)
    assert len(sandbox.requests) == len(sandbox.mails) == 1
