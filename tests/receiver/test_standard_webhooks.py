"""Standard Webhooks and Svix: one scheme, two families of headers, held against the published verifiers."""

from __future__ import annotations

import base64
import json
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError
from svix.webhooks import Webhook as Svix

from ledger.errors import Misconfigured
from ledger.payload import Malformed
from ledger.receiver.sources.adapter import Forged
from ledger.receiver.sources.standard_webhooks import StandardWebhooks
from ledger.records import Delivery, Unusable
from ledger.settings import SourceSettings
from tests.receiver import known
from tests.receiver import signed as fix

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = int(NOW.timestamp())
BODY = b'{"type":"user.created","timestamp":"2026-03-01T10:00:00Z","data":{"id":"u-1"}}'


def standard(*secrets: str, name: str = "anybody", **settings: Any) -> StandardWebhooks:
    table = SourceSettings(kind="standard-webhooks", namespace="acme", secrets=("S",), **settings)
    return StandardWebhooks(name, table, secrets or [known.STANDARD_SECRET])


def read(body: bytes = BODY, source: StandardWebhooks | None = None, **about: Any) -> Any:
    (item,) = (source or standard()).read(fix.standard(body, **{"at_s": AT} | about), body, NOW)
    return item


# ── what is authentic ─────────────────────────────────────────────────────────────────────────────────

