"""Mailera: what its article says, what is assumed and can be said otherwise, and what a look-up proves."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from ledger.records import (
    Accepted,
    Answered,
    Email,
    InFlight,
    Looked,
    LookUp,
    PointsTo,
    Refused,
    Sighting,
    Unanswered,
    Unknown,
    canonical_json,
)
from ledger.settings.mailera import MaileraSpelling
from tests.fix_sandbox import RawServer, Sandbox, Script, claimed, until
from tests.worker.calls import (
    BROKEN,
    DEADLINE_S,
    GOOD,
    RECEIPT,
    action,
    answer,
    outcome_at,
    provider_at,
    recorded,
)
from worker.providers.mailera import Mailera

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def lookup(sent_as: str | None = "snd_1", key: str | None = "key-1") -> LookUp:
    content = canonical_json(RECEIPT.content())
    return LookUp(1, 1, uuid4(), "mailera", "mailera", "nt-1", content, NOW, NOW, key, sent_as)


def looked_at(url: str, sent_as: str | None = "snd_1") -> Looked:
    return provider_at("mailera", url).look_up(lookup(sent_as), DEADLINE_S)


# ── Sending ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_send_on_the_wire(raw_server: Callable[[Script], RawServer]) -> None:
    server = raw_server(answer(GOOD.decode()))
    email = Email(
        to=("ana@example.com",), subject="Hello", text="T", html="<p>T</p>", inbox="support@acme.example",
        sender="Acme <support@acme.example>", cc=("c@example.com",), bcc=("b@example.com",), in_reply_to="<m@x>",
        reply_to=("r@example.com",),
    )  # fmt: skip
    provider_at("mailera", server.url).send(claimed(email, key="k-1"), DEADLINE_S)
    target, headers, body = recorded(server)
    assert target == "POST /mailboxes/support%40acme.example/send HTTP/1.1"
    assert (headers["idempotency-key"], headers["authorization"]) == ("k-1", "Bearer ml-key")
    assert body == {
        "from": "Acme <support@acme.example>", "to": ["ana@example.com"], "cc": ["c@example.com"],
        "bcc": ["b@example.com"], "reply_to": ["r@example.com"], "subject": "Hello", "text": "T", "html": "<p>T</p>",
        "in_reply_to": "<m@x>", "metadata": {"reference": "nt-0123456789abcdef"},
    }  # fmt: skip


def test_another_spelling_is_a_matter_of_configuration(raw_server: Callable[[Script], RawServer]) -> None:
    server = raw_server(answer('{"send": {"ref": "s-7", "state": "queued"}, "mail": "<a@b>"}'))
    spelling = MaileraSpelling(
        auth_header="X-Api-Key", auth_prefix="", to_path="message.recipients", subject_path="message.title",
        text_path="message.body.plain", sender_path="", reference_path="tags.ours", send_id_path="send.ref",
        status_path="send.state", message_id_path="mail",
    )  # fmt: skip
    outcome = Mailera("m", server.url, "secret", spelling).send(action("mailera"), DEADLINE_S)
    _, headers, body = recorded(server)
    assert headers["x-api-key"] == "secret" and "authorization" not in headers
    assert body == {
        "message": {
            "recipients": ["ana@example.com"],
            "title": "Your receipt",
            "body": {"plain": RECEIPT.text},
        },
        "tags": {"ours": "nt-0123456789abcdef"},
    }
    assert outcome == Accepted("<a@b>")


@pytest.mark.parametrize("member", ["cc", "bcc", "reply_to", "text"])
def test_what_its_api_has_no_place_for_is_never_dropped(sandbox: Sandbox, member: str) -> None:
    spelling = MaileraSpelling(**{f"{member}_path": ""})  # type: ignore[arg-type]
    given = {member: ["c@example.com"]} if member != "text" else {}
    outcome = Mailera("m", sandbox.url, "ml-key", spelling).send(action("mailera", **given), DEADLINE_S)
    assert isinstance(outcome, Refused) and member in outcome.reason
    assert sandbox.requests == []


WORDS: dict[str, type] = {
    "queued": Accepted,
    "sending": Accepted,
    "sent": Accepted,
    "failed": Refused,
    "unknown": Unknown,
    "flying": Unknown,
}


@pytest.mark.parametrize("word", WORDS)
def test_each_word_that_a_send_may_be_answered_with(
    raw_server: Callable[[Script], RawServer], word: str
) -> None:
    server = raw_server(answer(json.dumps({"id": "snd_1", "status": word})))
    outcome = outcome_at("mailera", server.url)
    assert type(outcome) is WORDS[word]
    if isinstance(outcome, Unknown):
        assert outcome.sent_as == "snd_1"  # by which it can be asked


def test_a_send_may_be_answered_without_a_status(raw_server: Callable[[Script], RawServer]) -> None:
    assert outcome_at("mailera", raw_server(answer('{"id": "snd_1"}')).url) == Accepted("snd_1")


@pytest.mark.parametrize("status", [1, None, ["sent"], {"is": "sent"}, True])
def test_a_status_of_another_type_is_unknown_unless_it_is_absent(
    raw_server: Callable[[Script], RawServer], status: Any
) -> None:
    server = raw_server(answer(json.dumps({"id": "snd_1", "status": status})))
    assert type(outcome_at("mailera", server.url)) is (Accepted if status is None else Unknown)


CRAFTED = ["a/../../sends", "m?x=1", "m#fragment", "m%2Fsend", "%2e%2e", "a\r\nX-Evil: 1", "...", "é 日本"]


@pytest.mark.parametrize("crafted", CRAFTED)
def test_a_crafted_mailbox_stays_one_part_of_the_path(sandbox: Sandbox, crafted: str) -> None:
    outcome = provider_at("mailera", sandbox.url).send(action("mailera", inbox=crafted), DEADLINE_S)
    (mail,) = sandbox.mails
    assert isinstance(outcome, Accepted)
    assert (mail["sender"], mail["path"].count("/")) == (crafted, 3)


@pytest.mark.parametrize("crafted", [".", ".."])
def test_dots_are_no_id(sandbox: Sandbox, crafted: str) -> None:
    sent = provider_at("mailera", sandbox.url).send(action("mailera", inbox=crafted), DEADLINE_S)
    assert isinstance(sent, Refused)
    assert isinstance(looked_at(sandbox.url, crafted), Unanswered)
    assert sandbox.requests == []


# ── Keys ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_key_gives_the_first_send(sandbox: Sandbox) -> None:
    sandbox.faults({"accept_then_silence": True})
    lost = outcome_at("mailera", sandbox.url, 0.4)
    first, again = (outcome_at("mailera", sandbox.url) for _ in range(2))
    assert isinstance(lost, Unknown)
    assert isinstance(first, Accepted) and first == again
    assert len(sandbox.mails) == 1
    assert len({(r["idempotency_key"], r["body_digest"]) for r in sandbox.requests}) == 1


def test_the_same_key_with_other_content_is_told_from_one_under_way(sandbox: Sandbox) -> None:
    provider = provider_at("mailera", sandbox.url)
    assert isinstance(provider.send(action("mailera"), DEADLINE_S), Accepted)
    other = provider.send(action("mailera", text="another"), DEADLINE_S)
    assert isinstance(other, InFlight) and other.code == "key_reused" and "another request" in other.reason
    sandbox.store.keys["key-1"].done_at = sandbox.store.keys["key-1"].answer = None
    busy = provider.send(action("mailera"), DEADLINE_S)
    assert isinstance(busy, InFlight) and busy.code == "key_in_use" and "under way" in busy.reason
    assert len(sandbox.mails) == 1


# ── Looking up ────────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_send_is_asked_about_until_it_is_over(sandbox: Sandbox) -> None:
    sandbox.faults({"provider": "mailera", "state": "unknown", "then": "sent"})
    outcome = outcome_at("mailera", sandbox.url)
    assert isinstance(outcome, Unknown) and outcome.sent_as
    looked = until(lambda: _settled(looked_at(sandbox.url, outcome.sent_as)), 10)
    found = "Mailera calls this send sent"
    assert looked == Answered((Sighting(found, PointsTo.SENT, True, outcome.sent_as),), found)
    assert len(sandbox.mails) == 1


def test_a_send_that_failed_after_all_is_proof_that_nothing_went_out(sandbox: Sandbox) -> None:
    sandbox.faults({"provider": "mailera", "state": "unknown", "then": "failed"})
    outcome = outcome_at("mailera", sandbox.url)
    assert isinstance(outcome, Unknown)
    looked = until(lambda: _settled(looked_at(sandbox.url, outcome.sent_as)), 10)
    assert [(s.points_to, s.proof) for s in looked.sightings] == [(PointsTo.NOT_SENT, True)]
    assert isinstance(outcome_at("mailera", sandbox.url), Refused)  # the key remembers it
    assert sandbox.mails == []


def _settled(looked: Looked) -> Answered | None:
    return looked if isinstance(looked, Answered) and looked.sightings else None


@pytest.mark.parametrize("word", ["queued", "sending", "unknown"])
def test_what_is_not_over_is_looked_up_again(raw_server: Callable[[Script], RawServer], word: str) -> None:
    server = raw_server(answer(json.dumps({"id": "snd_1", "status": word})))
    assert looked_at(server.url) == Answered((), f"Mailera calls this send {word}")


def test_the_usual_send_goes_from_queued_to_sent(sandbox: Sandbox) -> None:
    accepted = outcome_at("mailera", sandbox.url)
    assert isinstance(accepted, Accepted)
    words = set[str]()
    until(lambda: words.add(_word(sandbox, accepted.message_id)) or "sent" in words, 20)
    assert words <= {"queued", "sending", "sent"}


def _word(sandbox: Sandbox, send: str) -> str:
    found = sandbox.http.get(f"/sends/{send}", headers={"Authorization": "Bearer ml-key"})
    return str(found.json()["status"])


def test_not_found_is_never_not_sent(sandbox: Sandbox) -> None:
    looked = looked_at(sandbox.url, "snd_of_nobody")
    assert isinstance(looked, Answered) and looked.sightings == ()
    assert "not found does not mean not sent" in looked.words


NOTHING_SEEN = {
    "empty": answer(""),
    "html": answer("<h1>sent</h1>"),
    "a list": answer('["sent"]'),
    "another word": answer('{"status": "delivered"}'),
    "another send": answer('{"id": "snd_2", "status": "sent"}'),
    "another type": answer('{"id": "snd_1", "status": ["sent"]}'),
    "no API": answer("<h1>404</h1>", "404 Not Found"),
    "redirect": answer(GOOD.decode(), "302 Found", "Location: /sends/snd_1\r\n"),
    "no rights": answer('{"error": {"code": "missing_scope", "message": "read"}}', "403 Forbidden"),
    **BROKEN,
}


@pytest.mark.parametrize("case", NOTHING_SEEN)
def test_an_answer_that_says_nothing_settles_nothing(
    raw_server: Callable[[Script], RawServer], case: str
) -> None:
    server = raw_server(NOTHING_SEEN[case])
    assert isinstance(looked_at(server.url), Unanswered)
    assert len(server.requests) == 1


def test_a_rate_limit_is_respected_and_not_slept(sandbox: Sandbox) -> None:
    sandbox.faults({"provider": "mailera", "reads": True, "status": 429, "retry_after": "7"})
    looked = looked_at(sandbox.url)
    assert isinstance(looked, Unanswered) and looked.retry_after_s == 7


def test_without_an_id_nothing_is_asked(sandbox: Sandbox) -> None:
    looked = looked_at(sandbox.url, None)
    assert isinstance(looked, Unanswered) and "same key" in looked.reason


def test_it_may_be_asked_by_the_key_where_that_is_known_to_work(
    raw_server: Callable[[Script], RawServer],
) -> None:
    server = raw_server(answer('{"id": "snd_9", "status": "sent"}'))
    mailera = Mailera("m", server.url, "k", MaileraSpelling(look_up_by="key"))
    looked = mailera.look_up(lookup(None, "key-1"), DEADLINE_S)
    assert server.requests[0].startswith(b"GET /sends/key-1 ")
    assert isinstance(looked, Answered) and looked.sightings[0].message_id == "snd_9"
