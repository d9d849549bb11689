"""Look-ups at AgentMail through its published package: what is proof, what is a hint, and that nothing is ever sent."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from ledger.records import Answered, CannotBeAsked, Email, LookUp, PointsTo, Unanswered, canonical_json
from tests.fix_sandbox import RawServer, Sandbox, Script, claimed
from worker.providers.agentmail import AgentMail
from worker.providers.agentmail_search import HINTS_MAX, NOT_FOUND
from worker.providers.inboxili import Inboxili

DEADLINE_S = 40.0
MARK = "nt-0123456789abcdef"
ANA = Email(to=("Ana <ana@example.com>",), subject="Your receipt", text="Thanks", sender="shop@example.org")
RawServers = Callable[[Script], RawServer]


def lookup(email: Email = ANA, *, ago_s: float = 0.0) -> LookUp:
    at = datetime.now(UTC) - timedelta(seconds=ago_s)
    content = canonical_json(email.content())
    return LookUp(1, 1, uuid4(), "agentmail", "agentmail", MARK, content, at - timedelta(seconds=5), at)


def at(url: str, key: str = "am-key") -> AgentMail:
    return AgentMail("agentmail", url, key)


def sent(sandbox: Sandbox, email: Email = ANA, reference: str = MARK) -> str:
    """As the sender sends it; the message's id, read where a person would."""
    at(sandbox.url).send(claimed(email, key=uuid4().hex, reference=reference), DEADLINE_S)
    return str(sandbox.mails[-1]["message_id"])


def by_hand(sandbox: Sandbox, email: Email = ANA) -> str:
    """Somebody writes from the same inbox, without our mark."""
    body = {"to": list(email.to), "subject": email.subject, "text": "By hand"}
    answer = sandbox.http.post(
        f"/v0/inboxes/{email.sender}/messages/send", json=body, headers={"Authorization": "Bearer am-key"}
    )
    return str(answer.json()["message_id"])


def seen(sandbox: Sandbox, asked: LookUp | None = None) -> Answered:
    looked = at(sandbox.url).look_up(asked or lookup(), DEADLINE_S)
    assert isinstance(looked, Answered), looked
    return looked


# ── Against the sandbox ───────────────────────────────────────────────────────────────────────────────


def test_our_mark_is_proof_and_names_the_message(sandbox: Sandbox) -> None:
    sandbox.faults({"accept": True, "cut": True})
    at(sandbox.url).send(claimed(ANA, key="k", reference=MARK), DEADLINE_S)
    (mail,) = sandbox.mails
    (one,) = seen(sandbox).sightings
    assert (one.proof, one.points_to, one.message_id) == (True, PointsTo.SENT, mail["message_id"])
    assert len(sandbox.requests) == 1 and len(sandbox.mails) == 1


def test_two_messages_with_our_mark_are_both_named(sandbox: Sandbox) -> None:
    ids = {sent(sandbox), sent(sandbox)}
    assert {one.message_id for one in seen(sandbox).sightings if one.proof} == ids


def test_an_empty_inbox_proves_nothing(sandbox: Sandbox) -> None:
    assert seen(sandbox) == Answered((), NOT_FOUND)


def test_a_message_to_the_same_recipient_near_in_time_is_a_hint(sandbox: Sandbox) -> None:
    message_id = by_hand(sandbox)
    (one,) = seen(sandbox).sightings
    assert (one.proof, one.points_to, one.message_id) == (False, PointsTo.SENT, message_id)
    assert "the same subject" in one.found and "without our mark" in one.found


def test_the_same_hint_is_told_in_the_same_words(sandbox: Sandbox) -> None:
    by_hand(sandbox)
    assert seen(sandbox) == seen(sandbox)


@pytest.mark.parametrize(
    "other",
    [
        replace(ANA, to=("bo@example.com",)),
        replace(ANA, sender="other@example.org"),
    ],
    ids=["another recipient", "another inbox"],
)
def test_what_is_elsewhere_is_no_hint(sandbox: Sandbox, other: Email) -> None:
    by_hand(sandbox, other)
    assert seen(sandbox).sightings == ()


def test_what_is_far_in_time_is_no_hint_but_our_mark_is_found_at_any_time(sandbox: Sandbox) -> None:
    by_hand(sandbox)
    assert seen(sandbox, lookup(ago_s=3600)).sightings == ()
    sent(sandbox)
    assert seen(sandbox, lookup(ago_s=3600)).sightings[0].proof


def test_another_send_of_ours_is_no_hint(sandbox: Sandbox) -> None:
    sent(sandbox, reference="nt-fedcba9876543210")
    assert seen(sandbox).sightings == ()


def test_a_reply_is_looked_up_in_its_inbox(sandbox: Sandbox) -> None:
    reply = replace(ANA, inbox="help@example.org", in_reply_to="<q/1?#@example.com>")
    message_id = sent(sandbox, reply)
    assert seen(sandbox, lookup(reply)).sightings[0].message_id == message_id


def test_a_busy_inbox_is_read_page_by_page_and_only_the_nearest_are_told(sandbox: Sandbox) -> None:
    for _ in range(HINTS_MAX + 2):
        by_hand(sandbox)
    for _ in range(120):
        sandbox.store.accept(
            "agentmail", "/x", None, "r", b"", {"recipients": ["x@example.com"], "sender": ANA.sender}
        )
    last = by_hand(sandbox)
    ids = [one.message_id for one in seen(sandbox, lookup(ago_s=-60)).sightings]
    assert len(ids) == HINTS_MAX and ids[0] == last


