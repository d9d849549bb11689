"""HubSpot's events: the signature over an address that only the configuration knows, and a key of many parts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import Misconfigured
from ledger.payload import Malformed
from ledger.receiver.sources.adapter import Forged
from ledger.receiver.sources.hubspot import HubSpot
from ledger.records import Delivery, Unusable
from ledger.settings import SourceSettings
from tests.receiver import known
from tests.receiver import signed as fix

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = int(NOW.timestamp() * 1000)


def hubspot(*secrets: str, url: str = known.PUBLIC_URL, **settings: Any) -> HubSpot:
    table = SourceSettings(kind="hubspot", namespace="acme", secrets=("S",), public_url=url, **settings)
    return HubSpot("crm", table, secrets or [known.HUBSPOT_SECRET])


def read(*events: Any) -> list[Any]:
    body = json.dumps(events).encode()
    return hubspot().read(fix.hubspot(body, at_ms=AT), body, NOW)


def one(**members: Any) -> Any:
    (item,) = read(fix.hubspot_event(**members))
    return item


# ── what is authentic ─────────────────────────────────────────────────────────────────────────────────

# hubspot-api-python, tests/spec/utils/test_signature.py: its body is no JSON, its time is in 1970.
VECTOR_URL, VECTOR_BODY = "https://www.example.com/webhook_uri", b"{'example_field':'example_value'}"
VECTOR = {
    "x-hubspot-signature-v3": "HPW73RUtKmcYoEDADG0s6MmGFWUzWJKAW07r8RDgcQw=",
    "x-hubspot-request-timestamp": "15000000",
}
VECTOR_AT = datetime.fromtimestamp(15_000, UTC)


def test_the_published_vector_is_authentic() -> None:
    source = hubspot(url=VECTOR_URL)
    with pytest.raises(Malformed):  # authentic, and no JSON
        source.read(VECTOR, VECTOR_BODY, VECTOR_AT)
    for name in VECTOR:
        with pytest.raises(Forged):
            source.read({**VECTOR, name: VECTOR[name] + "1"}, VECTOR_BODY, VECTOR_AT)
        with pytest.raises(Forged):
            source.read({n: v for n, v in VECTOR.items() if n != name}, VECTOR_BODY, VECTOR_AT)
    for other in (
        f"{VECTOR_URL}/",
        VECTOR_URL.replace("https", "https")[:-1],
        "https://other.example/webhook_uri",
    ):
        with pytest.raises(Forged):
            hubspot(url=other).read(VECTOR, VECTOR_BODY, VECTOR_AT)


def test_the_address_is_the_configured_one_whatever_the_request_says() -> None:
    body = b"[]"
    headers = fix.hubspot(body, at_ms=AT) | {"host": "evil.example", "x-forwarded-host": "evil.example"}
    assert hubspot().read(headers, body, NOW, "/webhooks/crm?other=2") == []


def test_the_escapes_that_hubspot_undoes_are_undone_and_no_others() -> None:
    written = "https://a.example/%3A%2F%3F%40%21%24%27%28%29%2A%2C%3B%3a?x=%20%26%2B%3D%25"
    signed = "https://a.example/:/?@!$'()*,;:?x=%20%26%2B%3D%25"
    headers = fix.hubspot(b"[]", at_ms=AT, url=signed)
    assert hubspot(url=written).read(headers, b"[]", NOW) == []


@given(
    signature=st.text(alphabet="aA0+/=, é\t", max_size=60),
    timestamp=st.text(alphabet=f"{AT}.-+ é", max_size=20),
)
def test_no_header_whatever_makes_anything_but_a_refusal(signature: str, timestamp: str) -> None:
    for at in (timestamp, str(AT)):
        with pytest.raises(Forged):
            hubspot().read(
                {"x-hubspot-signature-v3": signature, "x-hubspot-request-timestamp": at}, b"[]", NOW
            )


def test_older_versions_of_the_signature_prove_nothing() -> None:
    headers = {**fix.hubspot(b"[]", at_ms=AT), "x-hubspot-signature-version": "v2"}
    del headers["x-hubspot-signature-v3"]
    with pytest.raises(Forged):
        hubspot().read(headers | {"x-hubspot-signature": "a" * 64}, b"[]", NOW)


@pytest.mark.parametrize(
    ("at", "accepted"),
    [(AT - 301_000, 0), (AT - 299_000, 1), (AT + 299_000, 1), (AT + 301_000, 0), (AT // 1000, 0), (0, 0)],
)
def test_sig_07_the_time_is_in_milliseconds(at: int, accepted: int) -> None:
    try:
        assert hubspot().read(fix.hubspot(b"[]", at_ms=at), b"[]", NOW) == [] and accepted
    except Forged:
        assert not accepted


def test_sig_05_a_secret_is_replaced() -> None:
    both = hubspot(known.HUBSPOT_SECRET, known.OLD_HUBSPOT_SECRET)
    old, new = known.OLD_HUBSPOT_SECRET, known.HUBSPOT_SECRET
    for signed in ((old,), (new,), (old, new), ("anything else", new)):
        assert both.read(fix.hubspot(b"[]", *signed, at_ms=AT), b"[]", NOW) == []
    with pytest.raises(Forged):
        hubspot().read(fix.hubspot(b"[]", old, at_ms=AT), b"[]", NOW)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.acme.example/x",
        "http://hooks.acme.example/x",
        "https://",
        "https://[",
        "https://?x",
        "ftp://127.0.0.1/x",
        "https://a.example/ x",
        "https://a.example/é",
    ],
)
def test_an_address_that_hubspot_cannot_call_stops_the_start(url: str) -> None:
    with pytest.raises(Misconfigured, match=r"\[sources\.crm\] public_url"):
        hubspot(url=url)


# ── what is in it ─────────────────────────────────────────────────────────────────────────────────────


def test_what_hubspot_says_becomes_a_delivery() -> None:
    found = one()
    assert (found.type, found.occurred_at) == (
        "contact.propertyChange",
        datetime(2026, 3, 1, 10, 0, 0, 123_000, UTC),
    )
    assert found.event_key.startswith(
        "62515 contact.propertyChange 1 1772359200123 appId=54321 subscriptionId=12345 objectId=123 propertyName=email value="
    )
    assert "a@example.com" not in found.event_key
    assert json.loads(found.body) == fix.hubspot_event()


def test_an_attempt_is_no_difference() -> None:
    first, again = one(), one(attemptNumber=3)
    assert (first.key_digest, first.content_digest) == (again.key_digest, again.content_digest)
    assert again.delivery_id == "attempt 3"


@pytest.mark.parametrize(
    "other",
    [
        *(
            {name: 99}
            for name in ("eventId", "subscriptionId", "portalId", "appId", "occurredAt", "objectId")
        ),
        *(
            {"subscriptionType": "contact.creation"},
            {"propertyName": "phone"},
            {"propertyValue": ""},
            {"objectTypeId": "0-1"},
        ),
        *({"fromObjectId": 1}, {"toObjectId": 1}, {"messageId": "m"}, {"primaryObjectId": 7}),
        *({"newObjectId": 7}, {"associationType": "CONTACT_TO_COMPANY"}),
    ],
)
def test_another_change_is_another_event(other: dict[str, Any]) -> None:
    assert one(**other).key_digest != one().key_digest


def test_a_value_without_a_text_is_a_value() -> None:
    kinds = [one(propertyValue=value).key_digest for value in (None, "", 1, True, [], {})]
    without = {name: value for name, value in fix.hubspot_event().items() if name != "propertyValue"}
    (bare,) = read(without)
    assert len({*kinds, bare.key_digest}) == 7


@pytest.mark.parametrize(
    "bad",
    [
        *({}, "str", None, 7, []),
        *(
            fix.hubspot_event(**{name: None})
            for name in ("portalId", "subscriptionType", "eventId", "occurredAt")
        ),
        *(fix.hubspot_event(eventId=value) for value in ("", "  ", True, 1.5, "a\x00b", "\ud83c")),
        *(fix.hubspot_event(subscriptionType=value) for value in (1.5, "t" * 201)),
        fix.hubspot_event(propertyName="a\x00"),
    ],
)
def test_bat_01_a_bad_element_goes_to_quarantine_and_its_neighbours_do_not(bad: Any) -> None:
    first, item, last = read(fix.hubspot_event(eventId=1), bad, fix.hubspot_event(eventId=2))
    assert isinstance(first, Delivery) and isinstance(last, Delivery)
    assert isinstance(item, Unusable) and item.index == 1 and json.loads(item.body) == bad


@pytest.mark.parametrize("body", [b"{}", b"null", b"42", b'"x"', json.dumps(fix.hubspot_event()).encode()])
def test_bat_04_what_is_no_list_goes_to_quarantine(body: bytes) -> None:
    (item,) = hubspot().read(fix.hubspot(body, at_ms=AT), body, NOW)
    assert isinstance(item, Unusable) and (item.reason, item.body) == ("It is not a list.", body)


@pytest.mark.parametrize("body", [b"", b"[", b"[NaN]", b'[{"a":1,"a":2}]', b"\xff", b"[]x"])
def test_what_is_no_document_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        hubspot().read(fix.hubspot(body, at_ms=AT), body, NOW)
