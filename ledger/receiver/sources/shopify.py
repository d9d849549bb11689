"""Shopify's webhooks, and the preview of its Events (shopify.dev: verify deliveries, delivery structure, ignore duplicates).

Key: shop, topic, webhook id and event id, all four. Shopify's pages disagree on the two ids: either they name a delivery
(stable over its retries) and a merchant's action, or a subscription and an event. Together they are right either way; a
request that lacks one of the four goes to quarantine. By the first id the subscription is part of the key: what two
overlapping subscriptions bring meets in the action key. Nothing differs between retries, and an attempt has no id.

Signed is the body alone, under the app's client secret as text (for webhooks made in a shop's admin: the key shown there);
for up to an hour after a rotation the old one still signs. Headers are not signed and there is no timestamp: who recorded a
request could send its body again under other ids. `repeats_by_body` stops that, and makes one event of what overlapping
subscriptions bring; it is wrong where `include_fields` leaves bodies alike. The Events preview writes `Shopify-` for
`X-Shopify-`; the two are never mixed.
"""

from __future__ import annotations

from typing import Any

from ledger import payload
from ledger.receiver.sources.adapter import Adapter, Arrival, Headers, Identity, require_id
from ledger.receiver.sources.facts import Facts
from ledger.receiver.sources.signing import decoded, matches_any

PREFIXES = ("x-shopify-", "shopify-")
SIGNATURE = "hmac-sha256"
KEY = ("shop-domain", "topic", "webhook-id", "event-id")


class Shopify(Adapter):
    """One app in all the shops that installed it; several secrets during a rotation."""

    kind = "shopify"
    facts = Facts(
        sender="Shopify",
        signature="`X-Shopify-Hmac-SHA256`: HMAC-SHA256 of the body, base64; headers are not signed",
        key="`X-Shopify-Shop-Domain`, `X-Shopify-Topic`, `X-Shopify-Webhook-Id`, `X-Shopify-Event-Id`",
        subscription="part of the key, by `X-Shopify-Webhook-Id`",
        occurrence="none; with `repeats_by_body` type and body",
        type="`X-Shopify-Topic`",
        event_time="`X-Shopify-Triggered-At`",
        resource_ids="the shop; `id` and `admin_graphql_api_id` of the body",
        ack_s=5.0,
        retries="8 within 4 h; after 8 failures in a row a subscription made by API is deleted",
        takes=frozenset(("repeats_by_body",)),
    )

    @property
    def key_rule(self) -> tuple[str, ...]:
        return ("shopify",)  # the shop is in the key, and ids are Shopify's own

    @property
    def named_by_headers(self) -> tuple[str, ...]:
        return tuple(f"X-Shopify-{name.title()}" for name in KEY)

    def is_authentic(self, arrival: Arrival) -> bool:
        """A connection is given up after 1 s."""
        header = _said(arrival.headers, SIGNATURE)
        given = [one for text in header.split(",") for one in decoded(text.strip(), "base64")]
        return matches_any(given, self.secrets, arrival.body)

    def identity(self, document: Any, arrival: Arrival) -> Identity:
        key = tuple(require_id(_said(arrival.headers, name), name) for name in KEY)
        return Identity(
            type=key[KEY.index("topic")],
            key=key,
            delivery_id=_said(arrival.headers, "webhook-id"),
            occurred_at=payload.moment(_said(arrival.headers, "triggered-at")),
        )


def _said(headers: Headers, name: str) -> str:
    """A header of the family that the signature came with."""
    prefix = next((prefix for prefix in PREFIXES if prefix + SIGNATURE in headers), PREFIXES[0])
    return headers.get(prefix + name, "")
