"""What an AgentMail inbox lists, through its published package: pages, bounds, whole messages, and what is no answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ledger.simulated.examples import message_received
from tests.fix_sandbox import RawServer, Sandbox, Script
from tests.worker.test_agentmail_search import answering
from worker.providers.agentmail_listing import Mailbox, NotGiven, Page

INBOX = "support@acme.example"
DEADLINE_S = 40.0
START = datetime(2026, 11, 30, 6, tzinfo=UTC)
RawServers = Callable[[Script], RawServer]


def at(url: str, key: str = "am-key") -> Mailbox:
    return Mailbox("agentmail", url, key)


def arrive(sandbox: Sandbox, n: int = 0, inbox: str = INBOX, **changed: Any) -> str:
    """A message at START and n minutes; its id."""
    event = json.loads(message_received("Ana <ana@example.com>", f"Question {n}", "Why?", inbox))
    event["message"] |= {"timestamp": (START + timedelta(minutes=n)).isoformat()} | changed
    sandbox.incoming.arrive(event)
    return str(event["message"]["message_id"])


def page(box: Mailbox, token: str = "", *, after: datetime = START, before: datetime | None = None) -> Page:
    found = box.page(INBOX, after - timedelta(seconds=1), before, token, DEADLINE_S)
    assert isinstance(found, Page), found
    return found


def ids(found: Page) -> list[str]:
    return [one.message_id for one in found.mail]


def test_incoming_mail_is_listed_oldest_first_within_its_bounds(sandbox: Sandbox) -> None:
    three, one, two, early = (arrive(sandbox, n) for n in (3, 1, 2, -1))
    arrive(sandbox, 1, inbox="other@acme.example")
    box = at(sandbox.url)
    assert ids(page(box)) == [one, two, three]
    assert ids(page(box, before=START + timedelta(minutes=2))) == [one]
    assert ids(page(box, after=START - timedelta(hours=1))) == [early, one, two, three]


def test_what_we_sent_and_what_is_spam_is_no_incoming_mail(sandbox: Sandbox) -> None:
    mail = arrive(sandbox, 1)
    arrive(sandbox, 2, labels=["received", "spam"])
    sandbox.store.accept(
        "agentmail", "/x", None, "r", b"", {"recipients": ["x@example.com"], "sender": INBOX}
    )
    found = page(at(sandbox.url))
    assert (ids(found), len(found.others), found.unreadable) == ([mail], 2, ())


def test_pages_follow_each_other_to_the_end(sandbox: Sandbox) -> None:
    expected = [arrive(sandbox, n) for n in range(230)]
    box, token, seen, pages = at(sandbox.url), "", [], 0
    while pages == 0 or token:
        found = page(box, token)
        seen, token, pages = [*seen, *ids(found)], found.token, pages + 1
    assert seen == expected and pages == 3


def test_a_message_is_given_whole_with_its_bytes_as_they_were_written(sandbox: Sandbox) -> None:
    message_id = arrive(sandbox, 1, message_id="<a/b?c#d&../x@example.com>", text="Grüße 😀")
    found = at(sandbox.url).message(INBOX, message_id, DEADLINE_S)
    assert isinstance(found, bytes)
    message = json.loads(found)
    assert message["message_id"] == message_id and message["text"] == "Grüße 😀"


def test_a_message_is_not_read_and_written_anew(raw_server: RawServers) -> None:
    body = b'{ "message_id":"<1@x>",\n "text":"\\ud800", "odd":1e400, "timestamp":7}'
    assert at(raw_server(answering(body)).url).message(INBOX, "<1@x>", DEADLINE_S) == body


def test_a_message_that_is_not_there_any_more_is_none(sandbox: Sandbox) -> None:
    assert at(sandbox.url).message(INBOX, "<gone@example.com>", DEADLINE_S) is None


def refused(found: object) -> tuple[str, bool]:
    assert isinstance(found, NotGiven), found
    return found.why.reason, found.final


def test_what_will_not_change_is_final_and_the_rest_is_not(sandbox: Sandbox) -> None:
    reason, final = refused(at(sandbox.url, "wrong").page(INBOX, START, None, "", DEADLINE_S))
    assert final and "does not take our API key" in reason
    for fault, words in (
        ({"status": 503}, "503"),
        ({"status": 429, "retry_after": "7"}, "429"),
        ({"cut": True}, "lost"),
    ):
        sandbox.faults({"reads": True} | fault)
        found = at(sandbox.url).page(INBOX, START, None, "", DEADLINE_S)
        reason, final = refused(found)
        assert words in reason and not final
    sandbox.faults({"reads": True, "status": 429, "retry_after": "7"})
    found = at(sandbox.url).message(INBOX, "<x@example.com>", DEADLINE_S)
    assert isinstance(found, NotGiven) and found.why.retry_after_s == 7


def test_an_inbox_cannot_lead_elsewhere(sandbox: Sandbox) -> None:
    reason, final = refused(at(sandbox.url).page("..", START, None, "", DEADLINE_S))
    assert final and "no id" in reason


@pytest.mark.parametrize(
    "body", [b"", b"<html>busy</html>", b"[]", b'{"count": 1}', b'{"messages": null, "count": 0}'], ids=str
)
def test_what_is_no_list_is_no_answer(raw_server: RawServers, body: bytes) -> None:
    server = raw_server(answering(body))
    reason, _ = refused(at(server.url).page(INBOX, START, None, "", DEADLINE_S))
    assert "makes no sense" in reason


def test_an_item_without_an_id_or_a_time_is_counted(raw_server: RawServers) -> None:
    good = {"message_id": "<1@x>", "timestamp": "2026-11-30T06:00:00Z", "labels": ["received"], "inbox_id": 7}
    bad = [
        good | {"message_id": 5},
        good | {"timestamp": "yesterday"},
        {"labels": ["received"]},
        {"labels": None},
        {},
    ]
    server = raw_server(answering({"count": 6, "messages": [good, *bad], "next_page_token": 9}))
    found = page(at(server.url))
    assert [(m.inbox_id, m.message_id) for m in found.mail] == [(INBOX, "<1@x>")]
    assert (found.unreadable, found.others) == ((START, None, None), (None, None)) and found.token == ""


def test_another_message_than_the_one_asked_for_is_no_answer(raw_server: RawServers) -> None:
    server = raw_server(answering({"message_id": "<other@x>", "inbox_id": INBOX}))
    reason, _ = refused(at(server.url).message(INBOX, "<1@x>", DEADLINE_S))
    assert "makes no sense" in reason


def test_an_answer_that_does_not_end_is_given_up(raw_server: RawServers) -> None:
    server = raw_server(lambda connection: server.over.wait(30))
    reason, final = refused(at(server.url).page(INBOX, START, None, "", 0.3))
    assert "no whole answer within 0.3 s" in reason and not final
