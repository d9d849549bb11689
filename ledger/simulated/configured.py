"""A sender whose signature and names are those of the configuration: shared by the kinds that have them from there."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from ledger import payload
from ledger.settings import SourceSettings
from ledger.simulated import Sending, examples

SECRET_BYTES = 32
CONTENT_TYPES = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
    "text": "text/plain; charset=utf-8",
}


def example(source: SourceSettings, _secret: str, number: int, *, type_: str = examples.TYPE) -> bytes:
    """An invoice that was paid, with its parts where the source looks for them, spelled as it reads them."""
    invoice = f"INV-{secrets.randbelow(900_000) + 100_000}"
    document = examples.invoice_paid(invoice, f"customer{number}@example.com", "49.00")
    key = (
        f"Message-ID: <{document['id']}@example.com>"
        if source.key_spelling == "message-id"
        else document["id"]
    )
    paths = dict.fromkeys((*source.key_with, source.subscription_path), "1")
    paths |= {source.key_path: key, source.type_path: type_, source.time_path: document["created"]}
    for path, value in paths.items():
        examples.place(document, path, value)
    return _spelled(source, document)


def headers(
    source: SourceSettings, sending: Sending, body: bytes, *, type_: str = examples.TYPE
) -> dict[str, str]:
    timestamp = str(sending.at_s * 1000 if source.timestamp_unit == "ms" else sending.at_s)
    given = {
        source.delivery_header: sending.delivery,
        source.subscription_header: "1",
        source.key_header: hashlib.sha256(body).hexdigest()[:24],  # the same for copies of the same event
        source.type_header: type_,
        source.timestamp_header: timestamp,
        "Content-Type": CONTENT_TYPES[source.body_format],
    }
    given[source.signature_header] = source.signature_prefix + _signature(source, sending.secret, given, body)
    return {name: value for name, value in given.items() if name}


def _spelled(source: SourceSettings, document: dict[str, Any]) -> bytes:
    """As JSON with JSON inside, as a form, or as a text that is its own headers."""
    for path in source.json_inside:
        inner = payload.look_up(document, path)
        examples.place(document, path, json.dumps({} if inner is None else inner))
    if source.body_format == "json":
        return json.dumps(document).encode()
    if source.body_format == "text":
        return f"Message-ID:\r\n\t<{document['id']}@example.com>\r\n\r\n{json.dumps(document)}".encode()
    fields = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in document.items()
    }
    return urlencode(fields).encode()


def _signature(source: SourceSettings, secret: str, headers: Mapping[str, str], body: bytes) -> str:
    template = source.signed or ("{timestamp}.{body}" if source.timestamp_header else "{body}")
    named = (
        ("timestamp", source.timestamp_header),
        ("delivery", source.delivery_header),
        ("key", source.key_header),
    )
    for name, header in named:
        template = template.replace(f"{{{name}}}", headers.get(header, ""))
    before, _, after = template.partition("{body}")
    key = {"text": str.encode, "hex": bytes.fromhex, "base64": base64.b64decode}[source.secret_form](secret)
    mac = hmac.new(key, before.encode() + body + after.encode(), source.algorithm).digest()
    return mac.hex() if source.encoding == "hex" else base64.b64encode(mac).decode()


def new_secret(source: SourceSettings) -> str:
    """In the form that the source is told."""
    raw = secrets.token_bytes(SECRET_BYTES)
    return {"text": secrets.token_urlsafe(SECRET_BYTES), "hex": raw.hex()}.get(
        source.secret_form
    ) or base64.b64encode(raw).decode()
