"""Sends against the sandbox provider over real HTTP: one e-mail a key, whatever happens to the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ledger.records import Accepted, ClaimedAction, Outcome
from tests.fix_sandbox import Sandbox
from tests.fix_sender import Senders, pump_until, state_of
from tests.fix_worker import WITHIN_S, Notes, Workshop


def test_an_approved_action_goes_out_once(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Callable[..., int]
) -> None:
    action, sender = propose_one(), senders()
    pump_until(sender, lambda: state_of(workshop, action) == "sent")
    sender.pump()
    (mail,) = sandbox.mails
    (row,) = workshop.rows("SELECT provider_key, message_id, attempts FROM nottwice.actions")
    assert (mail["idempotency_key"], row.attempts) == (row.provider_key, 1)
    assert row.message_id
    assert sender.calls == 0


def test_snd_01_an_answer_that_is_lost_is_asked_for_again_with_the_same_key(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Callable[..., int], keyed_kind: str
) -> None:
    """SND-01: accepted, then silence beyond the deadline."""
    sandbox.faults({"accept_then_silence": True, "silence_s": 2})
    action, sender = propose_one(), senders(timeout_s=0.3, kind=keyed_kind)
    pump_until(sender, lambda: _outcomes(workshop)[:1] == ["unknown"])
    workshop.run("UPDATE nottwice.actions SET due_at = now() WHERE state = 'approved'")
    pump_until(sender, lambda: state_of(workshop, action) == "sent")
    assert len(sandbox.mails) == 1
    first, second = sandbox.requests
    assert first["idempotency_key"] == second["idempotency_key"]
    assert first["body_digest"] == second["body_digest"]
    assert _outcomes(workshop) == ["unknown", "accepted"]


def _outcomes(workshop: Workshop) -> list[str]:
    rows = workshop.rows(
        "SELECT outcome FROM nottwice.action_attempts WHERE answered_at IS NOT NULL ORDER BY number"
    )
    return [row.outcome for row in rows]


def test_the_answer_waits_for_a_database_that_is_away(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Callable[..., int], notes: Notes
) -> None:
    """SND-17: what the provider said is not lost, and not asked for again."""
    sandbox.faults({"delay_s": 0.4})
    action, sender = propose_one(), senders(timeout_s=5.0)
    pump_until(sender, lambda: sandbox.requests or sender.calls == 1)
    workshop.until("SELECT count(*) = 1 FROM nottwice.action_attempts")
    with workshop.away():
        notes.wait_for("answer waits", outcome="accepted")
    notes.wait_for("answered", outcome="accepted", state="sent")
    assert state_of(workshop, action) == "sent"
    assert len(sandbox.mails) == 1 and _outcomes(workshop) == ["accepted"]


def test_a_commit_that_was_not_confirmed_is_not_written_twice(
    workshop: Workshop,
    senders: Senders,
    propose_one: Callable[..., int],
    notes: Notes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record's first commit stands, but its confirmation is cut off: the second try meets its row."""
    from ledger.errors import Unavailable

    sender = senders()
    run, lost = sender._database.run, threading.Event()

    def cut_once(body: Any, **options: Any) -> Any:
        done = run(body, **options)
        if done == "sent" and not lost.is_set():
            lost.set()
            raise Unavailable("the line broke at the commit")
        return done

    monkeypatch.setattr(sender._database, "run", cut_once)
    action = propose_one()
    sender.pump()
    notes.wait_for("answered before")
    assert state_of(workshop, action) == "sent" and _outcomes(workshop) == ["accepted"]


class Broken:
    """A provider whose table forgot something."""

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        raise RuntimeError("nobody thought of this")


def test_what_a_provider_raises_is_unknown(
    workshop: Workshop, senders: Senders, propose_one: Callable[..., int], notes: Notes
) -> None:
    propose_one()
    senders(Broken()).pump()
    notes.wait_for("answered", outcome="unknown", state="approved")
    assert workshop.value("SELECT reason FROM nottwice.action_attempts") == "RuntimeError during the call"


def test_no_call_is_made_when_the_history_forbids_it(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Callable[..., int], notes: Notes
) -> None:
    """Its time ended between the claim and the judge: handed back, and put where its history says."""
    action, sender = propose_one(), senders()
    claim = sender._claim

    def and_too_late(accounts: tuple[str, ...]) -> ClaimedAction | None:
        claimed = claim(accounts)
        workshop.run("UPDATE nottwice.actions SET retry_until = now() - interval '1 s'")
        return claimed

    sender._claim = and_too_late  # type: ignore[method-assign]
    sender.pump()
    notes.wait_for("action handed back", state="failed")
    assert state_of(workshop, action) == "failed"
    assert not sandbox.requests
    assert workshop.value("SELECT count(*) FROM nottwice.action_attempts") == 0


class Sees:
    """Notes each call, and how many there are at once."""

    def __init__(self) -> None:
        self.now, self.most, self.keys = 0, 0, []  # type: ignore[var-annotated]
        self.hold = threading.Event()
        self._lock = threading.Lock()

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.keys.append(action.provider_key)
        self.hold.wait(WITHIN_S)
        with self._lock:
            self.now -= 1
        return Accepted(f"m-{action.lease.action_id}")


def test_no_more_calls_at_once_than_slots_and_each_action_once(
    workshop: Workshop, senders: Senders, propose_one: Callable[..., int]
) -> None:
    for n in range(12):
        propose_one(f"receipt:{n}")
    sees = Sees()
    senders = [senders(sees, send_slots=2), senders(sees, send_slots=3)]
    assert [sender.pump() for sender in senders] == [2, 3]
    assert [sender.pump() for sender in senders] == [0, 0]
    assert senders[0].accounts_with_room == (), "a full sender does not ask for work"
    assert workshop.value("SELECT count(*) FROM nottwice.actions WHERE state = 'sending'") == 5
    sees.hold.set()
    for sender in senders:
        pump_until(sender, lambda: workshop.value("SELECT bool_and(state = 'sent') FROM nottwice.actions"))
    assert len(sees.keys) == len(set(sees.keys)) == 12 and sees.most <= 5


def test_a_sender_that_stops_hands_back_what_it_has_not_started(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Callable[..., int], notes: Notes
) -> None:
    action, sender = propose_one(), senders()
    claimed = sender._claim(("post",))
    assert claimed is not None
    sender.stop()
    sender._carry(claimed, sender._free.get())
    assert state_of(workshop, action) == "approved"
    assert sender.pump() == 0 and not sandbox.requests
    assert notes.of("action handed back", why="stopping")


def test_only_accounts_of_configured_providers_are_claimed(
    workshop: Workshop, senders: Senders, propose_one: Callable[..., int]
) -> None:
    action = propose_one()
    workshop.run("UPDATE nottwice.actions SET account = 'another'")
    assert senders().pump() == 0
    assert state_of(workshop, action) == "approved"


def test_a_lease_that_ran_out_before_the_call_makes_none(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Callable[..., int], notes: Notes
) -> None:
    """Between the judge and the socket the process stood still: it was certainly not sent, and may be tried again."""
    action, sender = propose_one(), senders()
    sender._heartbeat.is_sure = lambda lease: False  # type: ignore[method-assign]
    sender.pump()
    notes.wait_for("answered", outcome="not_sent", state="approved")
    assert not sandbox.requests
    assert workshop.value("SELECT code FROM nottwice.action_attempts") == "lease"
    assert state_of(workshop, action) == "approved"
