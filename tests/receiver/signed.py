"""Requests as the providers sign them: Stripe's and Standard Webhooks' by their own packages, the others by hand."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook
from stripe import WebhookSignature

from tests.receiver.known import (
    GRAPH_SECRET,
    HUBSPOT_SECRET,
    PUBLIC_URL,
    SHOPIFY_SECRET,
    STANDARD_SECRET,
    STRIPE_SECRET,
)


def stripe(body: bytes, *secrets: str, at_s: int | None = None) -> dict[str, str]:
    """One v1 for each secret."""
    at_s = int(time.time()) if at_s is None else at_s
    made = [
        WebhookSignature.generate_signature_header(body.decode(), secret, at_s)
        for secret in secrets or (STRIPE_SECRET,)
    ]
    return {"stripe-signature": ",".join([f"t={at_s}", *(one.partition(",")[2] for one in made)])}


def stripe_event(event_id: Any = "evt_1", type_: Any = "invoice.paid", **members: Any) -> bytes:
    """A snapshot as Stripe's reference shows it."""
    data = {"object": {"id": "in_1", "object": "invoice", "amount_paid": 4900}}
    event = {"id": event_id, "object": "event", "type": type_, "created": 1_772_359_200, "data": data}
    return json.dumps(event | {"livemode": False, "pending_webhooks": 1} | members).encode()


def shopify(body: bytes, *secrets: str, family: str = "x-shopify-", **said: str | None) -> dict[str, str]:
    """`said` by the header's name without its family; None leaves one out."""
    given = {
        "shop_domain": "acme.myshopify.com",
        "topic": "orders/create",
        "webhook_id": "w-1",
        "event_id": "e-1",
    }
    given |= {"triggered_at": "2026-03-01T10:00:00.123456789Z"}
    headers = {
        family + name.replace("_", "-"): text for name, text in (given | said).items() if text is not None
    }
    made = [base64.b64encode(_mac(secret, body)).decode() for secret in secrets or (SHOPIFY_SECRET,)]
    return headers | {family + "hmac-sha256": ", ".join(made)}


def hubspot(body: bytes, *secrets: str, at_ms: int | None = None, url: str = PUBLIC_URL) -> dict[str, str]:
    at = str(int(time.time() * 1000) if at_ms is None else at_ms)
    signed = f"POST{url}".encode() + body + at.encode()
    made = [base64.b64encode(_mac(secret, signed)).decode() for secret in secrets or (HUBSPOT_SECRET,)]
    return {"x-hubspot-signature-v3": ", ".join(made), "x-hubspot-request-timestamp": at}


def hubspot_event(**members: Any) -> dict[str, Any]:
    """A change as HubSpot's reference shows it."""
    event = {
        "eventId": 1,
        "subscriptionId": 12345,
        "portalId": 62515,
        "appId": 54321,
        "occurredAt": 1_772_359_200_123,
    }
    event |= {"subscriptionType": "contact.propertyChange", "attemptNumber": 0, "objectId": 123}
    return (
        event | {"propertyName": "email", "propertyValue": "a@example.com", "changeSource": "CRM"} | members
    )


def graph_element(**members: Any) -> dict[str, Any]:
    """A notification as Graph's reference shows it."""
    element = {"id": "n-1", "subscriptionId": "s-1", "tenantId": "t-1", "clientState": GRAPH_SECRET}
    element |= {"changeType": "created", "resource": "users/u/messages/m"}
    data = {"@odata.type": "#Microsoft.Graph.Message", "@odata.etag": 'W/"CQAA"', "id": "m"}
    return (
        element | {"resourceData": data, "subscriptionExpirationDateTime": "2026-03-19T22:11:09Z"} | members
    )


def graph(*elements: Any) -> bytes:
    return json.dumps({"value": list(elements)}).encode()


def standard(
    body: bytes, *secrets: str, message_id: str = "msg_1", at_s: int | None = None, family: str = "webhook-"
) -> dict[str, str]:
    """One v1 for each secret, as the published package makes it."""
    at_s = int(time.time()) if at_s is None else at_s
    at, text = datetime.fromtimestamp(at_s, UTC), body.decode()
    made = [Webhook(secret).sign(message_id, at, text) for secret in secrets or (STANDARD_SECRET,)]
    return {family + "id": message_id, family + "timestamp": str(at_s), family + "signature": " ".join(made)}


def _mac(secret: str, signed: bytes) -> bytes:
    return hmac.new(secret.encode(), signed, hashlib.sha256).digest()
