"""Shopify's webhooks: a signature over the body alone, and a key that is right whichever of its pages is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import Misconfigured
from ledger.payload import Malformed
from ledger.receiver.sources.adapter import Forged
from ledger.receiver.sources.shopify import KEY, Shopify
from ledger.records import Delivery, Unusable
from ledger.settings import SourceSettings
from tests.receiver import known
from tests.receiver import signed as fix

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BODY = b'{"id":820982911946154508,"email":"jon@example.com","total_price":"403.00"}'


def shopify(*secrets: str, **settings: Any) -> Shopify:
    table = SourceSettings(kind="shopify", namespace="acme", secrets=("S",), **settings)
    return Shopify("shops", table, secrets or [known.SHOPIFY_SECRET])


def read(body: bytes = BODY, **said: Any) -> Any:
    (item,) = shopify().read(fix.shopify(body, **said), body, NOW)
    return item


def test_a_published_vector_is_authentic() -> None:
    """Of SQLPage's manual (sqlpage.hmac), made for just this header."""
    body = b'{"id":1234567890,"email":"customer@example.com","total_price":"123.45"}'
    headers = fix.shopify(body) | {"x-shopify-hmac-sha256": "QNyObTlKbMx2qDlPF/ZOZcBqg5OgPg+2oky3zldc0Gw="}
    (found,) = shopify("test-webhook-secret").read(headers, body, NOW)
    assert found.type == "orders/create"
    with pytest.raises(Forged):
        shopify("test-webhook-secret").read(headers, body + b" ", NOW)


def test_what_shopify_says_becomes_a_delivery() -> None:
    found = read()
    assert (found.type, found.delivery_id, found.body) == ("orders/create", "w-1", BODY)
    assert found.event_key == "acme.myshopify.com orders/create w-1 e-1"
    assert found.occurred_at == datetime(2026, 3, 1, 10, 0, 0, 123_456, UTC)


def test_the_preview_of_events_has_the_same_names_without_an_x() -> None:
    assert read(family="shopify-").key_digest == read().key_digest
    mixed = {**fix.shopify(BODY, family="shopify-"), "x-shopify-webhook-id": "w-2"}
    (found,) = shopify().read(mixed, BODY, NOW)
    assert found.delivery_id == "w-1"


@pytest.mark.parametrize("other", ["shop_domain", "topic", "webhook_id", "event_id"])
def test_whichever_id_differs_it_is_another_event(other: str) -> None:
    assert read(**{other: "another"}).key_digest != read().key_digest


def test_a_retry_is_the_same_event() -> None:
    first, again = read(), read(triggered_at="2026-03-01T11:00:00Z")
    assert (first.key_digest, first.content_digest) == (again.key_digest, again.content_digest)


def test_a_body_sent_again_under_other_ids_is_a_repeat_if_we_say_so() -> None:
    guarded = shopify(repeats_by_body=True)
    (first,) = guarded.read(fix.shopify(BODY), BODY, NOW)
    (again,) = guarded.read(fix.shopify(BODY, webhook_id="w-2", event_id="e-2"), BODY, NOW)
    assert isinstance(first, Delivery) and isinstance(again, Delivery)
    assert first.occurrence_digest == again.occurrence_digest is not None
    assert read().occurrence_digest is None


@pytest.mark.parametrize("missing", ["shop_domain", "topic", "webhook_id", "event_id"])
@pytest.mark.parametrize("text", [None, "", "  "])
def test_key_03_without_one_part_of_the_key_it_goes_to_quarantine(missing: str, text: str | None) -> None:
    item = read(**{missing: text})
    assert isinstance(item, Unusable) and item.body == BODY
    assert item.reason == f"It has no usable {missing.replace('_', '-')}."
    assert missing.replace("_", "-") in KEY


@pytest.mark.parametrize("damage", ["", "zz", "é", "====", "deadbeef", "a" * 44, ","])
def test_a_signature_that_is_none_is_refused(damage: str) -> None:
    for headers in (fix.shopify(BODY) | {"x-shopify-hmac-sha256": damage}, {}):
        with pytest.raises(Forged):
            shopify().read(headers, BODY, NOW)


@given(st.text(alphabet="aA0+/=, é\t", max_size=60))
def test_no_header_whatever_makes_anything_but_a_refusal(text: str) -> None:
    with pytest.raises(Forged):
        shopify().read({"x-shopify-hmac-sha256": text, "shopify-hmac-sha256": text}, BODY, NOW)


def test_sig_05_a_secret_is_replaced() -> None:
    both, old = shopify(known.SHOPIFY_SECRET, known.OLD_SHOPIFY_SECRET), known.OLD_SHOPIFY_SECRET
    for signed in ((known.SHOPIFY_SECRET,), (old,), (old, known.SHOPIFY_SECRET), ("another", old)):
        assert both.read(fix.shopify(BODY, *signed), BODY, NOW)
    with pytest.raises(Forged):
        shopify().read(fix.shopify(BODY, old), BODY, NOW)


@pytest.mark.parametrize("body", [b"", b"{", b'{"id":NaN}', b'{"id":1,"id":2}', b"\xff", b"{}x"])
def test_what_is_no_document_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        shopify().read(fix.shopify(body), body, NOW)


@pytest.mark.parametrize("body", [b"{}", b"null", b"42", b'"x"', b"[[]]", b"[1,2]"])
def test_bat_04_any_document_is_an_event_for_its_key_is_in_the_headers(body: bytes) -> None:
    found = read(body)
    assert isinstance(found, Delivery) and found.body == body


def test_a_secret_that_is_too_short_stops_the_start() -> None:
    with pytest.raises(Misconfigured, match=r"\[sources\.shops\]"):
        shopify("short")
