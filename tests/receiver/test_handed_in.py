"""What an operator hands in is the event that the webhook would have been: same key, same content, same quarantine."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ledger import inbox
from ledger.catch_up.talk import Question
from ledger.database import Database
from ledger.errors import Misconfigured
from ledger.payload import Malformed
from ledger.receiver import handed_in
from ledger.receiver.catch_up import Entrance
from ledger.receiver.sources import adapters, kinds
from ledger.receiver.sources.adapter import Adapter, Item
from ledger.records import AcceptanceKind, Delivery, Unusable
from ledger.settings import Settings, SourceSettings, load
from ledger.simulated import simulate, speaker
from ledger.simulated.examples import message_received
from tests import fix_sources
from tests.fix_receiver import CONFIG, SECRETS, SHOP_SECRET
from tests.fix_worker import WRITER

MAX = 1_000_000


@pytest.fixture
def settings(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "nottwice.toml").write_text(CONFIG)
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    return load()


@pytest.fixture
def sources(settings: Settings) -> dict[str, Adapter]:
    return adapters(settings)


def posted(settings: Settings, adapter: Adapter, body: bytes) -> Item:
    """As the front door reads it."""
    headers = simulate.signed(settings, adapter.name, body, "msg_1")
    lower = {name.lower(): value for name, value in headers.items()} | {"content-type": "application/json"}
    (item,) = adapter.read(lower, body, datetime.now(UTC))
    return item


def handed(adapter: Adapter, body: bytes, form: str = "body") -> Item:
    (item,) = handed_in.read(adapter, form, body, MAX)
    return item


def test_a_line_is_the_event_that_was_posted(settings: Settings, sources: dict[str, Adapter]) -> None:
    for name, body in (
        ("shop", b'{"id": "evt_1", "type": "invoice.paid", "at": 1700000000}'),
        ("mail", message_received("ana@example.com", "Hello", "World")),
    ):
        one, other = posted(settings, sources[name], body), handed(sources[name], body)
        assert isinstance(one, Delivery) and isinstance(other, Delivery)
        assert other.delivery_id == "catch-up", "an event's story tells how this delivery came"
        assert replace(other, delivery_id=one.delivery_id) == one


def test_what_the_front_door_quarantines_is_quarantined(
    settings: Settings, sources: dict[str, Adapter]
) -> None:
    for body in (b'{"type": "invoice.paid"}', b'"text"', b'{"id": null, "type": "t"}'):
        assert handed(sources["shop"], body) == posted(settings, sources["shop"], body)


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"\xff",
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        b"[" * 100,
        b"\xef\xbb\xbf{}",
        b"x" * (MAX + 1),
    ],
)
def test_what_is_no_document_is_unreadable_and_nothing_else(sources: dict[str, Adapter], line: bytes) -> None:
    for form in ("body", "envelope", "message", "listing"):
        with pytest.raises(Malformed):
            handed_in.read(sources["mail"], form, line, MAX)


def test_an_envelope_brings_the_headers_that_name_the_event(
    settings: Settings, sources: dict[str, Adapter]
) -> None:
    body = '{"say": "héllo"}'
    text = {"headers": {"X-Event": "e-1", "X-Delivery": "d-1"}, "body": body}
    coded = {
        "headers": {"x-event": "e-1", "x-delivery": "d-1"},
        "body_base64": base64.b64encode(body.encode()).decode(),
    }
    one, other = (handed(sources["plain"], json.dumps(each).encode(), "envelope") for each in (text, coded))
    assert one == other and isinstance(one, Delivery)
    assert (one.delivery_id, one.body, one.event_key) == ("d-1", body.encode(), "note e-1")
    assert isinstance(handed(sources["plain"], b'{"body": "{}"}', "envelope"), Unusable)


def test_a_form_in_an_envelope_is_read_as_a_form() -> None:
    """GitHub names its event in headers, and signs a form as well as JSON."""
    hub = kinds()["github"](
        "hub", SourceSettings(kind="github", namespace="acme", secrets=("S",)), [SHOP_SECRET]
    )
    headers = {"X-GitHub-Delivery": "72d3162e", "X-GitHub-Event": "push"}
    form = headers | {"Content-Type": "application/x-www-form-urlencoded"}
    line = json.dumps({"headers": form, "body": "payload=%7B%22action%22%3A%22made%22%7D"})
    json_line = json.dumps({"headers": headers, "body": '{"action": "made"}'})
    one, other = (handed(hub, text.encode(), "envelope") for text in (line, json_line))
    assert isinstance(one, Delivery) and isinstance(other, Delivery)
    assert (one.key_digest, one.type) == (other.key_digest, "push.made")


@pytest.mark.parametrize(
    "envelope",
    [
        [],
        {},
        {"body": 1},
        {"headers": 1, "body": "{}"},
        {"body": "{}", "body_base64": "e30="},
        {"body_base64": "?"},
    ],
)
def test_what_is_no_envelope_is_unreadable(sources: dict[str, Adapter], envelope: Any) -> None:
    with pytest.raises(Malformed, match="envelope"):
        handed_in.read(sources["plain"], "envelope", json.dumps(envelope).encode(), MAX)


def test_a_file_of_bodies_is_refused_for_every_kind_whose_headers_name_the_event(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a body alone would send to quarantine line by line; with its headers it is an event."""
    (tmp_path / "nottwice.toml").write_text(fix_sources.CONFIG)
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    settings = load()
    for name, adapter in adapters(settings).items():
        body = speaker(adapter.settings).example(adapter.settings, fix_sources.secret(adapter.kind), 1)
        headers = dict(simulate.signed(settings, name, body, "msg_1"))
        line = json.dumps({"headers": headers, "body": body.decode()}).encode()
        handed_in.require_form(adapter, "envelope")
        assert isinstance(handed(adapter, line, "envelope"), Delivery), name
        if isinstance(handed(adapter, body), Delivery):
            handed_in.require_form(adapter, "body")
            continue
        with pytest.raises(Misconfigured, match="say --envelopes") as refused:
            handed_in.require_form(adapter, "body")
        lower = {header.lower() for header in headers}
        assert lower.issuperset(map(str.lower, adapter.named_by_headers)), (name, str(refused.value))


