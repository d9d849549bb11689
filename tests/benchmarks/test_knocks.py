"""What the receiver is knocked with is what AgentMail would send."""

from __future__ import annotations

import json

from svix.webhooks import Webhook

from tests.benchmarks.knocks import SECRET_TEXT, delivery


def test_a_delivery_is_signed_as_the_published_library_verifies_it() -> None:
    head, body = delivery("evt_1", 2).split(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    Webhook(SECRET_TEXT).verify(body, headers)
    assert json.loads(body)["event_id"] == "evt_1" and headers["svix-id"] == "msg_evt_1_2"
    assert int(headers["Content-Length"]) == len(body)
