"""SND-17: what is done after a send is work of its own: it fails and is tried again, and the send stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ledger import decisions
from ledger.records import Decision, Email, Event
from ledger.settings import ActionSettings, load
from ledger.states import ActionState
from tests.fix_sandbox import Sandbox
from tests.fix_sender import Senders, pump_until
from tests.fix_sends import ACCEPTED, KEYED, KEYLESS, Sends
from tests.fix_worker import Workshop
from worker.handlers import Handlers, Propose
from worker.trying.events import Working

DUE = "UPDATE nottwice.events SET due_at = now() WHERE state = 'pending'"
TOLD = "SELECT id FROM nottwice.events WHERE source = 'nottwice' AND type = 'action.sent'"
FAILS = 10


def test_snd_17_a_hook_that_fails_ten_times_sends_nothing_again(
    workshop: Workshop, sandbox: Sandbox, senders: Senders
) -> None:
    handlers, told = Handlers(), list[Any]()

    @handlers.apply("shop", "sale")
    def sell(tx: Any, event: Event, propose: Propose) -> None:
        propose(
            "receipt",
            "receipt:7",
            Email(("ada@example.com",), "Receipt", "Paid.", inbox="in-1"),
            about="INV-7",
        )

    @handlers.on("nottwice", "action.sent")
    def archive(event: Event) -> None:
        told.append(event.json())
        if len(told) <= FAILS:
            raise ConnectionError("the archive is full")

    @archive.apply
    def note(tx: Any, event: Event, archived: None, propose: Propose) -> None:
        tx.execute("INSERT INTO public.effects (what) VALUES ('archived')")

    (sale,) = workshop.accept("sale")
    sender = senders(timeout_s=15.0, attempts_max=FAILS + 1)
    telling = {"receipt": ActionSettings(provider="post", tell_when_sent=True)}
    settings = load(workshop.folder / "nottwice.toml").model_copy(update={"actions": telling})
    working = Working(workshop.database, settings, handlers)
    working.all_due(1)
    pump_until(sender, lambda: workshop.value("SELECT state FROM nottwice.actions") == "sent")
    for _ in range(FAILS):
        assert [one.ending for one in working.all_due(1)] == ["retried"]
        assert sender.pump() == 0
        workshop.run(DUE)
    assert [one.ending for one in working.all_due(1)] == ["completed"]
    assert (workshop.effects(), len(told)) == (["archived"], FAILS + 1)
    assert len(sandbox.requests) == len(sandbox.mails) == 1
    said = told[-1]
    assert (said["action"]["kind"], said["action"]["key"], said["action"]["about"]) == (
        "receipt",
        "receipt:7",
        "INV-7",
    )
    assert said["action"]["event_id"] == sale
    assert said["action"]["message_id"] == sandbox.mails[0]["message_id"]
    assert (said["recipients"], said["content"]["subject"]) == (["ada@example.com"], "Receipt")


def told(sends: Sends) -> int:
    return len(sends.rows(TOLD))


@pytest.mark.parametrize("tells", [True, False])
def test_snd_17_only_kinds_that_ask_for_it_are_told_of(sends: Sends, tells: bool) -> None:
    action_id = sends.proposed(replace(KEYED, tells=tells))
    sends.tried(action_id, ACCEPTED)
    assert (sends.state(action_id), told(sends)) == (ActionState.SENT, int(tells))


def test_snd_17_a_person_who_says_it_was_sent_tells_it_too_and_once(sends: Sends) -> None:
    action_id, ann = sends.uncertain(replace(KEYLESS, tells=True)), sends.person("Ann")
    for _ in range(2):
        act, seen = sends.act(ann), sends.seen(action_id)
        sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.WAS_SENT, act))  # noqa: B023
        assert told(sends) == 1
        again = sends.act(ann)
        sends.decide(again, lambda tx: decisions.reopen(tx, action_id, again))  # noqa: B023


def test_snd_17_what_may_not_have_gone_out_is_not_told(sends: Sends) -> None:
    action_id, ann = sends.uncertain(replace(KEYLESS, tells=True)), sends.person("Ann")
    act, seen = sends.act(ann), sends.seen(action_id)
    sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.DO_NOT_SEND, act))
    assert told(sends) == 0


def test_snd_17_a_content_too_long_for_an_event_is_left_out(sends: Sends) -> None:
    email = Email(("ann@example.com",), "Long", "x" * 1_000_001)
    action_id = sends.proposed(replace(KEYED, tells=True), email=email)
    sends.tried(action_id, ACCEPTED)
    (body,) = sends.rows("SELECT body FROM nottwice.event_contents")
    assert b'"content":null' in bytes(body.body) and b'"recipients":["ann@example.com"]' in bytes(body.body)
