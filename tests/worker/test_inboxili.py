"""Inboxili: what it is sent, and that nothing but its word "sent" is an acceptance."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from ledger.records import Refused, Unknown
from tests.fix_sandbox import RawServer, Sandbox, Script
from tests.worker.calls import DEADLINE_S, GOOD, action, answer, outcome_at, provider_at, recorded


def test_inboxili_accepts_by_its_word_sent_alone(raw_server: Callable[[Script], RawServer]) -> None:
    server = raw_server(answer(json.dumps({"status": "failed", "message_id": "<a@b>"})))
    assert isinstance(outcome_at("inboxili", server.url), Unknown)


def test_other_users_of_urllib_keep_their_redirects(raw_server: Callable[[Script], RawServer]) -> None:
    elsewhere = raw_server(answer("here"))
    server = raw_server(answer("", "302 Moved", f"Location: {elsewhere.url}/x\r\n"))
    with urllib.request.urlopen(server.url, timeout=DEADLINE_S) as found:
        assert found.read() == b"here"


def test_inboxili_send_on_the_wire(raw_server: Callable[[Script], RawServer]) -> None:
    server = raw_server(answer(GOOD.decode()))
    provider_at("inboxili", server.url).send(action("inboxili"), DEADLINE_S)
    target, headers, body = recorded(server)
    assert target == "POST /api/v1/transactional/send HTTP/1.1"
    assert headers["authorization"] == "Bearer ix-key"
    assert headers["user-agent"] == "inboxili-python/0.1.0"
    assert body == {
        "to": "ana@example.com",
        "from_email": "shop@example.com",
        "from_name": "Shop",
        "subject": "Your receipt",
        "text_body": "Thank you <3\nBye",
        "html_body": "<p>Thank you &lt;3<br>\nBye</p>",
    }


@pytest.mark.parametrize(
    "more", [{"cc": ["c@example.com"]}, {"bcc": ["c@example.com"]}, {"to": ["a@b.c", "d@e.f"]}]
)
def test_inboxili_never_drops_a_recipient(sandbox: Sandbox, more: dict[str, Any]) -> None:
    outcome = provider_at("inboxili", sandbox.url).send(action("inboxili", **more), DEADLINE_S)
    assert isinstance(outcome, Refused)
    assert sandbox.requests == []
