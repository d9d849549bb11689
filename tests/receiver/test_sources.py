"""The adapters by themselves: signatures, keys, and settings that cannot work."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from svix.webhooks import Webhook, WebhookVerificationError

from ledger.errors import Misconfigured
from ledger.payload import Malformed
from ledger.receiver.sources.adapter import Adapter, Forged
from ledger.receiver.sources.agentmail import AgentMail
from ledger.receiver.sources.generic import Generic
from ledger.receiver.sources.signing import fresh
from ledger.records import Delivery, Unusable
from ledger.settings import SourceSettings
from tests import fix_receiver as fix

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = str(int(NOW.timestamp()))


def agentmail(*secrets: str, name: str = "mail", **settings: Any) -> AgentMail:
    table = SourceSettings(kind="agentmail", namespace="acme", secrets=("S",), **settings)
    return AgentMail(name, table, secrets or [fix.SVIX_SECRET])


def generic(name: str = "shop", secrets: tuple[str, ...] = (fix.SHOP_SECRET,), **settings: Any) -> Generic:
    defaults = {"signature_header": "X-Signature", "key_path": "id", "type_path": "type"}
    given_ = {key: value for key, value in (defaults | settings).items() if value is not None}
    table = SourceSettings(kind="generic", namespace="acme", secrets=("S",), **given_)
    return Generic(name, table, secrets)


def read_mail(adapter: Adapter, body: bytes, *secrets: str, **about: Any) -> list[Delivery | Unusable]:
    return adapter.read(fix.mail(body, *secrets, timestamp=about.pop("timestamp", AT), **about), body, NOW)


def read_shop(adapter: Adapter, body: bytes, **headers: str) -> list[Delivery | Unusable]:
    signed = {"x-signature": fix.signature(body), **{k.replace("_", "-"): v for k, v in headers.items()}}
    return adapter.read(signed, body, NOW)


def one(items: list[Delivery | Unusable]) -> Any:
    (item,) = items
    return item


# ── AgentMail ─────────────────────────────────────────────────────────────────────────────────────────

VECTOR_SECRET = "whsec_plJ3nmyCDGBKInavdOK15jsl"
VECTOR_BODY = b'{"event_type":"ping","data":{"success":true}}'
VECTOR = {
    "svix-id": "msg_loFOjxBNrRLzqYUf",
    "svix-timestamp": "1731705121",
    "svix-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
}


def test_the_published_vector_is_authentic() -> None:
    at = datetime.fromtimestamp(1731705121, UTC)
    item = one(agentmail(VECTOR_SECRET).read(VECTOR, VECTOR_BODY, at))
    assert item == Unusable("acme", "mail", 0, "It has no usable event_id.", VECTOR_BODY)
    for name in VECTOR:
        with pytest.raises(Forged):
            agentmail(VECTOR_SECRET).read({**VECTOR, name: VECTOR[name] + "1"}, VECTOR_BODY, at)
        with pytest.raises(Forged):
            agentmail(VECTOR_SECRET).read({n: v for n, v in VECTOR.items() if n != name}, VECTOR_BODY, at)
    with pytest.raises(Forged):
        agentmail(VECTOR_SECRET).read(VECTOR, VECTOR_BODY + b" ", at)


@given(
    signature=st.text(alphabet="v1a, =+/AbZ9é\t", max_size=60),
    id_=st.text(alphabet="msg_ é1", max_size=8),
    timestamp=st.sampled_from([AT, "0", "", "x", "123.9", "-1", "+1", " 1", "١٢٣", "9" * 400]),
)
def test_no_header_whatever_makes_anything_but_a_refusal(signature: str, id_: str, timestamp: str) -> None:
    headers = {"svix-id": id_, "svix-timestamp": timestamp, "svix-signature": signature}
    with pytest.raises(Forged):
        agentmail().read(headers, b"{}", NOW)


@pytest.mark.parametrize(
    "damage", ["none", "body", "id", "version", "secret", "truncated", "second", "extra"]
)
def test_we_and_svix_agree_on_what_is_authentic(damage: str) -> None:
    body, at = fix.message("evt_1"), datetime.now(UTC)
    signer = Webhook(VECTOR_SECRET if damage == "secret" else fix.SVIX_SECRET)
    headers = {
        "svix-id": "msg_1",
        "svix-timestamp": str(int(at.timestamp())),
        "svix-signature": signer.sign("msg_1", at, body.decode()),
    }
    signature = headers["svix-signature"]
    headers |= {
        "id": {"svix-id": "msg_2"},
        "version": {"svix-signature": signature.replace("v1,", "v2,")},
        "truncated": {"svix-signature": signature[:-4]},
        "second": {"svix-signature": f"v1,{base64.b64encode(b'0' * 32).decode()} {signature}"},
        "extra": {"svix-signature": f"v1a,AAAA {signature}"},
    }.get(damage, {})
    body += b" " if damage == "body" else b""
    assert _ours(headers, body, at) == _theirs(headers, body) == (damage in ("none", "second", "extra"))


def _ours(headers: dict[str, str], body: bytes, at: datetime) -> bool:
    try:
        return bool(agentmail().read(headers, body, at))
    except Forged:
        return False


def _theirs(headers: dict[str, str], body: bytes) -> bool:
    try:
        Webhook(fix.SVIX_SECRET).verify(body, headers)
    except (WebhookVerificationError, ValueError):
        return False
    return True


def test_what_agentmail_says_becomes_a_delivery() -> None:
    body = fix.message("evt_1", message_id="<m1@example.com>")
    found = one(read_mail(agentmail(ignored_types=("message.opened",)), body, svix_id="msg_77"))
    assert (found.type, found.event_key, found.delivery_id) == ("message.received", "evt_1", "msg_77")
    assert found.occurred_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert (found.body, found.namespace, found.source, found.ignored) == (body, "acme", "mail", False)
    opened = json.dumps(
        {"event_type": "message.opened", "event_id": "evt_2", "open": {"timestamp": "2026-03-01T11:00:00Z"}}
    ).encode()
    ignored = one(read_mail(agentmail(ignored_types=("message.opened",)), opened))
    assert ignored.ignored and ignored.occurred_at == datetime(2026, 3, 1, 11, tzinfo=UTC)


def test_what_was_received_has_an_occurrence_and_a_status_has_none() -> None:
    first = one(read_mail(agentmail(), fix.message("evt_1", message_id="<m@x>")))
    found_again = one(read_mail(agentmail(), fix.message("evt_2", message_id="<m@x>")))
    spam = one(
        read_mail(agentmail(), fix.message("evt_3", message_id="<m@x>", type_="message.received.spam"))
    )
    elsewhere = one(
        read_mail(agentmail(), fix.message("evt_4", message_id="<m@x>", inbox_id="other@acme.example"))
    )
    assert first.occurrence_digest == found_again.occurrence_digest is not None
    assert len({first.occurrence_digest, spam.occurrence_digest, elsewhere.occurrence_digest}) == 3
    bounce = {"inbox_id": "i", "message_id": "m", "timestamp": "2026-03-01T10:00:00Z"}
    status = {"event_type": "message.bounced", "event_id": "evt_5", "bounce": bounce}
    assert one(read_mail(agentmail(), json.dumps(status).encode())).occurrence_digest is None


def test_two_sources_share_agentmails_events_but_not_a_generic_senders() -> None:
    body = fix.message("evt_1")
    ours, theirs = (one(read_mail(agentmail(name=name), body)) for name in ("mail", "mail2"))
    assert ours.key_digest == theirs.key_digest
    event = b'{"id":1,"type":"a"}'
    assert one(read_shop(generic("a"), event)).key_digest != one(read_shop(generic("b"), event)).key_digest


@pytest.mark.parametrize(
    "secret", ["whsec_", "whsec_!!!!", "", "whsec_é", "hunter2 hunter2", "whsec_c2VjcmV0"]
)
def test_a_secret_that_is_none_of_agentmails_stops_the_start(secret: str) -> None:
    with pytest.raises(Misconfigured, match=r"\[sources\.mail\]") as refused:
        agentmail(secret)
    assert not secret.removeprefix("whsec_") or secret not in str(refused.value)


# ── identity ──────────────────────────────────────────────────────────────────────────────────────────


def test_parts_of_a_key_never_run_into_each_other() -> None:
    glued = generic(key_with=("b",))
    one_ = one(read_shop(glued, b'{"type":"t","id":"ab","b":"c"}'))
    other = one(read_shop(glued, b'{"type":"t","id":"a","b":"bc"}'))
    spaced = one(read_shop(glued, b'{"type":"t","id":"a b","b":"c"}'))
    assert len({one_.key_digest, other.key_digest, spaced.key_digest}) == 3


def test_key_01_a_composite_key_survives_a_new_id() -> None:
    composite = generic(key_path="message", key_with=("recipient", "at"))
    first, again = (
        one(
            read_shop(
                composite,
                json.dumps(
                    {"type": "delivered", "message": "m", "recipient": "r", "at": 5, "id": i}
                ).encode(),
            )
        )
        for i in ("ev_A1", "ev_B2")
    )
    assert first.key_digest == again.key_digest
    assert first.content_digest != again.content_digest
    missing = one(read_shop(composite, b'{"type":"delivered","message":"m","at":5}'))
    assert missing.reason == "It has no usable key (recipient)."


def test_key_05_the_type_belongs_to_the_key() -> None:
    bounce = one(read_shop(generic(), b'{"type":"Bounce","id":42}'))
    complaint = one(read_shop(generic(), b'{"type":"SpamComplaint","id":42}'))
    assert bounce.key_digest != complaint.key_digest


@pytest.mark.parametrize(
    "body",
    [
        {"type": "t"},
        *({"type": "t", "id": value} for value in ("", None, "   ", True, 1.5, [], {}, "a\x00b", "a\ud83c")),
        *({"id": "1", "type": value} for value in ("", None, "a\x00", "t" * 201, "é" * 101)),
    ],
)
def test_without_a_usable_key_or_type_it_goes_to_quarantine(body: dict[str, Any]) -> None:
    raw = json.dumps(body).encode()
    item = one(read_shop(generic(), raw))
    assert isinstance(item, Unusable) and item.body == raw and item.reason.startswith("It")


def test_zero_is_an_id() -> None:
    assert one(read_shop(generic(), b'{"type":"t","id":0}')).event_key == "t 0"


@pytest.mark.parametrize("body", [b"{}", b"null", b"42", b'"x"', b"true", b'{"events":[]}', b"1.5"])
def test_bat_04_the_top_level_is_not_what_was_hoped(body: bytes) -> None:
    assert isinstance(one(read_shop(generic(), body)), Unusable)
    assert isinstance(one(read_mail(agentmail(), body)), Unusable)


def test_bat_04_lists_are_pings_or_elements() -> None:
    assert read_shop(generic(), b" [ ] ") == [] == read_mail(agentmail(), b"[]")
    assert [item.index for item in read_shop(generic(), b"[1,2]")] == [0, 1]  # type: ignore[union-attr]
    assert isinstance(one(read_shop(generic(), b"[[]]")), Unusable)
    assert isinstance(one(read_mail(agentmail(), b"[1,2]")), Unusable)
    too_many = b"[" + b",".join([b"1"] * 5001) + b"]"
    assert one(read_shop(generic(), too_many)).reason == "It has 5001 elements; 5000 can be taken at once."


def test_a_key_from_a_header_names_the_whole_body() -> None:
    by_header = generic(key_path=None, key_header="X-Event", type_path=None, type_constant="batch")
    item = one(read_shop(by_header, b'[{"a":1},{"a":2}]', x_event="e1"))
    assert (item.event_key, item.body) == ("batch e1", b'[{"a":1},{"a":2}]')
    assert one(read_shop(by_header, b"{}")).reason == "It has no usable key."


def test_a_body_that_is_no_document_is_malformed_and_an_empty_one_too() -> None:
    for body in (b"", b"{", b'{"id":NaN}', b'[{"id":1},NaN]'):
        with pytest.raises(Malformed):
            read_shop(generic(), body)


def test_a_fault_of_an_adapter_keeps_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Generic, "identity", lambda *_: 1 / 0)
    assert one(read_shop(generic(), b'{"id":1,"type":"t"}')).reason.startswith("Our reading of it failed")
    monkeypatch.undo()
    bad = b'{"id":2}'
    identity = Generic.identity
    monkeypatch.setattr(Generic, "identity", lambda s, d, a: 1 / 0 if d["id"] == 2 else identity(s, d, a))
    first, second, third = read_shop(generic(), b'[{"id":1,"type":"t"},' + bad + b',{"id":3,"type":"t"}]')
    assert isinstance(first, Delivery) and isinstance(third, Delivery)
    assert isinstance(second, Unusable) and (second.index, second.body) == (1, bad)
    monkeypatch.setattr(Generic, "_signatures", lambda *_: 1 / 0)
    with pytest.raises(Forged):
        read_shop(generic(), b'{"id":1,"type":"t"}')


# ── the generic source's settings ─────────────────────────────────────────────────────────────────────


def test_the_signed_string_is_a_template() -> None:
    sender = generic(timestamp_header="X-Time", signed="v0:{timestamp}:{body}", tolerance_s=60)
    body = b'{"id":1,"type":"t"}'
    headers = {"x-signature": fix.signature(f"v0:{AT}:".encode() + body), "x-time": AT}
    assert one(sender.read(headers, body, NOW)).event_key == "t 1"
    with pytest.raises(Forged):
        sender.read({**headers, "x-time": str(int(AT) + 1)}, body, NOW)
    with pytest.raises(Forged):
        generic(timestamp_header="X-Time").read(headers, body, NOW)


def test_two_header_fields_of_one_name_are_one_list() -> None:
    body = b'{"id":1,"type":"t"}'
    headers = {"x-signature": f"{fix.signature(body, 'another secret')}, {fix.signature(body)}"}
    assert one(generic().read(headers, body, NOW)).event_key == "t 1"


def test_an_upper_case_hex_signature_is_the_same() -> None:
    body = b'{"id":1,"type":"t"}'
    assert generic().read({"x-signature": fix.signature(body).upper()}, body, NOW)


@pytest.mark.parametrize("damage", ["", "zz", "é", "abc", "=", "deadbeef"])
@pytest.mark.parametrize("encoding", ["hex", "base64"])
def test_a_signature_that_is_none_is_refused(damage: str, encoding: str) -> None:
    with pytest.raises(Forged):
        generic(encoding=encoding).read({"x-signature": damage}, b"{}", NOW)
    with pytest.raises(Forged):
        generic(encoding=encoding).read({}, b"{}", NOW)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"type_path": None}, "type_path or type_header or type_constant is needed, exactly one"),
        ({"type_header": "X-Type"}, "type_path or type_header or type_constant is needed, exactly one"),
        ({"type_constant": "a"}, "type_path or type_header or type_constant is needed, exactly one"),
        ({"key_path": None}, "key_path or key_header finds the event's key"),
        ({"key_header": "X-Key"}, "key_path or key_header finds the event's key"),
        ({"signature_header": None}, "signature_header is missing"),
        ({"signed": "{timestamp}.{body}"}, "signed speaks of {timestamp}, and there is no timestamp_header"),
        (
            {"timestamp_header": "X-Time", "signed": "{body}"},
            "timestamp_header names a timestamp that is not signed",
        ),
        ({"signed": "x"}, "signed does not cover the body"),
        ({"signed": "{body}{body}"}, "signed does not cover the body"),
        (
            {"signed": "{id}.{body}"},
            "signed has an unknown name in braces; it knows {body}, {timestamp}, {delivery}, {key}",
        ),
        ({"signature_prefix": "v1,"}, "signature_prefix has a comma"),
        (
            {"secrets": ("short",)},
            "secrets has a secret that is shorter than 8 bytes: anybody could guess it",
        ),
    ],
)
def test_settings_that_cannot_work_stop_the_start(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        generic(**settings)
    assert str(refused.value).startswith(f"[sources.shop] {complaint}")


@pytest.mark.parametrize(
    ("timestamp", "unit", "accepted"),
    [
        *((str(int(AT) + offset), "s", abs(offset) <= 300) for offset in (-301, -299, 0, 299, 301)),
        (f"{AT}000", "s", False),
        (f"{AT}000", "ms", True),
        (f"{int(AT) + 299}000", "ms", True),
        (f"{int(AT) + 301}000", "ms", False),
        (AT, "ms", False),
        *(
            (text, "s", False)
            for text in ("0", "", "hello", f"{AT}.0", f"-{AT}", f"+{AT}", f" {AT}", "9" * 5000)
        ),
    ],
)
def test_a_timestamp_is_fresh_within_the_tolerance_both_ways(
    timestamp: str, unit: str, accepted: bool
) -> None:
    assert fresh(timestamp, NOW, 300.0, unit=unit) is accepted


def test_the_time_of_the_request_counts_not_the_clock() -> None:
    long_ago = datetime.fromtimestamp(time.time() - 10**6, UTC)
    body = fix.message("evt_1")
    headers = fix.mail(body, timestamp=str(int(long_ago.timestamp())))
    assert agentmail().read(headers, body, long_ago)
    with pytest.raises(Forged):
        agentmail().read(headers, body, NOW)
