"""Inboxili: a delivered notice, signed as its published package checks it."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from ledger.settings import SourceSettings
from ledger.simulated import Sending, examples

KIND = "inboxili"


def example(source: SourceSettings, _secret: str, number: int) -> bytes:
    message_id = f"<{secrets.token_hex(10)}@example.com>"
    return examples.inboxili_notice(source, "delivered", message_id, f"customer{number}@example.com")


def headers(_source: SourceSettings, sending: Sending, body: bytes) -> dict[str, str]:
    return {"X-Inboxili-Signature": hmac.new(sending.secret.encode(), body, hashlib.sha256).hexdigest()}
