"""A sender by Standard Webhooks 1.0.0: the recommended body, and Svix's signature under the standard's own names."""

from __future__ import annotations

import json

from ledger.settings import SourceSettings
from ledger.simulated import Sending, examples
from ledger.simulated.svix import headers_under
from ledger.simulated.svix import new_secret as new_secret

KIND = "standard-webhooks"


def example(source: SourceSettings, _secret: str, number: int) -> bytes:
    invoice = examples.invoice_paid(f"INV-{number}", f"customer{number}@example.com", "49.00")
    document = {"data": invoice}
    if not source.type_constant:
        examples.place(document, source.type_path or "type", examples.TYPE)
    examples.place(document, source.time_path or "timestamp", invoice["created"])
    return json.dumps(document).encode()


def headers(_source: SourceSettings, sending: Sending, body: bytes) -> dict[str, str]:
    return headers_under("webhook-", sending, body)