@pytest.mark.parametrize("header", ["key_header", "type_header", "subscription_header"])
def test_a_header_that_is_a_part_of_the_key_cannot_be_missing_from_a_file(header: str) -> None:
    options: dict[str, Any] = {"key_path": "id", "type_path": "type", header: "X-Names-It"}
    options.pop(header.replace("header", "path"), None)
    shop = SourceSettings(kind="generic", namespace="a", secrets=("S",), signature_header="X-Sig", **options)
    with pytest.raises(Misconfigured, match="X-Names-It"):
        handed_in.require_form(kinds()["generic"]("shop", shop, [SHOP_SECRET]), "body")


# ── What an API lists ─────────────────────────────────────────────────────────────────────────────────


def message_of(webhook: bytes, **changed: Any) -> bytes:
    return json.dumps(json.loads(webhook)["message"] | changed).encode()


def test_a_listed_message_meets_its_webhook_whichever_comes_first(
    database: Database, settings: Settings, sources: dict[str, Adapter]
) -> None:
    """Other bytes, other labels, no event id: a duplicate, and no conflict, in either order and again and again."""
    for webhook_first in (True, False):
        webhook = message_received("ana@example.com", "Hello", "World")
        read, unread = (
            message_of(webhook, labels=["received"]),
            message_of(webhook, updated_at="2026-11-30T09:00Z"),
        )
        one, *others = (
            posted(settings, sources["mail"], webhook),
            handed(sources["mail"], read, "message"),
            handed(sources["mail"], unread, "message"),
        )
        items = [one, *others] if webhook_first else [*others, one]
        kinds = [database.run(lambda tx: inbox.accept(tx, [item], writer=WRITER))[0].kind for item in items]  # noqa: B023
        assert kinds == [AcceptanceKind.ACCEPTED, AcceptanceKind.DUPLICATE, AcceptanceKind.DUPLICATE]
    assert database.run(lambda tx: tx.one("SELECT count(*) FROM nottwice.conflicts"))[0] == 0


def test_a_listed_message_is_an_event_of_the_same_shape(sources: dict[str, Adapter]) -> None:
    webhook = message_received("ana@example.com", "Grüße", "World")
    event = handed(sources["mail"], json.dumps(json.loads(webhook)["message"], indent=1).encode(), "message")
    assert isinstance(event, Delivery)
    expected = json.loads(webhook)
    del expected["event_id"]
    assert json.loads(event.body) == expected and event.type == "message.received"


@pytest.mark.parametrize("missing", ["inbox_id", "message_id"])
def test_a_listed_message_without_an_id_is_quarantined(sources: dict[str, Adapter], missing: str) -> None:
    message = message_of(message_received("ana@example.com", "Hello", "World"), **{missing: None})
    item = handed(sources["mail"], message, "message")
    assert isinstance(item, Unusable) and missing in item.reason


