"""Inboxili's webhooks: authentic by its published check, keyed by what its maker's article says, the rest by settings."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inboxili import verify_webhook_signature

from ledger.errors import Misconfigured
from ledger.receiver.sources.adapter import Forged
from ledger.receiver.sources.inboxili import Inboxili
from ledger.records import Delivery, Unusable
from ledger.settings import SourceSettings
from ledger.simulated import speaker

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET, OLD = "inboxili's own secret", "the secret before"
EVENT = {
    "id": "evt_1",
    "type": "delivered",
    "timestamp": "2026-03-01T11:59:00Z",
    "message_id": "<m1@inboxili.example>",
    "to": "Ana@example.com",
}


def source(*secrets: str, **settings: Any) -> Inboxili:
    table = SourceSettings(kind="inboxili", namespace="acme", secrets=("S",), **settings)
    return Inboxili("ix", table, secrets or [SECRET])


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    return {"x-inboxili-signature": hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}


def read(adapter: Inboxili, document: Any) -> list[Delivery | Unusable]:
    body = json.dumps(document).encode()
    return adapter.read(signed(body), body, NOW)


def one(adapter: Inboxili, document: Any) -> Any:
    (item,) = read(adapter, document)
    return item


def without(*names: str, **changes: Any) -> dict[str, Any]:
    return {name: value for name, value in (EVENT | changes).items() if name not in names}


# ── Authenticity ──────────────────────────────────────────────────────────────────────────────────────


def test_what_the_published_package_accepts_is_accepted() -> None:
    body = json.dumps(EVENT).encode()
    good = signed(body)["x-inboxili-signature"]
    for spelled in (good, good.upper(), f"  {good}\t"):
        assert verify_webhook_signature(body, spelled, SECRET)
        assert source().read({"x-inboxili-signature": spelled}, body, NOW)


@given(st.text(alphabet="0123456789abcdefABCDEF =v1,é\t", max_size=70))
def test_what_it_refuses_is_refused(signature: str) -> None:
    body = b'{"id": 1}'
    if signature.isascii():  # else the package raises TypeError
        assert not verify_webhook_signature(body, signature, SECRET)
    with pytest.raises(Forged):
        source().read({"x-inboxili-signature": signature}, body, NOW)


def test_every_byte_is_covered_and_both_secrets_of_a_rotation_hold() -> None:
    body = json.dumps(EVENT).encode()
    rotated = source(SECRET, OLD)
    assert rotated.read(signed(body, OLD), body, NOW)
    for headers, other in ((signed(body), body + b" "), ({}, body), (signed(body, "somebody else"), body)):
        with pytest.raises(Forged):
            rotated.read(headers, other, NOW)


def test_a_guessable_secret_stops_the_start() -> None:
    with pytest.raises(Misconfigured, match="shorter than 8 bytes"):
        source("short")


# ── Keys ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_event_id_is_the_key() -> None:
    item = one(source(), EVENT)
    assert (item.type, item.event_key, item.namespace) == ("delivered", "delivered evt_1", "acme")
    assert item.occurred_at == datetime(2026, 3, 1, 11, 59, tzinfo=UTC)
    again = one(source(), EVENT | {"timestamp": "2026-03-01T12:30:00Z"})
    assert again.key_digest == item.key_digest


def test_key_05_the_type_belongs_to_the_key() -> None:
    delivered, bounced = one(source(), EVENT), one(source(), EVENT | {"type": "bounced"})
    assert delivered.key_digest != bounced.key_digest


def test_without_an_event_id_it_is_type_message_and_recipient() -> None:
    events = [
        without("id"),
        without("id", type="bounced"),
        without("id", to="bo@example.com"),
        without("id", message_id="<m2@inboxili.example>"),
        without("id", "to"),
        without("id", to=["ana@example.com", "bo@example.com"]),
    ]
    keys = [one(source(), event).key_digest for event in events]
    assert len(set(keys)) == len(events)
    assert keys == [one(source(), event).key_digest for event in events]


def test_without_either_it_is_quarantined() -> None:
    item = one(source(), without("id", "message_id"))
    assert item == Unusable("acme", "ix", 0, "It has no usable event id or message id.", item.body)
    assert "type" in one(source(), without("type")).reason


@pytest.mark.parametrize("nothing", [None, "", "   ", [], {}, True])
def test_what_is_no_id_is_never_a_key(nothing: Any) -> None:
    item = one(source(), EVENT | {"id": nothing})
    assert item.event_key.startswith("delivered message <m1@inboxili.example>")


def test_a_list_holds_one_event_an_element() -> None:
    good, bad, other = read(source(), [EVENT, {"type": "bounced"}, EVENT | {"id": 0}])
    assert isinstance(good, Delivery)
    assert isinstance(bad, Unusable)
    assert isinstance(other, Delivery)
    assert (bad.index, other.event_key) == (1, "delivered 0")
    assert read(source(), []) == []


def test_the_parts_stand_where_the_settings_say() -> None:
    adapter = source(type_path="event.name", key_path="event.id", message_path="data.0.mid", time_path="at")
    item = one(adapter, {"event": {"name": "bounced", "id": "e"}, "at": 1772366340, "data": [{"mid": "m"}]})
    assert (item.type, item.event_key) == ("bounced", "bounced e")
    assert item.occurred_at == datetime(2026, 3, 1, 11, 59, tzinfo=UTC)


def test_a_path_can_be_switched_off() -> None:
    adapter = source(key_path="", time_path="", recipient_path="")
    item = one(adapter, EVENT)
    assert (item.event_key, item.occurred_at) == ("delivered message <m1@inboxili.example>", None)


# ── Settings ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"type_path": ""}, "type_path is empty"),
        ({"key_path": "", "message_path": ""}, "key_path is empty, and so is message_path"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        source(**settings)
    assert str(refused.value).startswith(f"[sources.ix] {complaint}")


def test_what_simulate_invents_is_what_the_source_reads() -> None:
    adapter = source(message_path="data.message", recipient_path="data.to", type_path="data.what")
    body = speaker(adapter.settings).example(adapter.settings, SECRET, 7)
    (item,) = adapter.read(signed(body), body, NOW)
    assert isinstance(item, Delivery)
    assert item.type == "delivered"
    assert json.loads(body)["data"]["to"] == "customer7@example.com"
