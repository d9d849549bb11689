"""Look-ups by the worker, against the sandbox over real HTTP and the ledger in a real database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from ledger import actions
from ledger.actions import answers
from ledger.database import Database
from ledger.records import Answered, Email, LookUp, Unanswered, Unknown, Worker
from ledger.settings.mailera import MaileraSpelling
from tests.fix_sandbox import Sandbox, claimed
from tests.fix_worker import PROVIDER, WITHIN_S, Notes, Workshop
from worker import providers
from worker.providers.mailera import Mailera
from worker.reconciler import Reconciler

Reconcilers = Callable[..., Reconciler]
INBOXILI = """
[providers.pigeon]
kind = "inboxili"
base_url = "{url}/api/v1"
key = "post-key"
"""


@pytest.fixture
def reconcilers(workshop: Workshop, sandbox: Sandbox) -> Iterator[Reconcilers]:
    """A reconciler with the providers `post` and `pigeon`; `provider` stands in for `post`."""
    opened: list[Database] = []
    built: list[Reconciler] = []

    def build(provider: Any = None, *, waits: str = "[0.01]", **worker: Any) -> Reconciler:
        lines = "\n".join(f"{name} = {value}" for name, value in worker.items())
        more = PROVIDER.format(url=sandbox.url, timeout_s=5) + INBOXILI.format(url=sandbox.url)
        settings = workshop.settings(more=more, worker=f"look_waits_s = {waits}\n{lines}")
        made = providers.build_all(settings) | ({"post": provider} if provider else {})
        database = Database(workshop.url, pool_size=6)
        opened.append(database)
        built.append(Reconciler(database, settings, made, Worker(uuid4(), "looker")))
        return built[-1]

    yield build
    for reconciler in built:
        reconciler.stop()
        assert reconciler.join(WITHIN_S)
    for database in opened:
        database.close()


@pytest.fixture
def doubt(workshop: Workshop, propose_one: Callable[..., int]) -> Callable[..., int]:
    """A send on the desk, of which nobody knows whether it went out."""

    def make(key: str = "receipt:1", provider: str = "post") -> int:
        action = propose_one(key)
        workshop.run(
            """WITH tried AS (INSERT INTO nottwice.action_attempts (action_id, number, token, worker, account, answered_at, outcome)
                              VALUES (:id, 1, gen_random_uuid(), gen_random_uuid(), :provider, now(), 'unknown'))
               UPDATE nottwice.actions SET state = 'needs_review', verdict = 'nobody_knows', review_since = now(), due_at = NULL,
                      evidence_until = now() + interval '5 min', retry_until = now(), first_started_at = now(), attempts = 1,
                      provider = :provider, account = :provider WHERE id = :id""",
            id=action,
            provider=provider,
        )
        return action

    return make


def pump_until(reconciler: Reconciler, found: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not found():
        assert time.monotonic() < deadline
        reconciler.pump()
        threading.Event().wait(0.02)


def went_out(sandbox: Sandbox, workshop: Workshop, action: int, *, marked: bool = True) -> str:
    """What the provider has of it: the e-mail, and no answer with us."""
    label = workshop.value("SELECT reference FROM nottwice.actions WHERE id = :id", id=action)
    body = {
        "to": ["ada@example.com"],
        "subject": "Receipt",
        "text": "Paid.",
        "labels": [label] if marked else [],
    }
    answer = sandbox.http.post(
        "/v0/inboxes/in-1/messages/send", json=body, headers={"Authorization": "Bearer am-key"}
    )
    return str(answer.json()["message_id"])


def state_of(workshop: Workshop, action: int) -> str:
    return str(workshop.value("SELECT state FROM nottwice.actions WHERE id = :id", id=action))


def looks(workshop: Workshop) -> list[tuple[str, str]]:
    rows = workshop.rows("SELECT outcome, words FROM nottwice.lookups WHERE done_at IS NOT NULL ORDER BY id")
    return [(row.outcome, row.words) for row in rows]


def test_what_went_out_is_settled_before_a_person_is_asked(
    workshop: Workshop, sandbox: Sandbox, reconcilers: Reconcilers, doubt: Callable[..., int], notes: Notes
) -> None:
    action = doubt()
    message_id = went_out(sandbox, workshop, action)
    pump_until(reconcilers(), lambda: state_of(workshop, action) == "sent")
    assert workshop.value("SELECT message_id FROM nottwice.actions") == message_id
    assert len(sandbox.mails) == 1 and len(sandbox.requests) == 1
    notes.wait_for("looked up", action_id=action, outcome="answered", state="sent")


def test_snd_06_when_its_key_is_over_a_send_is_looked_up_and_not_repeated(
    workshop: Workshop, sandbox: Sandbox, reconcilers: Reconcilers, propose_one: Callable[..., int]
) -> None:
    """A day and ten minutes after a try of unknown outcome, by a worker that was away."""
    action = propose_one()
    workshop.run(
        """WITH tried AS (INSERT INTO nottwice.action_attempts (action_id, number, token, worker, account, started_at, answered_at, outcome)
                          VALUES (:id, 1, gen_random_uuid(), gen_random_uuid(), 'post', now() - interval '24 h 10 min',
                                  now() - interval '24 h 9 min', 'unknown'))
           UPDATE nottwice.actions SET first_started_at = now() - interval '24 h 10 min', attempts = 1,
                  verdict = 'safe_to_try_again' WHERE id = :id""",
        id=action,
    )
    message_id = went_out(sandbox, workshop, action)
    sandbox.http.delete("/sandbox/keys")
    workshop.database.run(actions.expire)
    assert state_of(workshop, action) == "needs_review"
    pump_until(reconcilers(), lambda: state_of(workshop, action) == "sent")
    assert [mail["message_id"] for mail in sandbox.mails] == [message_id]


def test_what_is_not_found_stays_on_the_desk_and_is_kept_once(
    workshop: Workshop, sandbox: Sandbox, reconcilers: Reconcilers, doubt: Callable[..., int]
) -> None:
    action = doubt()
    pump_until(reconcilers(waits="[0.01, 0.02, 0.03]"), lambda: len(looks(workshop)) >= 4)
    assert state_of(workshop, action) == "needs_review" and sandbox.mails == []
    assert workshop.value("SELECT count(*) FROM nottwice.evidence") == 1


def test_a_message_without_our_mark_is_a_hint_for_a_person(
    workshop: Workshop, sandbox: Sandbox, reconcilers: Reconcilers, doubt: Callable[..., int]
) -> None:
    action = doubt()
    message_id = went_out(sandbox, workshop, action, marked=False)
    pump_until(reconcilers(), lambda: looks(workshop))
    (hint,) = workshop.rows("SELECT * FROM nottwice.evidence")
    assert (hint.points_to, hint.proof, hint.message_id) == ("sent", False, message_id)
    assert (hint.source, state_of(workshop, action)) == ("AgentMail look-up", "needs_review")


def test_a_provider_without_a_look_up_says_so_in_words(
    workshop: Workshop, reconcilers: Reconcilers, doubt: Callable[..., int]
) -> None:
    action = doubt(provider="pigeon")
    pump_until(reconcilers(), lambda: looks(workshop))
    assert looks(workshop)[0] == (
        "cannot_be_asked",
        "Inboxili cannot be asked about a send. Its own log is for people.",
    )
    assert state_of(workshop, action) == "needs_review"
    assert workshop.rows("SELECT FROM nottwice.evidence") == []


class Slow:
    """Answers a question when it is let, and remembers on which thread inside what."""

    name = label = "post"

    def __init__(self, looked: Any = None) -> None:
        self.asked: list[int] = []
        self.let = threading.Event()
        self.looked = looked or Answered((), "nothing")

    def look_up(self, lookup: LookUp, deadline_s: float) -> Any:
        self.asked.append(lookup.action_id)
        assert self.let.wait(WITHIN_S)
        if isinstance(self.looked, Exception):
            raise self.looked
        return self.looked


def test_questions_are_asked_side_by_side_within_the_slots_and_each_send_once(
    workshop: Workshop, reconcilers: Reconcilers, doubt: Callable[..., int]
) -> None:
    ids = {doubt(f"receipt:{n}") for n in range(4)}
    slow = Slow()
    first, second = reconcilers(slow, look_slots=1), reconcilers(slow, look_slots=1)
    pump_until(first, lambda: slow.asked)
    pump_until(second, lambda: len(slow.asked) == 2)
    assert first.pump() == second.pump() == 0
    slow.let.set()
    pump_until(first, lambda: len(looks(workshop)) >= 4)
    assert set(slow.asked) == ids and slow.asked[0] != slow.asked[1]


def test_no_transaction_is_open_while_a_provider_is_asked(
    workshop: Workshop, reconcilers: Reconcilers, doubt: Callable[..., int]
) -> None:
    doubt()
    slow = Slow()
    pump_until(reconcilers(slow), lambda: slow.asked)
    held = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'nottwice_worker' AND state LIKE 'idle in%'"
    workshop.until(f"SELECT ({held} AND datname = current_database()) = 0")
    slow.let.set()


def test_a_provider_that_breaks_is_said_and_asked_again_later(
    workshop: Workshop, reconcilers: Reconcilers, doubt: Callable[..., int]
) -> None:
    doubt()
    broken = Slow(ValueError("secret text"))
    broken.let.set()
    pump_until(reconcilers(broken), lambda: len(looks(workshop)) >= 2)
    assert looks(workshop)[0] == ("unanswered", "The look-up failed here (ValueError).")


def test_told_to_come_back_later_it_leaves_the_account_alone(
    workshop: Workshop, reconcilers: Reconcilers, doubt: Callable[..., int]
) -> None:
    doubt("receipt:1"), doubt("receipt:2")
    limited = Slow(Unanswered("rate limit", 600.0))
    limited.let.set()
    reconciler = reconcilers(limited, look_slots=1)
    pump_until(reconciler, lambda: looks(workshop))
    workshop.until("SELECT count(*) = 0 FROM nottwice.lookups WHERE token IS NOT NULL AND done_at IS NULL")
    assert reconciler.pump() == 0 and len(limited.asked) == 1
    assert workshop.rows("SELECT FROM nottwice.provider_pauses") == []


def test_a_paused_account_is_not_asked(
    workshop: Workshop, reconcilers: Reconcilers, doubt: Callable[..., int]
) -> None:
    doubt()
    workshop.database.run(lambda tx: answers.pause(tx, "post", "rate limit", pause_s=60))
    slow, reconciler = Slow(), None
    reconciler = reconcilers(slow)
    reconciler.pump()
    workshop.run("UPDATE nottwice.lookups SET due_at = now()")
    assert reconciler.pump() == 0 and slow.asked == []


def test_it_waits_at_the_end_for_what_is_under_way(
    workshop: Workshop, reconcilers: Reconcilers, doubt: Callable[..., int]
) -> None:
    doubt()
    slow = Slow()
    reconciler = reconcilers(slow)
    pump_until(reconciler, lambda: slow.asked)
    reconciler.stop()
    assert not reconciler.join(0.01)
    slow.let.set()
    assert reconciler.join(WITHIN_S) and len(looks(workshop)) == 1


def test_asked_to_stop_it_begins_nothing_new(
    workshop: Workshop, reconcilers: Reconcilers, doubt: Callable[..., int]
) -> None:
    doubt()
    slow = Slow()
    reconciler = reconcilers(slow)
    reconciler.stop()
    reconciler.pump()
    workshop.run("UPDATE nottwice.lookups SET due_at = now()")
    assert reconciler.pump() == 0


def test_the_daemon_looks_by_itself(workshop: Workshop, sandbox: Sandbox, doubt: Callable[..., int]) -> None:
    """A process of its own, from the doubt to the proof, with the question asked by nobody."""
    action = doubt()
    went_out(sandbox, workshop, action)
    more = PROVIDER.format(url=sandbox.url, timeout_s=5)
    process = workshop.start("", worker="look_waits_s = [0.01]", more=more)
    process.notes.wait_for("looked up", action_id=action, state="sent")
    assert state_of(workshop, action) == "sent" and len(sandbox.mails) == 1


@pytest.mark.parametrize(("then", "known"), [("sent", "was_sent"), ("failed", "was_not_sent")])
def test_mailera_is_asked_by_the_id_that_it_gave(
    workshop: Workshop,
    sandbox: Sandbox,
    reconcilers: Reconcilers,
    doubt: Callable[..., int],
    then: str,
    known: str,
) -> None:
    """Its answer was `unknown`, which is not `failed`: only what it says later tells. Whether to send is a person's."""
    mailera = Mailera("post", sandbox.url, "ml-key", MaileraSpelling())
    sandbox.faults({"provider": "mailera", "state": "unknown", "then": then})
    outcome = mailera.send(
        claimed(Email(("ada@example.com",), "Receipt", "Paid.", inbox="in-1"), key="k"), 20
    )
    assert isinstance(outcome, Unknown)
    action = doubt()
    workshop.run("UPDATE nottwice.action_attempts SET sent_as = :id", id=outcome.sent_as)
    verdict = "SELECT verdict FROM nottwice.actions"
    pump_until(reconcilers(mailera), lambda: workshop.value(verdict) == known)
    assert state_of(workshop, action) == ("sent" if then == "sent" else "needs_review")
    assert looks(workshop)[-1] == ("answered", f"Mailera calls this send {then}")
    assert len(sandbox.requests) == 1


def test_only_who_had_the_request_is_asked_about_it(
    workshop: Workshop, sandbox: Sandbox, reconcilers: Reconcilers, doubt: Callable[..., int]
) -> None:
    """The provider has another address since: what is not known there was not therefore never sent."""
    action = doubt()
    workshop.run("UPDATE nottwice.action_attempts SET place = 'agentmail https://before.example'")
    reconciler = reconcilers()
    pump_until(reconciler, lambda: looks(workshop))
    ((outcome, words),) = looks(workshop)
    assert outcome == "cannot_be_asked" and "another address" in words
    assert state_of(workshop, action) == "needs_review" and not sandbox.requests
