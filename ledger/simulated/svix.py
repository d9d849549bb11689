"""Svix's signature, as its documentation has it (docs.svix.com, verifying payloads): shared by those delivered so."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from ledger.settings import SourceSettings
from ledger.simulated import Sending

SECRET_BYTES = 24  # what Svix makes; its documentation asks for 24 to 64


def headers_under(prefix: str, sending: Sending, body: bytes) -> dict[str, str]:
    """HMAC-SHA256 over `id.timestamp.body`, base64. `prefix` is `svix-`, or `webhook-` for Standard Webhooks."""
    key = base64.b64decode(sending.secret.removeprefix("whsec_") + "==")
    mac = hmac.new(key, f"{sending.delivery}.{sending.at_s}.".encode() + body, hashlib.sha256).digest()
    value = "v1," + base64.b64encode(mac).decode()
    return {
        f"{prefix}id": sending.delivery,
        f"{prefix}timestamp": str(sending.at_s),
        f"{prefix}signature": value,
    }


def new_secret(_source: SourceSettings) -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
