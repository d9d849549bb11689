"""Stripe: a snapshot event, signed as docs.stripe.com/webhooks has it: `t.body` under the whole text of the secret."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from typing import Any

from ledger.settings import SourceSettings
from ledger.simulated import Sending

KIND = "stripe"


def example(_source: SourceSettings, _secret: str, number: int) -> bytes:
    invoice = {"id": f"in_{secrets.token_hex(8)}", "object": "invoice", "amount_paid": 4900}
    invoice |= {"currency": "eur", "customer_email": f"customer{number}@example.com"}
    event: dict[str, Any] = {"id": f"evt_{secrets.token_hex(12)}", "object": "event", "type": "invoice.paid"}
    event |= {"created": int(time.time()), "data": {"object": invoice}, "pending_webhooks": 1}
    return json.dumps(event).encode()


def headers(_source: SourceSettings, sending: Sending, body: bytes) -> dict[str, str]:
    signed = f"{sending.at_s}.".encode() + body
    mac = hmac.new(sending.secret.encode(), signed, hashlib.sha256).hexdigest()
    return {"Stripe-Signature": f"t={sending.at_s},v1={mac}"}


def new_secret(_source: SourceSettings) -> str:
    return "whsec_" + secrets.token_hex(16)
