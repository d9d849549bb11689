"""AgentMail: keys, replies, and what goes over the wire."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledger.records import Accepted, Email, InFlight, Refused, Unknown
from tests.fix_sandbox import RawServer, Sandbox, Script, claimed
from tests.worker.calls import DEADLINE_S, GOOD, action, answer, outcome_at, provider_at, recorded


def test_the_same_key_gives_the_first_answer(sandbox: Sandbox) -> None:
    first, again = (outcome_at("agentmail", sandbox.url) for _ in range(2))
    assert isinstance(first, Accepted)
    assert first == again
    assert len(sandbox.mails) == 1


def test_the_same_key_with_other_content_is_in_flight(sandbox: Sandbox) -> None:
    provider = provider_at("agentmail", sandbox.url)
    assert isinstance(provider.send(action("agentmail"), DEADLINE_S), Accepted)
    for change in ({"text": "another"}, {"sender": "other@example.com"}, {"in_reply_to": "<m@x>"}):
        outcome = provider.send(action("agentmail", **change), DEADLINE_S)
        assert isinstance(outcome, InFlight)
        assert outcome.code == "conflict"
    assert len(sandbox.mails) == 1


def test_snd_01_accepted_but_the_answer_is_lost(sandbox: Sandbox) -> None:
    sandbox.faults({"accept_then_silence": True})
    lost = outcome_at("agentmail", sandbox.url, 0.4)
    found = outcome_at("agentmail", sandbox.url)
    assert isinstance(lost, Unknown)
    assert isinstance(found, Accepted)
    (mail,) = sandbox.mails
    assert found.message_id == mail["message_id"]
    first, second = sandbox.requests
    assert first["body_digest"] == second["body_digest"]
    assert first["idempotency_key"] == second["idempotency_key"] == "key-1"


def test_agentmail_send_on_the_wire(raw_server: Callable[[Script], RawServer]) -> None:
    server = raw_server(answer(GOOD.decode()))
    email = Email(
        to=("ana@example.com",), subject="Hello", text="T", html="<p>T</p>", inbox="support@acme.example",
        cc=("c@example.com",), bcc=("b@example.com",), reply_to=("r@example.com",),
    )  # fmt: skip
    provider_at("agentmail", server.url).send(claimed(email, key="k-1"), DEADLINE_S)
    target, headers, body = recorded(server)
    assert target == "POST /v0/inboxes/support%40acme.example/messages/send HTTP/1.1"
    assert headers["idempotency-key"] == "k-1"
    assert headers["authorization"] == "Bearer am-key"
    assert headers["user-agent"] == "agentmail/2.0.18"
    assert body == {
        "to": ["ana@example.com"], "cc": ["c@example.com"], "bcc": ["b@example.com"], "reply_to": ["r@example.com"],
        "subject": "Hello", "text": "T", "html": "<p>T</p>", "labels": ["nt-0123456789abcdef"],
    }  # fmt: skip


def test_agentmail_reply_goes_to_the_named_recipients(raw_server: Callable[[Script], RawServer]) -> None:
    server = raw_server(answer(GOOD.decode()))
    email = Email(
        to=("ana@example.com",), subject="Re: Hello", text="T", inbox="s@acme.example", in_reply_to="<m@x>"
    )
    provider_at("agentmail", server.url).send(claimed(email, key="k-1"), DEADLINE_S)
    target, headers, body = recorded(server)
    assert target == "POST /v0/inboxes/s%40acme.example/messages/%3Cm%40x%3E/reply HTTP/1.1"
    assert headers["idempotency-key"] == "k-1"
    assert body == {"to": ["ana@example.com"], "text": "T", "labels": ["nt-0123456789abcdef"]}


CRAFTED = [
    "<a/../../send>",
    "../../../inboxes/evil@example.com/messages/send#",
    "m?x=1",
    "m#fragment",
    "m%2Fsend",
    "%2e%2e",
    "a\r\nX-Evil: 1",
    "...",
    "é 日本",
]


@pytest.mark.parametrize("crafted", CRAFTED)
@pytest.mark.parametrize("place", ["inbox", "in_reply_to"])
def test_a_crafted_id_stays_one_part_of_the_path(sandbox: Sandbox, place: str, crafted: str) -> None:
    ids = {"inbox": "support@acme.example", "in_reply_to": "<m@example.com>", place: crafted}
    email = Email(to=("ana@example.com",), subject="s", text="t", **ids)  # type: ignore[arg-type]
    outcome = provider_at("agentmail", sandbox.url).send(claimed(email, key="k"), DEADLINE_S)
    assert [r["path"].rpartition("/")[2] for r in sandbox.requests] == ["reply"]
    (mail,) = sandbox.mails
    assert (mail["sender"], mail["in_reply_to"]) == (ids["inbox"], ids["in_reply_to"])
    assert isinstance(outcome, Accepted)


@pytest.mark.parametrize("crafted", [".", ".."])
@pytest.mark.parametrize("place", ["inbox", "in_reply_to"])
def test_dots_are_no_id(sandbox: Sandbox, place: str, crafted: str) -> None:
    """Quoting leaves dots alone, and a client or proxy takes them out of a path."""
    outcome = provider_at("agentmail", sandbox.url).send(action("agentmail", **{place: crafted}), DEADLINE_S)
    assert isinstance(outcome, Refused)
    assert sandbox.requests == []
