"""Shopify: an order, signed as shopify.dev has it: the body alone, base64; shop, topic and ids are headers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from datetime import UTC, datetime

from ledger.settings import SourceSettings
from ledger.simulated import Sending

KIND = "shopify"


def example(_source: SourceSettings, _secret: str, number: int) -> bytes:
    order_id = secrets.randbelow(10**12)
    order = {"id": order_id, "admin_graphql_api_id": f"gid://shopify/Order/{order_id}"}
    return json.dumps(order | {"email": f"customer{number}@example.com", "total_price": "49.00"}).encode()


def headers(_source: SourceSettings, sending: Sending, body: bytes) -> dict[str, str]:
    mac = hmac.new(sending.secret.encode(), body, hashlib.sha256).digest()
    return {
        "X-Shopify-Hmac-SHA256": base64.b64encode(mac).decode(),
        "X-Shopify-Shop-Domain": "acme.myshopify.com",
        "X-Shopify-Topic": "orders/create",
        "X-Shopify-Webhook-Id": sending.delivery,
        "X-Shopify-Event-Id": hashlib.sha256(body).hexdigest()[:32],  # the same for copies of the same event
        "X-Shopify-Triggered-At": datetime.fromtimestamp(sending.at_s, UTC).isoformat(),
    }
