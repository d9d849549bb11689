"""Sources that are told everything: Mailera and message.com until they are configured, and what a generic one can be told."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import Misconfigured
from ledger.payload import Malformed
from ledger.receiver.sources import adapters
from ledger.receiver.sources.adapter import Adapter, Forged
from ledger.receiver.sources.configured import Configured
from ledger.receiver.sources.generic import Generic
from ledger.receiver.sources.mailera import Mailera
from ledger.receiver.sources.message_com import MessageCom
from ledger.records import Delivery, Unusable
from ledger.settings import SourceSettings, load

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = str(int(NOW.timestamp()))
SECRET = "a secret of some length"
MAILERA = {
    "signature_header": "X-MailHub-Signature",
    "algorithm": "sha256",
    "secret_form": "text",
    "timestamp_unit": "s",
    "encoding": "hex",
    "signed": "{timestamp}.{body}",
    "timestamp_header": "X-MailHub-Timestamp",
    "key_header": "X-MailHub-Delivery",
    "type_path": "type",
}
MESSAGE_COM = {
    "algorithm": "sha256",
    "secret_form": "text",
    "signature_header": "X-Signature",
    "encoding": "base64",
    "signed": "{body}",
    "type_path": "type",
}
GENERIC = {"signature_header": "X-Signature", "key_path": "id", "type_path": "type"}


def made(kind: type[Configured], known: dict[str, Any], **changes: Any) -> Configured:
    options = {name: value for name, value in (known | changes).items() if value is not None}
    table = SourceSettings(kind=kind.kind, namespace="acme", secrets=("S",), **options)
    return kind("it", table, [SECRET])


def generic(**changes: Any) -> Configured:
    return made(Generic, GENERIC, **changes)


def mac(signed: bytes, secret: str = SECRET) -> bytes:
    return hmac.new(secret.encode(), signed, hashlib.sha256).digest()


def read(adapter: Adapter, body: bytes, **headers: str) -> list[Delivery | Unusable]:
    given_ = {name.replace("_", "-"): text for name, text in headers.items()}
    return adapter.read({"x-signature": mac(body).hex()} | given_, body, NOW)


def one(adapter: Adapter, body: bytes | dict[str, Any], **headers: str) -> Any:
    (item,) = read(adapter, body if isinstance(body, bytes) else json.dumps(body).encode(), **headers)
    return item


# ── Mailera and message.com ───────────────────────────────────────────────────────────────────────────


def test_mailera_is_verified_as_configured_and_both_ids_can_be_its_key() -> None:
    body = b'{"type":"message.received"}'
    headers = {"x-mailhub-timestamp": AT, "x-mailhub-event": "e1", "x-mailhub-delivery": "d1"}
    headers["x-mailhub-signature"] = mac(f"{AT}.".encode() + body).hex()
    (item,) = made(Mailera, MAILERA).read(headers, body, NOW)
    (other,) = made(Mailera, MAILERA, key_header="X-MailHub-Event").read(headers, body, NOW)
    assert (item.event_key, other.event_key) == ("message.received d1", "message.received e1")
    for name, wrong in (("x-mailhub-timestamp", str(int(AT) - 301)), ("x-mailhub-signature", "00" * 32)):
        with pytest.raises(Forged):
            made(Mailera, MAILERA).read(headers | {name: wrong}, body, NOW)


def test_received_and_junk_are_two_events_even_under_one_id() -> None:
    adapter = made(
        Mailera,
        MAILERA,
        timestamp_header=None,
        timestamp_unit=None,
        signed="{body}",
        signature_header="X-Signature",
    )
    keys = {
        one(adapter, {"type": type_}, x_mailhub_delivery="d1").key_digest
        for type_ in ("message.received", "message.junk")
    }
    assert len(keys) == 2


def test_message_com_is_keyed_by_the_header_its_article_names_unless_told_otherwise() -> None:
    adapter = made(MessageCom, MESSAGE_COM)
    body = b'{"type":"a","id":"in the body"}'
    headers = {"x-signature": base64.b64encode(mac(body)).decode(), "x-message-webhook-id": "w1"}
    assert adapter.read(headers, body, NOW)[0].event_key == "a w1"  # type: ignore[union-attr]
    told = made(MessageCom, MESSAGE_COM, key_path="id").read(headers, body, NOW)
    assert told[0].event_key == "a in the body"  # type: ignore[union-attr]
    assert isinstance(adapter.read({**headers, "x-message-webhook-id": ""}, body, NOW)[0], Unusable)


@pytest.mark.parametrize(("kind", "known"), [(Mailera, MAILERA), (MessageCom, MESSAGE_COM)])
@pytest.mark.parametrize("option", ["signature_header", "algorithm", "encoding", "signed", "secret_form"])
def test_what_is_not_published_keeps_the_kind_off_until_it_is_told(
    kind: type[Configured], known: dict[str, Any], option: str
) -> None:
    with pytest.raises(Misconfigured) as refused:
        made(kind, known, **{option: None})
    said = str(refused.value)
    assert said.startswith(
        f"[sources.it] {option} is missing. What {kind.facts.sender} does there is not published"
    )


def test_a_timestamp_without_its_unit_and_an_empty_template_are_missing_too() -> None:
    for option, changes in (("timestamp_unit", {"timestamp_unit": None}), ("signed", {"signed": ""})):
        with pytest.raises(Misconfigured, match=f"{option} is missing. What Mailera does"):
            made(Mailera, MAILERA, **changes)


def test_the_sentence_has_the_tables_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("NOTTWICE_SECRET_S", SECRET)
    head = '[sources.a]\nkind = "{}"\nsecrets = ["S"]\n'
    for text, sentence in (
        (head.format("mailera"), "line 1: [sources.a] signature_header is missing. What Mailera does there"),
        (
            head.format("message.com"),
            "line 1: [sources.a] signature_header is missing. What message.com does there",
        ),
        (
            head.format("mailera") + 'type_constant = "t"\n',
            "line 4: [sources.a] type_constant is not for kind mailera",
        ),
        (
            head.format("mailera") + 'encoding = "base46"\n',
            "line 4: [sources.a] encoding must be one of hex, base64",
        ),
    ):
        (tmp_path / "nottwice.toml").write_text(text)
        with pytest.raises(Misconfigured) as refused:
            adapters(load())
        assert f"{tmp_path / 'nottwice.toml'}, {sentence}" in str(refused.value)


# ── What cannot work ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"tolerance_s": 60}, "tolerance_s does nothing without timestamp_header"),
        ({"timestamp_unit": "ms"}, "timestamp_unit does nothing without timestamp_header"),
        (
            {"key_path": None, "key_header": "x-signature"},
            "key_header names the same header as signature_header",
        ),
        ({"delivery_header": "X-SIGNATURE"}, "delivery_header names the same header as signature_header"),
        (
            {"timestamp_header": "X-Time", "subscription_header": "X-Time"},
            "subscription_header names the same header",
        ),
        ({"key_from_body": True}, "key_path or key_header finds the event's key"),
        (
            {"key_path": None, "key_from_body": True, "key_with": ("a",)},
            "key_with does nothing beside key_from_body",
        ),
        (
            {"key_path": None, "key_from_body": True, "repeats_by_body": True},
            "repeats_by_body does nothing beside",
        ),
        (
            {"key_path": None, "key_from_body": True, "key_spelling": "message-id"},
            "key_spelling does nothing beside",
        ),
        (
            {"type_path": None, "type_constant": "t", "type_otherwise": "u"},
            "type_otherwise does nothing beside",
        ),
        ({"subscription_header": "X-S", "subscription_path": "s"}, "subscription_path is one too many"),
    ],
)
def test_an_option_that_does_nothing_is_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        generic(**options)
    assert str(refused.value).startswith(f"[sources.it] {complaint}")


# ── Signatures ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
@pytest.mark.parametrize("form", ["text", "hex", "base64"])
def test_algorithm_and_form_of_the_secret_are_told(algorithm: str, form: str) -> None:
    key = SECRET.encode()
    spelled = {"text": SECRET, "hex": key.hex(), "base64": base64.b64encode(key).decode()}[form]
    table = SourceSettings(
        kind="generic", namespace="acme", secrets=("S",), algorithm=algorithm, secret_form=form, **GENERIC
    )
    adapter, body = Generic("it", table, [spelled]), b'{"id":1,"type":"t"}'
    for other in ("sha256", "sha384", "sha512"):
        headers = {"x-signature": hmac.new(key, body, other).hexdigest()}
        if other == algorithm:
            assert adapter.read(headers, body, NOW)
        else:
            with pytest.raises(Forged):
                adapter.read(headers, body, NOW)


@pytest.mark.parametrize(
    ("form", "secret"), [("hex", "zz" * 20), ("hex", "ab"), ("base64", "!"), ("base64", "YWI=")]
)
def test_a_secret_that_is_not_in_its_form_stops_the_start(form: str, secret: str) -> None:
    table = SourceSettings(kind="generic", namespace="acme", secrets=("S",), secret_form=form, **GENERIC)
    with pytest.raises(Misconfigured, match=f"secrets has a secret that is not {form} of 8 bytes or more"):
        Generic("it", table, [secret])


def test_headers_can_be_signed_too() -> None:
    """Then a recorded request cannot come again under another id."""
    told = generic(
        key_path=None, key_header="X-Event", delivery_header="X-D", signed="{delivery}.{key}.{body}"
    )
    body = b'{"type":"t"}'
    headers = {"x-event": "e1", "x-d": "d1", "x-signature": mac(b"d1.e1." + body).hex()}
    assert told.read(headers, body, NOW)[0].event_key == "t e1"  # type: ignore[union-attr]
    for name in ("x-event", "x-d"):
        for other in ({**headers, name: "other"}, {n: v for n, v in headers.items() if n != name}):
            with pytest.raises(Forged):
                told.read(other, body, NOW)


# ── Keys ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", ["subscription_header", "subscription_path"])
def test_the_subscription_is_part_of_the_key_where_it_is_named(where: str) -> None:
    told = generic(**{where: "X-S" if where == "subscription_header" else "sub"})
    events = [one(told, {"id": 1, "type": "t", "sub": sub}, x_s=sub) for sub in ("a", "b", "a")]
    assert events[0].key_digest == events[2].key_digest != events[1].key_digest
    silent = [one(generic(), {"id": 1, "type": "t", "sub": sub}).key_digest for sub in ("a", "b")]
    assert silent[0] == silent[1]
    assert one(told, {"id": 1, "type": "t"}).reason == "It has no usable subscription."


def test_the_content_is_the_key_only_where_that_was_asked_for() -> None:
    told = generic(key_path=None, key_from_body=True, ignored_members=("attempt",))
    first, again, other = (
        one(told, body)
        for body in (
            b'{"type":"t","n":1.0,"attempt":1}',
            b'{"attempt":2, "n":1,"type":"t"}',
            b'{"type":"t","n":2}',
        )
    )
    assert first.key_digest == again.key_digest != other.key_digest
    assert first.content_digest == again.content_digest
    assert [i.key_digest for i in read(told, b'[{"type":"t","n":1},{"type":"t","n":2}]')] == [  # type: ignore[union-attr]
        first.key_digest,
        other.key_digest,
    ]


def test_the_same_bytes_under_another_id_are_a_repeat_where_that_was_asked_for() -> None:
    told = generic(key_path=None, key_header="X-Event", repeats_by_body=True)
    first, again = (one(told, b'{"type":"t"}', x_event=event) for event in ("e1", "e2"))
    assert first.key_digest != again.key_digest
    assert first.occurrence_digest == again.occurrence_digest is not None
    listed = read(generic(repeats_by_body=True), b'[{"id":1,"type":"t"},{"id":2,"type":"t"}]')
    assert len({item.occurrence_digest for item in listed}) == 2  # type: ignore[union-attr]


def test_a_type_that_is_not_found_has_a_name_where_one_was_given() -> None:
    assert one(generic(type_otherwise="unknown"), {"id": 1}).type == "unknown"
    assert one(generic(type_otherwise="unknown"), {"id": 1, "type": "t"}).type == "t"


# ── Other bodies ──────────────────────────────────────────────────────────────────────────────────────


def test_a_form_is_read_by_its_fields() -> None:
    told = generic(body_format="form", json_inside=("data",), key_path="data.id", type_path="kind")
    item = one(told, b"kind=paid&data=%7B%22id%22%3A7%7D", content_type="application/x-www-form-urlencoded")
    assert (item.event_key, item.type) == ("paid 7", "paid")
    assert one(told, b"kind=paid&data=x").reason == "It has no usable key."
    with pytest.raises(Malformed):
        one(told, b"nothing of a form")


def test_an_id_with_bytes_that_are_no_text_is_never_a_key() -> None:
    told = generic(body_format="form")
    assert one(told, b"type=t&id=caf%C3%A9").event_key == "t café"
    for raw in (b"caf%E9", b"caf%E8"):
        assert "no text" in one(told, b"type=t&id=" + raw).reason


@pytest.mark.parametrize("inside", [("a",), ("a.b",), ("a.b.c", "a"), ("0",)])
def test_json_inside_is_opened_where_it_is_json_and_left_where_not(inside: tuple[str, ...]) -> None:
    told = generic(json_inside=inside)
    for value in (None, 1, "hey", "{", '{"b":"{}"}', {"b": '{"c":"[1]"}'}, ["{}"], "\ud83c", "1e999999999"):
        assert isinstance(one(told, {"id": 1, "type": "t", "a": value}), Delivery)


@given(st.binary(max_size=300), st.sampled_from(["json", "form", "text"]), st.text(max_size=60))
def test_no_body_makes_a_fault(body: bytes, body_format: str, content_type: str) -> None:
    told = generic(
        body_format=body_format, key_path="text" if body_format == "text" else "id", key_spelling="message-id",
        type_otherwise="t", json_inside=("a.b", "text"),
    )  # fmt: skip
    try:
        items = read(told, body, content_type=content_type)
    except Malformed:
        return
    assert all("fault" not in getattr(item, "reason", "") for item in items)