def test_a_wrong_key_is_no_answer(sandbox: Sandbox) -> None:
    looked = at(sandbox.url, "wrong").look_up(lookup(), DEADLINE_S)
    assert isinstance(looked, Unanswered) and "does not take our API key" in looked.reason


def test_inboxili_says_that_it_cannot_be_asked(sandbox: Sandbox) -> None:
    looked = Inboxili("inboxili", sandbox.url, "ix-key").look_up(lookup(), DEADLINE_S)
    assert isinstance(looked, CannotBeAsked) and "cannot be asked" in looked.reason


# ── Against anything else ─────────────────────────────────────────────────────────────────────────────


def answering(body: Any, status: int = 200, headers: str = "") -> Script:
    """Every request gets this answer; whatever else one asks for."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    def script(connection: socket.socket) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(raw)}\r\nConnection: close\r\n{headers}\r\n"
        connection.sendall(head.encode() + raw)

    return script


def listing(**members: Any) -> dict[str, Any]:
    stamp = datetime.now(UTC).isoformat()
    message = {
        "inbox_id": "shop@example.org",
        "thread_id": "t",
        "message_id": "<m@x>",
        "labels": [MARK, "sent"],
    }
    message |= {"timestamp": stamp, "from": "shop@example.org", "to": ["ana@example.com"], "size": 1}
    return {"count": 1, "messages": [message | {"updated_at": stamp, "created_at": stamp} | members]}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, (PointsTo.SENT, True)),
        ({"labels": [MARK.upper(), "delivered"]}, (PointsTo.SENT, True)),
        ({"labels": [MARK, "rejected"]}, (PointsTo.NOT_SENT, False)),
        ({"labels": [MARK, "received"]}, None),
        ({"labels": ["sent"]}, (PointsTo.SENT, False)),
        ({"labels": "sent"}, (PointsTo.SENT, False)),
        ({"labels": None, "to": "ana@example.com"}, None),
        ({"labels": ["sent"], "timestamp": "nonsense"}, None),
        ({"message_id": 7}, None),
        ({"message_id": "  "}, None),
        ({"message_id": "a\r\nb"}, None),
        ({"to": [7, None, "<<x"], "labels": []}, None),
    ],
    ids=str,
)
def test_what_a_listed_message_is_worth(
    raw_server: RawServers, members: dict[str, Any], expected: tuple[PointsTo, bool] | None
) -> None:
    """A filter is believed only as far as the message itself says the same."""
    looked = at(raw_server(answering(listing(**members))).url).look_up(lookup(), DEADLINE_S)
    assert isinstance(looked, Answered)
    assert [(one.points_to, one.proof) for one in looked.sightings[:1]] == ([expected] if expected else [])


@pytest.mark.parametrize(
    "body",
    [b"", b"<h1>hello</h1>", [], {}, {"messages": None}, {"messages": ["x"]}, "x", {"messages": 7}],
    ids=str,
)
def test_an_answer_without_sense_is_none(raw_server: RawServers, body: Any) -> None:
    looked = at(raw_server(answering(body)).url).look_up(lookup(), DEADLINE_S)
    assert isinstance(looked, Unanswered), looked


@pytest.mark.parametrize("status", [301, 302, 400, 401, 403, 404, 408, 409, 429, 500, 503])
def test_an_error_is_no_answer_and_is_asked_once(raw_server: RawServers, status: int) -> None:
    server = raw_server(
        answering(
            {"message": "no\r\n way", "code": "x"}, status, "Location: /v0/elsewhere\r\nRetry-After: 7\r\n"
        )
    )
    looked = at(server.url).look_up(lookup(), DEADLINE_S)
    assert isinstance(looked, Unanswered) and "\n" not in looked.reason
    assert len(server.requests) == 1
    assert looked.retry_after_s == 7.0


def test_nobody_there(raw_server: RawServers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    looked = at(url).look_up(lookup(), DEADLINE_S)
    assert isinstance(looked, Unanswered) and "could not be reached" in looked.reason


def test_a_dripping_answer_ends_at_the_deadline(raw_server: RawServers) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.02)

    began = time.monotonic()
    looked = at(raw_server(drip).url).look_up(lookup(), 0.3)
    assert isinstance(looked, Unanswered)
    assert time.monotonic() - began < 6


def test_pages_without_end_end(raw_server: RawServers) -> None:
    server = raw_server(answering({"count": 0, "messages": [], "next_page_token": "again"}))
    assert at(server.url).look_up(lookup(), DEADLINE_S) == Answered((), NOT_FOUND)
    assert 2 < len(server.requests) < 20


def test_only_lists_are_asked_for_and_ids_stay_in_their_place(raw_server: RawServers) -> None:
    server = raw_server(answering({"count": 0, "messages": []}))
    at(server.url).look_up(lookup(replace(ANA, inbox="../a?b#c/messages/send")), DEADLINE_S)
    lines = [request.split(b"\r\n")[0] for request in server.requests]
    assert len(lines) == 2
    assert all(
        line.startswith(b"GET /v0/inboxes/..%2Fa%3Fb%23c%2Fmessages%2Fsend/messages?") for line in lines
    )


def test_a_content_that_cannot_have_been_sent_is_not_asked_about() -> None:
    looked = at("http://127.0.0.1:9").look_up(replace(lookup(), content=b"[]"), DEADLINE_S)
    assert isinstance(looked, Unanswered)