def test_only_agentmail_lists_messages(sources: dict[str, Adapter]) -> None:
    handed_in.require_form(sources["mail"], "listing")
    with pytest.raises(Misconfigured, match="no source of AgentMail.*--file FILE"):
        handed_in.require_form(sources["shop"], "listing")
    with pytest.raises(Misconfigured, match="no source of AgentMail"):
        handed_in.read(sources["shop"], "listing", b"{}", MAX)


# ── The entrance ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def entrance(settings: Settings, login_url: Callable[[str], str]) -> Iterator[Entrance]:
    """Under the receiver's own login, and no other's rights."""
    own = Database(login_url("nottwice_receiver"), pool_size=1)
    yield Entrance(settings, own)
    own.close()


def asked(entrance: Entrance, what: str, *bodies: bytes, **facts: Any) -> dict[str, Any]:
    question: Question = {"ask": what, "form": "body", "beyond": False} | facts
    return entrance.answer(question, list(bodies))


def became(answer: dict[str, Any]) -> list[str]:
    return [one["became"] for one in answer["found"]]


def line(key: str, at: str = "2099-01-01T00:00Z", **members: Any) -> bytes:
    return json.dumps({"id": key, "type": "paid", "at": at, **members}).encode()


BEGIN: dict[str, Any] = {"source": "shop", "read_from": "file x", "same": ["x"], "afresh": False, "go": True}
OLD = "2020-01-01T00:00Z"


def test_the_entrance_says_what_would_become_of_each_and_then_what_became(entrance: Entrance) -> None:
    asked(entrance, "begin", **BEGIN)
    asked(entrance, "store", line("a"))
    lines = line("a"), line("b"), line("a", x=1), b"?", b"{}", line("b")
    assert became(asked(entrance, "look", *lines)) == [
        "known",
        "new",
        "conflict",
        "unreadable",
        "quarantined",
        "new",
    ]
    stored = ["duplicate", "accepted", "conflict", "unreadable", "quarantined", "duplicate"]
    assert became(asked(entrance, "store", *lines)) == stored


def test_a_form_that_cannot_be_is_refused_before_anything_is_begun(
    entrance: Entrance, database: Database
) -> None:
    for form, source in (("body", "plain"), ("listing", "shop")):
        with pytest.raises(Misconfigured):
            asked(entrance, "begin", **BEGIN | {"source": source, "form": form})
    assert database.run(lambda tx: tx.one("SELECT count(*) FROM nottwice.catch_ups"))[0] == 0


def test_what_is_older_than_keys_are_kept_is_withheld_unless_it_is_known(entrance: Entrance) -> None:
    asked(entrance, "begin", **BEGIN)
    assert became(asked(entrance, "store", line("a", OLD), beyond=True)) == ["accepted"]
    looked = asked(entrance, "look", line("a", OLD), line("b", OLD))["found"]
    assert [(one["became"], one["old"]) for one in looked] == [("known", True), ("new", True)]
    assert became(asked(entrance, "store", line("a", OLD), line("b", OLD))) == ["duplicate", "withheld"]
    assert became(asked(entrance, "store", line("b", OLD), beyond=True)) == ["accepted"]


def test_the_same_command_finds_its_place_again_until_it_came_to_its_end(entrance: Entrance) -> None:
    assert asked(entrance, "begin", **BEGIN)["run"]["position"] is None
    asked(entrance, "save", position={"line": 7}, counts={"accepted": 5})
    again = asked(entrance, "begin", **BEGIN)["run"]
    assert (again["position"], again["counts"]) == ({"line": 7}, {"accepted": 5})
    assert asked(entrance, "begin", **BEGIN | {"same": ["y"]})["run"]["position"] is None
    assert asked(entrance, "begin", **BEGIN | {"afresh": True})["run"]["position"] is None
    asked(entrance, "save", position={"line": 8}, counts={})
    asked(entrance, "end")
    assert asked(entrance, "begin", **BEGIN)["run"]["position"] is None


def test_what_the_database_cannot_hold_goes_to_quarantine_alone(
    entrance: Entrance, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A constraint that no check of ours foresaw: its neighbours are stored."""
    database.run(lambda tx: tx.execute("ALTER TABLE nottwice.events ADD CHECK (event_key <> 'paid bad')"))
    asked(entrance, "begin", **BEGIN)
    kinds = became(asked(entrance, "store", line("a"), line("bad"), line("c")))
    assert kinds == ["accepted", "quarantined", "accepted"]