# standard-webhooks, libraries/javascript/src/webhook.test.ts; docs.svix.com, verifying payloads: how-manual.
VECTORS = [
    (
        *("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "webhook-", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330),
        *(b'{"test": 2432232314}', "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ),
    (
        *("whsec_plJ3nmyCDGBKInavdOK15jsl", "svix-", "msg_loFOjxBNrRLzqYUf", 1731705121),
        *(
            b'{"event_type":"ping","data":{"success":true}}',
            "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
        ),
    ),
]


@pytest.mark.parametrize(("secret", "family", "message_id", "at_s", "body", "signature"), VECTORS)
def test_the_published_vectors_are_authentic(
    secret: str, family: str, message_id: str, at_s: int, body: bytes, signature: str
) -> None:
    headers = {family + "id": message_id, family + "timestamp": str(at_s), family + "signature": signature}
    at, source = datetime.fromtimestamp(at_s, UTC), standard(secret, type_constant="test")
    assert [item.event_key for item in source.read(headers, body, at) if isinstance(item, Delivery)] == [
        message_id
    ]
    for name in headers:
        with pytest.raises(Forged):
            source.read({**headers, name: headers[name] + "1"}, body, at)
        with pytest.raises(Forged):
            source.read({n: v for n, v in headers.items() if n != name}, body, at)


@pytest.mark.parametrize("family", ["webhook-", "svix-"])
@pytest.mark.parametrize(
    "damage", ["none", "body", "id", "version", "secret", "truncated", "second", "asymmetric"]
)
def test_we_and_the_published_verifier_agree_on_what_is_authentic(family: str, damage: str) -> None:
    at = datetime.now(UTC)
    secret = "whsec_" + base64.b64encode(b"somebody else's secret key").decode()
    signed = fix.standard(
        BODY, *([secret] if damage == "secret" else []), at_s=int(at.timestamp()), family=family
    )
    signature = signed[family + "signature"]
    headers = signed | {
        "id": {family + "id": "msg_2"},
        "version": {family + "signature": signature.replace("v1,", "v2,")},
        "truncated": {family + "signature": signature[:-4]},
        "second": {family + "signature": f"v1,{base64.b64encode(b'0' * 32).decode()} {signature}"},
        "asymmetric": {family + "signature": f"v1a,AAAA {signature}"},
    }.get(damage, {})
    body = BODY + (b" " if damage == "body" else b"")
    assert _ours(headers, body, at) == _theirs(headers, body) == (damage in ("none", "second", "asymmetric"))


def _ours(headers: dict[str, str], body: bytes, at: datetime) -> bool:
    try:
        return bool(standard().read(headers, body, at))
    except Forged:
        return False


def _theirs(headers: dict[str, str], body: bytes) -> bool:
    published = Webhook if "webhook-id" in headers else Svix
    try:
        published(known.STANDARD_SECRET).verify(body, headers)
    except (WebhookVerificationError, ValueError):
        return False
    return True


def test_the_two_families_are_never_mixed() -> None:
    mixed = {**fix.standard(BODY, at_s=AT), "svix-id": "msg_2"}
    with pytest.raises(Forged):
        standard().read(mixed, BODY, NOW)
    both = fix.standard(BODY, at_s=AT, message_id="msg_w") | fix.standard(
        BODY, at_s=AT, message_id="msg_s", family="svix-"
    )
    (found,) = standard().read(both, BODY, NOW)
    assert isinstance(found, Delivery) and found.event_key == "msg_s"


@given(
    signature=st.text(alphabet="v1a, =+/AbZ9é\t", max_size=60),
    message_id=st.text(alphabet="msg_ é1", max_size=8),
    timestamp=st.sampled_from([str(AT), "0", "", "x", "123.9", "-1", "+1", " 1", "١٢٣", "9" * 400]),
)
def test_no_header_whatever_makes_anything_but_a_refusal(
    signature: str, message_id: str, timestamp: str
) -> None:
    for family in ("webhook-", "svix-"):
        headers = {
            family + "id": message_id,
            family + "timestamp": timestamp,
            family + "signature": signature,
        }
        with pytest.raises(Forged):
            standard().read(headers, b"{}", NOW)


def test_sig_05_a_secret_is_replaced() -> None:
    old, new = known.OLD_STANDARD_SECRET, known.STANDARD_SECRET
    for held, signed in (((old, new), (old,)), ((new,), (old, new)), ((old,), (old, new))):
        assert standard(*held).read(fix.standard(BODY, *signed, at_s=AT), BODY, NOW)
    with pytest.raises(Forged):
        standard(new).read(fix.standard(BODY, old, at_s=AT), BODY, NOW)


@pytest.mark.parametrize(("offset_s", "accepted"), [(-301, False), (-299, True), (299, True), (301, False)])
def test_sig_07_an_attempt_is_as_old_as_the_tolerance_allows(offset_s: int, accepted: bool) -> None:
    try:
        assert read(at_s=AT + offset_s) and accepted
    except Forged:
        assert not accepted


@pytest.mark.parametrize(
    "secret",
    [
        "whsec_",
        "whsec_!!!!",
        "",
        "whsec_é",
        "whpk_AAAA",
        "whpk_",
        "whsk_AAAA",
        "hunter2 hunter2",
        "whsec_QQ==",
    ],
)
def test_a_secret_that_is_none_stops_the_start(secret: str) -> None:
    with pytest.raises(Misconfigured, match=r"\[sources\.anybody\]") as refused:
        standard(secret)
    assert not secret[6:] or secret not in str(refused.value)


# ── ed25519 ───────────────────────────────────────────────────────────────────────────────────────────

# standard-webhooks, libraries/go/webhook_asymmetric_test.go: the vector, and the private key it was made with.
PRIVATE_KEY = Ed25519PrivateKey.from_private_bytes(
    base64.b64decode("VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=")
)
PUBLIC_KEY = "whpk_" + base64.b64encode(PRIVATE_KEY.public_key().public_bytes_raw()).decode()
MADE_AT, MADE_OF = datetime.fromtimestamp(1614265330, UTC), b'{"test": 2432232314}'
MADE = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag==",
}


def test_the_published_asymmetric_vector_is_authentic() -> None:
    source = standard(PUBLIC_KEY, type_constant="test")
    assert source.read(MADE, MADE_OF, MADE_AT)
    for name in MADE:
        with pytest.raises(Forged):
            source.read({**MADE, name: MADE[name] + "1"}, MADE_OF, MADE_AT)
    for damaged in (
        MADE | {"webhook-signature": MADE["webhook-signature"].replace("v1a", "v1")},
        MADE | {"webhook-signature": "v1a,AAAA"},
    ):
        with pytest.raises(Forged):
            source.read(damaged, MADE_OF, MADE_AT)
    with pytest.raises(Forged):
        source.read(MADE, MADE_OF + b" ", MADE_AT)
    with pytest.raises(Forged):
        standard(type_constant="test").read(MADE, MADE_OF, MADE_AT)


def test_a_sender_may_go_from_one_sort_of_key_to_the_other() -> None:
    both = standard(PUBLIC_KEY, VECTORS[0][0], type_constant="test")
    symmetric = MADE | {"webhook-signature": VECTORS[0][-1]}
    together = MADE | {"webhook-signature": f"{VECTORS[0][-1]} {MADE['webhook-signature']}"}
    for headers in (MADE, symmetric, together):
        assert both.read(headers, MADE_OF, MADE_AT)
    with pytest.raises(Forged):
        standard(PUBLIC_KEY, type_constant="test").read(symmetric, MADE_OF, MADE_AT)


def test_a_public_key_without_the_package_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    with pytest.raises(Misconfigured, match=r"not-twice\[ed25519\]"):
        standard(PUBLIC_KEY)
    assert standard()


# ── what is in it ─────────────────────────────────────────────────────────────────────────────────────


def test_what_a_sender_says_becomes_a_delivery() -> None:
    found = read(message_id="msg_7")
    assert (found.type, found.event_key, found.delivery_id, found.body) == (
        "user.created",
        "msg_7",
        "msg_7",
        BODY,
    )
    assert found.occurred_at == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_an_attempt_an_endpoint_and_a_family_are_no_difference_but_a_sender_is() -> None:
    first, again, branded = read(), read(at_s=AT + 100), read(family="svix-")
    assert first.key_digest == again.key_digest == branded.key_digest
    assert read(source=standard(name="somebody")).key_digest != first.key_digest
    assert read(message_id="msg_2").key_digest != first.key_digest


def test_a_sender_with_other_names_is_told_by_paths() -> None:
    body = json.dumps({"event_type": "email.sent", "made": {"at": 1_772_359_200}}).encode()
    found = read(body, source=standard(type_path="event_type", time_path="made.at"))
    assert (found.type, found.occurred_at) == ("email.sent", datetime(2026, 3, 1, 10, tzinfo=UTC))
    assert read(b"[1,2]", source=standard(type_constant="batch")).type == "batch"


@pytest.mark.parametrize(
    "body",
    [
        *(json.dumps({"type": type_}).encode() for type_ in (None, "", 1.5, True, "t" * 201, "a\x00")),
        *(b"{}", b"null", b"42", b'"x"', b"[[]]", b"[1,2]", b'{"event_type":"ping"}'),
    ],
)
def test_without_a_usable_type_it_goes_to_quarantine(body: bytes) -> None:
    item = read(body)
    assert isinstance(item, Unusable) and item.body == body


def test_a_blank_id_goes_to_quarantine_although_it_is_signed() -> None:
    assert isinstance(read(message_id="  "), Unusable)


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"type":NaN}', b'{"type":1,"type":2}', b"\xef\xbb\xbf{}", b"{}x"]
)
def test_what_is_no_document_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        standard().read(fix.standard(body, at_s=AT), body, NOW)


def test_an_empty_list_is_a_ping() -> None:
    assert standard().read(fix.standard(b"[]", at_s=AT), b"[]", NOW) == []
