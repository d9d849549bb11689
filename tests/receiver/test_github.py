"""GitHub's webhooks: its published vector, JSON and form, the GUID that stays, and what headers cannot prove."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.payload import Malformed
from ledger.receiver.sources.adapter import Forged
from ledger.receiver.sources.github import GitHub
from ledger.records import Delivery, Unusable
from ledger.settings import SourceSettings
from ledger.simulated import Sending, speaker

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "It's a Secret to Everybody"  # docs.github.com: validating webhook deliveries
VECTOR = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
EVENT = {"action": "opened", "issue": {"id": 73464126, "number": 1}, "repository": {"full_name": "acme/shop"}}
GUID = "72d3162e-cc78-11e3-81ab-4c9367dc0958"


def source(*secrets: str, name: str = "hooks", **settings: Any) -> GitHub:
    table = SourceSettings(kind="github", namespace="acme", secrets=("S",), **settings)
    return GitHub(name, table, secrets or [SECRET])


def signed(body: bytes, secret: str = SECRET, **headers: str) -> dict[str, str]:
    mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    given_ = {"x-hub-signature-256": f"sha256={mac}", "x-github-delivery": GUID, "x-github-event": "issues"}
    return given_ | {name.replace("_", "-"): text for name, text in headers.items()}


def one(adapter: GitHub, body: bytes, **headers: str) -> Any:
    (item,) = adapter.read(signed(body, **headers), body, NOW)
    return item


def as_json(**changes: Any) -> bytes:
    return json.dumps(EVENT | changes).encode()


def as_form(**changes: Any) -> bytes:
    return urlencode({"payload": as_json(**changes).decode()}).encode()


def test_the_published_vector_is_authentic_and_no_document() -> None:
    with pytest.raises(Malformed):
        source().read({"x-hub-signature-256": VECTOR}, b"Hello, World!", NOW)
    for body, header in (
        (b"Hello, World", VECTOR),
        (b"Hello, World!", VECTOR[:-1] + "6"),
        (b"Hello, World!", ""),
    ):
        with pytest.raises(Forged):
            source().read({"x-hub-signature-256": header}, body, NOW)


def test_what_simulate_signs_is_the_vector() -> None:
    github = speaker(source().settings)
    sent = github.headers(source().settings, Sending(SECRET, GUID, 0), b"Hello, World!")
    assert sent["X-Hub-Signature-256"] == VECTOR


@given(st.text(alphabet="sha256=1,v 0abcdefABCDEF\té", max_size=80))
def test_no_header_whatever_makes_anything_but_a_refusal(header: str) -> None:
    with pytest.raises(Forged):
        source().read(signed(b"{}") | {"x-hub-signature-256": header}, b"{}", NOW)


def test_the_old_sha1_signature_is_never_looked_at() -> None:
    mac = hmac.new(SECRET.encode(), as_json(), hashlib.sha1).hexdigest()
    for name in ("x-hub-signature", "x-hub-signature-256"):
        with pytest.raises(Forged):
            source().read({name: f"sha1={mac}"}, as_json(), NOW)
    with pytest.raises(Forged):
        source().read({"x-hub-signature-256": f"sha256={mac}"}, as_json(), NOW)


def test_both_secrets_of_a_rotation_hold() -> None:
    rotated = source(SECRET, "the one before")
    assert rotated.read(signed(as_json(), "the one before"), as_json(), NOW)
    with pytest.raises(Forged):
        rotated.read(signed(as_json(), "somebody else's"), as_json(), NOW)


@pytest.mark.parametrize("body", [as_json(), as_form()], ids=["json", "form"])
def test_json_and_form_are_the_same_event(body: bytes) -> None:
    item = one(source(), body)
    assert (item.type, item.event_key, item.delivery_id) == ("issues.opened", GUID, GUID)
    assert (item.body, item.ignored, item.occurrence_digest) == (body, False, None)
    assert item.content_digest == one(source(), as_json()).content_digest


def test_a_redelivery_is_the_same_event_under_every_source_and_another_guid_is_not() -> None:
    first = one(source(), as_json())
    assert one(source(name="others"), as_json()).key_digest == first.key_digest
    assert one(source(), as_json(), x_github_delivery=GUID[:-1] + "9").key_digest != first.key_digest


def test_the_event_and_the_action_make_the_type() -> None:
    assert one(source(), as_json(action=None)).type == "issues"
    assert one(source(), b'{"ref":"refs/heads/main"}', x_github_event="push").type == "push"
    assert one(source(), as_json(action="closed")).type == "issues.closed"


def test_a_ping_is_completed_on_acceptance() -> None:
    ping = one(source(), b'{"zen":"Speak like a human.","hook_id":1}', x_github_event="ping")
    assert (ping.type, ping.ignored) == ("ping", True)


def test_a_recorded_body_under_another_id_is_a_repeat_where_that_was_asked_for() -> None:
    guarded = source(repeats_by_body=True)
    first, replayed = one(guarded, as_json()), one(guarded, as_json(), x_github_delivery="forged")
    assert first.occurrence_digest == replayed.occurrence_digest is not None
    other = one(guarded, as_json(action="closed"), x_github_delivery="other")
    assert other.occurrence_digest != first.occurrence_digest


@pytest.mark.parametrize("missing", ["x-github-delivery", "x-github-event"])
@pytest.mark.parametrize("value", [None, "", "  ", "\x00"])
def test_without_an_id_or_an_event_it_is_quarantined(missing: str, value: str | None) -> None:
    headers = signed(as_json())
    headers |= {missing: value} if value is not None else {}
    if value is None:
        del headers[missing]
    (item,) = source().read(headers, as_json(), NOW)
    assert isinstance(item, Unusable)


MALFORMED = [
    b"", b"{", b"payload=", b"payload=%7B", b"payload=%7B%7D&payload=%7B%7D", b"payload=%FF", b"payload=%00",
    b"payload=" + b"%5B" * 100, b"payload=%7B%22a%22:1,%22a%22:2%7D", b"other=%7B%7D", b"\xef\xbb\xbf{}", b"payload",
]  # fmt: skip


@pytest.mark.parametrize("body", MALFORMED)
def test_what_is_no_document_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        one(source(), body)


@pytest.mark.parametrize("body", [b"null", b"42", b'"x"', b"[1]", b"payload=42", b"payload=%5B1%5D"])
def test_what_is_no_object_is_quarantined(body: bytes) -> None:
    assert one(source(), body).reason == "It is not an object."


@given(st.binary(max_size=200), st.booleans())
def test_no_body_makes_a_fault(raw: bytes, in_form: bool) -> None:
    body = b"payload=" + raw if in_form else raw
    try:
        items = source().read(signed(body), body, NOW)
    except Malformed:
        return
    assert all(
        isinstance(item, Delivery | Unusable) and "fault" not in getattr(item, "reason", "") for item in items
    )
