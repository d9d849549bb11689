"""Stripe's events: what is authentic, what makes the key, and what the published verifier would have let happen."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stripe import SignatureVerificationError, WebhookSignature

from ledger.errors import Misconfigured
from ledger.payload import Malformed
from ledger.receiver.sources.adapter import Forged
from ledger.receiver.sources.stripe import Stripe
from ledger.records import Delivery, Unusable
from ledger.settings import SourceSettings
from tests.receiver import known
from tests.receiver import signed as fix

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = int(NOW.timestamp())


def stripe(*secrets: str, name: str = "payments", **settings: Any) -> Stripe:
    table = SourceSettings(kind="stripe", namespace="acme", secrets=("S",), **settings)
    return Stripe(name, table, secrets or [known.STRIPE_SECRET])


def read(body: bytes, *secrets: str, source: Stripe | None = None, at_s: int = AT) -> Any:
    (item,) = (source or stripe()).read(fix.stripe(body, *secrets, at_s=at_s), body, NOW)
    return item


def test_what_stripe_says_becomes_a_delivery() -> None:
    body = fix.stripe_event("evt_9", "invoice.paid")
    found = read(body)
    assert (found.type, found.event_key, found.body) == ("invoice.paid", "evt_9", body)
    assert found.occurred_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert found.occurrence_digest is None


def test_a_thin_event_is_an_event_too() -> None:
    thin = {"id": "evt_test_65", "object": "v2.core.event", "type": "v1.billing.meter.error_report_triggered"}
    thin |= {"created": "2026-03-01T10:00:00.5Z", "related_object": {"id": "mtr_1", "type": "billing.meter"}}
    found = read(json.dumps(thin).encode())
    assert (found.event_key, found.occurred_at) == (
        "evt_test_65",
        datetime(2026, 3, 1, 10, 0, 0, 500_000, UTC),
    )


def test_attempts_resends_and_endpoints_share_an_event() -> None:
    first = read(fix.stripe_event(pending_webhooks=2))
    again = read(fix.stripe_event(pending_webhooks=0), at_s=AT + 200)
    elsewhere = read(fix.stripe_event(), source=stripe(name="platform"))
    assert first.key_digest == again.key_digest == elsewhere.key_digest
    assert first.content_digest == again.content_digest
    assert read(fix.stripe_event(livemode=True)).content_digest != first.content_digest


def test_two_events_about_one_object_are_two() -> None:
    found = [read(fix.stripe_event(event_id, "invoice.updated")) for event_id in ("evt_1", "evt_2")]
    assert found[0].key_digest != found[1].key_digest


# ── what is authentic ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "damage", ["none", "body", "time", "scheme", "secret", "short", "second", "other scheme", "case"]
)
def test_we_and_stripe_agree_on_what_is_authentic(damage: str) -> None:
    body, at_s = fix.stripe_event(), int(time.time())
    secret = "whsec_of somebody else" if damage == "secret" else known.STRIPE_SECRET
    header = fix.stripe(body, secret, at_s=at_s)["stripe-signature"]
    signature = header.partition("v1=")[2]
    header = {
        "time": header.replace(f"t={at_s}", f"t={at_s + 1}"),
        "scheme": header.replace("v1=", "v0="),
        "short": header[:-2],
        "second": f"t={at_s},v1={'0' * 64},v1={signature}",
        "other scheme": f"t={at_s},v0=aa,v1={signature},v2=bb",
        "case": f"t={at_s},V1={signature}",
    }.get(damage, header)
    body += b" " if damage == "body" else b""
    assert _ours(header, body) == _theirs(header, body) == (damage in ("none", "second", "other scheme"))


def _ours(header: str, body: bytes) -> bool:
    try:
        return bool(stripe().read({"stripe-signature": header}, body, datetime.now(UTC)))
    except Forged:
        return False


def _theirs(header: str, body: bytes) -> bool:
    try:
        return bool(WebhookSignature.verify_header(body.decode(), header, known.STRIPE_SECRET, tolerance=300))
    except SignatureVerificationError:
        return False


def test_where_the_published_verifier_does_not_hold_ours_does() -> None:
    body, ahead_s = fix.stripe_event(), int(time.time()) + 86_400
    with pytest.raises(TypeError):
        _theirs(f"t={AT},v1=é", body)
    assert not _ours(f"t={AT},v1=é", body)
    future = fix.stripe(body, at_s=ahead_s)["stripe-signature"]
    assert _theirs(future, body) and not _ours(future, body)
    spelled = future.replace(f"t={ahead_s}", f"t= +{ahead_s // 10**6}_{ahead_s % 10**6:06}")
    assert _theirs(spelled, body) and not _ours(spelled, body)


@given(
    header=st.one_of(
        st.text(alphabet="tv01=,aé 9\t", max_size=60),
        st.tuples(
            st.sampled_from([str(AT), "", "x", "١٢", "-1"]), st.text(alphabet="0aé=,", max_size=70)
        ).map(lambda parts: f"t={parts[0]},v1={parts[1]}"),
    )
)
def test_no_header_whatever_makes_anything_but_a_refusal(header: str) -> None:
    with pytest.raises(Forged):
        stripe().read({"stripe-signature": header}, b"{}", NOW)


def test_a_field_sent_twice_and_none_at_all_are_refused() -> None:
    body = fix.stripe_event()
    header = fix.stripe(body, at_s=AT)["stripe-signature"]
    for headers in ({}, {"stripe-signature": f"{header}, {header}"}):
        with pytest.raises(Forged):
            stripe().read(headers, body, NOW)


@pytest.mark.parametrize(
    ("held", "signed", "accepted"), [("o", "no", 1), ("no", "o", 1), ("n", "o", 0), ("n", "xx", 0)]
)
def test_sig_05_a_secret_is_rolled(held: str, signed: str, accepted: int) -> None:
    """`n` new, `o` old, `x` neither: what the source holds, and what the sender signs with."""
    named = {"n": known.STRIPE_SECRET, "o": known.OLD_STRIPE_SECRET, "x": "whsec_anything else"}
    source, body = stripe(*(named[one] for one in held)), fix.stripe_event()
    headers = fix.stripe(body, *(named[one] for one in signed), at_s=AT)
    try:
        assert len(source.read(headers, body, NOW)) == accepted
    except Forged:
        assert not accepted


@pytest.mark.parametrize(("offset_s", "accepted"), [(-301, False), (-299, True), (299, True), (301, False)])
def test_sig_07_an_attempt_is_as_old_as_the_tolerance_allows(offset_s: int, accepted: bool) -> None:
    body = fix.stripe_event()
    try:
        assert read(body, at_s=AT + offset_s) and accepted
    except Forged:
        assert not accepted


# ── what is in it ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "body",
    [
        *(fix.stripe_event(event_id) for event_id in (None, "", "  ", True, 1.5, [], {}, "a\x00", "\ud83c")),
        *(fix.stripe_event(type_=type_) for type_ in (None, "", 0.5, "t" * 201, "a\x00")),
        *(b"{}", b"null", b"42", b'"x"', b"[[]]", b"[1,2]", b'{"events":[]}'),
    ],
)
def test_without_a_usable_key_or_type_it_goes_to_quarantine(body: bytes) -> None:
    item = read(body)
    assert isinstance(item, Unusable) and item.body == body


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"id":NaN}', b'{"id":1,"id":2}', b"\xff", b"\xef\xbb\xbf{}", b"{}x"]
)
def test_what_is_no_document_is_malformed(body: bytes) -> None:
    headers = {"stripe-signature": f"t={AT},v1={_mac(body)}"}
    with pytest.raises(Malformed):
        stripe().read(headers, body, NOW)


def _mac(body: bytes) -> str:
    import hashlib
    import hmac

    return hmac.new(known.STRIPE_SECRET.encode(), f"{AT}.".encode() + body, hashlib.sha256).hexdigest()


def test_an_empty_list_is_a_ping() -> None:
    assert stripe().read(fix.stripe(b"[]", at_s=AT), b"[]", NOW) == []


def test_ignored_types_are_ignored() -> None:
    source = stripe(ignored_types=("invoice.updated",))
    found = read(fix.stripe_event(type_="invoice.updated"), source=source)
    assert isinstance(found, Delivery) and found.ignored


@pytest.mark.parametrize(
    "secret", ["sk_live_4eC39HqLyjWDarjtT1zdp7dc", "whsec_", "whsec_1", "whsec_1234567", ""]
)
def test_a_secret_that_is_none_of_stripes_stops_the_start(secret: str) -> None:
    with pytest.raises(Misconfigured, match=r"\[sources\.payments\]") as refused:
        stripe(secret)
    assert not secret or secret not in str(refused.value) or secret == "whsec_"
