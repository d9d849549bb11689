"""A sender whose signature and names are those of the configuration: shared by the kinds that have them from there."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets

from ledger import examples
from ledger.settings import SourceSettings
from ledger.simulated import Sending


def example(source: SourceSettings, _secret: str, number: int) -> bytes:
    """An invoice that was paid, with its parts where the source looks for them."""
    invoice = f"INV-{secrets.randbelow(900_000) + 100_000}"
    document = examples.invoice_paid(invoice, f"customer{number}@example.com", "49.00")
    paths = dict.fromkeys(source.key_with, "1") | {
        source.key_path: document["id"],
        source.type_path: examples.TYPE,
    }
    for path, value in paths.items():
        examples.place(document, path, value)
    if source.time_path:
        examples.place(document, source.time_path, document["created"])
    return json.dumps(document).encode()


def headers(source: SourceSettings, sending: Sending, body: bytes) -> dict[str, str]:
    timestamp = str(sending.at_s * 1000 if source.timestamp_unit == "ms" else sending.at_s)
    given = {
        source.signature_header: source.signature_prefix + _signature(source, sending, timestamp, body),
        source.timestamp_header: timestamp,
        source.delivery_header: sending.delivery,
        source.key_header: hashlib.sha256(body).hexdigest()[:24],  # the same for copies of the same event
        source.type_header: examples.TYPE,
    }
    return {name: value for name, value in given.items() if name}


def _signature(source: SourceSettings, sending: Sending, timestamp: str, body: bytes) -> str:
    template = source.signed or ("{timestamp}.{body}" if source.timestamp_header else "{body}")
    before, _, after = template.replace("{timestamp}", timestamp).partition("{body}")
    mac = hmac.new(sending.secret.encode(), before.encode() + body + after.encode(), hashlib.sha256).digest()
    return mac.hex() if source.encoding == "hex" else base64.b64encode(mac).decode()
