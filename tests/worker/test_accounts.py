"""What becomes of sends when their account is held, or is another one in the configuration: sender, ledger, sandbox."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ledger.records import Accepted, ClaimedAction, Outcome
from ledger.settings import Settings
from tests.fix_sandbox import Sandbox, until
from tests.fix_sender import LEASE_S, POST, Senders, pump_until, state_of
from tests.fix_worker import WITHIN_S, Notes, Workshop
from worker import providers
from worker.accounts import Accounts
from worker.providers import Provider
from worker.sender import Sender

Propose = Callable[..., int]
DEADLINE_S = 40.0


def read_again(workshop: Workshop, sandbox: Sandbox, *lines: str, name: str = "post") -> Settings:
    """The same file with further lines about its provider."""
    table = POST.format(url=sandbox.url, timeout_s=DEADLINE_S).replace("providers.post", f"providers.{name}")
    return workshop.settings(more=table + "\n".join(lines), lease_s=LEASE_S)


def takes_over(workshop: Workshop, sender: Sender, settings: Settings) -> None:
    """What the daemon does at a SIGHUP."""
    sender.use(settings, providers.build_all(settings))
    told = Accounts(workshop.database, settings)
    told.look()


def test_a_retry_under_another_account_goes_to_review_and_not_out(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Propose
) -> None:
    sender = senders(timeout_s=DEADLINE_S)
    takes_over(workshop, sender, read_again(workshop, sandbox))
    doubtful = propose_one("receipt:1")
    sandbox.faults({"status": 503, "accept": True})
    assert sender.pump() == 1
    until(lambda: sender.calls == 0, WITHIN_S)
    never = propose_one("receipt:2")
    takes_over(workshop, sender, read_again(workshop, sandbox, 'account = "second"'))
    assert state_of(workshop, doubtful) == state_of(workshop, never) == "needs_review"
    workshop.run("UPDATE nottwice.actions SET due_at = now() WHERE state = 'approved'")
    assert sender.pump() == 0
    assert len(sandbox.requests) == len(sandbox.mails) == 1


def test_an_uncertain_send_is_not_repeated_at_another_address_of_the_same_account(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Propose
) -> None:
    """Secret and `account` stay. The sandbox under another name stands for a server that has never seen the key."""
    sender = senders(timeout_s=DEADLINE_S)
    takes_over(workshop, sender, read_again(workshop, sandbox))
    doubtful = propose_one("receipt:1")
    sandbox.faults({"status": 503, "accept": True})
    assert sender.pump() == 1
    until(lambda: sender.calls == 0, WITHIN_S)
    assert state_of(workshop, doubtful) == "approved"
    elsewhere = read_again(workshop, sandbox)
    moved = elsewhere.providers["post"].model_copy(update={"base_url": f"{sandbox.url}/elsewhere"})
    sender.use(elsewhere.model_copy(update={"providers": {"post": moved}}), providers.build_all(elsewhere))
    workshop.run("UPDATE nottwice.actions SET due_at = now() WHERE state = 'approved'")
    assert sender.pump() == 1
    until(lambda: sender.calls == 0, WITHIN_S)
    assert state_of(workshop, doubtful) == "needs_review"
    assert len(sandbox.requests) == len(sandbox.mails) == 1


def test_a_provider_that_is_gone_from_the_configuration_sends_by_no_other(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Propose, notes: Notes
) -> None:
    """Another provider has its account now. It neither lends its key nor takes the send up again and again."""
    sender, action = senders(timeout_s=DEADLINE_S), propose_one()
    takes_over(workshop, sender, read_again(workshop, sandbox, 'account = "post"', name="renamed"))
    assert sender.pump() == 1
    notes.wait_for("action stopped", action_id=action)
    until(lambda: sender.calls == 0, WITHIN_S)
    assert state_of(workshop, action) == "needs_review"
    assert sender.pump() == 0 and not sandbox.requests
    found = workshop.value("SELECT found FROM nottwice.evidence")
    assert found.startswith(
        "It was written for account post of provider post, and the configuration has no such"
    )


def test_a_pause_is_one_alert_and_new_settings_end_what_a_key_caused(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Propose, notes: Notes
) -> None:
    waiting = [propose_one(f"receipt:{n}") for n in range(3)]
    sandbox.faults({"status": 401, "count": None})
    sender = senders(timeout_s=DEADLINE_S, send_slots=1)
    settings = read_again(workshop, sandbox)
    told = Accounts(workshop.database, settings)
    for tries in (1, 2):  # the key was not mended yet when it was read again
        pump_until(sender, lambda tries=tries: len(sandbox.requests) == tries)
        until(lambda: sender.calls == 0, WITHIN_S)
        assert sender.pump() == 0, "held"
        told.use(settings)
        told.look()
    (alert,) = notes.of("account paused")
    assert alert["account"] == "post" and "does not take our API key" in alert["reason"]
    sandbox.faults()
    pump_until(sender, lambda: all(state_of(workshop, one) == "sent" for one in waiting))
    assert workshop.value("SELECT count(*) FROM nottwice.provider_pauses") == 0
    assert len(sandbox.mails) == 3 and len(notes.of("account is tried again")) == 2
    assert workshop.value("SELECT max(failures) FROM nottwice.actions") == 0


class Hangs:
    """A provider that takes its time, and counts how many calls it has at once."""

    def __init__(self) -> None:
        self.now, self.ends = 0, threading.Event()
        self._lock = threading.Lock()

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        with self._lock:
            self.now += 1
        self.ends.wait(WITHIN_S)
        return Accepted(f"m-{action.lease.action_id}")


def test_an_account_that_hangs_leaves_the_others_their_slot(
    workshop: Workshop, sandbox: Sandbox, senders: Senders, propose_one: Propose
) -> None:
    for n in range(5):
        propose_one(f"receipt:{n}")
    beside = propose_one("receipt:beside")
    workshop.run(
        "UPDATE nottwice.actions SET account = 'beside', provider = 'beside', due_at = now() WHERE id = :id",
        id=beside,
    )
    workshop.run(
        """UPDATE nottwice.actions a SET content_digest = nottwice.request_digest(a.provider, a.account, c.recipients, c.content)
           FROM nottwice.action_contents c WHERE c.action_id = a.id"""
    )
    hangs, quick = Hangs(), Hangs()
    quick.ends.set()
    table = POST.format(url=sandbox.url, timeout_s=WITHIN_S)
    both = table + table.replace("providers.post", "providers.beside")
    sender = senders(send_slots=3)

    def use(more: str) -> int:
        settings = workshop.settings(more=more, worker="send_slots = 3", lease_s=LEASE_S)
        by_name: dict[str, Any] = {"post": hangs, "beside": quick}
        made: dict[str, Provider] = by_name
        sender.use(settings, made)
        return sender.pump()

    assert use(both) == 3, "two of the one that hangs, and the other one"
    until(lambda: state_of(workshop, beside) == "sent", WITHIN_S)
    assert hangs.now == 2 and sender.accounts_with_room == ("beside",)
    assert use(both.replace("[providers.beside]", "sends_at_once = 3\n[providers.beside]")) == 1
    until(lambda: hangs.now == 3, WITHIN_S)
    hangs.ends.set()
    pump_until(sender, lambda: workshop.value("SELECT bool_and(state = 'sent') FROM nottwice.actions"))
