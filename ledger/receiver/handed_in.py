"""The front door's side entrance, for what an operator hands in: one line of a file, or one message that was listed.

The same adapters read it, so types, keys, limits and quarantine are the front door's. Only the signature is not asked
for: who may run this process may write to the ledger anyway.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ledger import payload
from ledger.errors import Misconfigured
from ledger.payload import Malformed
from ledger.receiver import listed
from ledger.receiver.sources.adapter import Adapter, Headers, Item
from ledger.records import Delivery

DELIVERY_ID = "catch-up"  # so that an event's story tells how this delivery came
JSON: Headers = {"content-type": "application/json"}


def read(adapter: Adapter, form: str, body: bytes, bytes_max: int) -> list[Item]:
    """The events of one line. Raises Malformed: there is nothing that could be kept as an event.

    `form`: "body" as the provider posts it; "envelope", the same with its headers; "message" and "listing" of an API.
    """
    if len(body) > bytes_max:
        raise Malformed(f"It is larger than [receiver] body_bytes_max, {bytes_max:,} bytes.")
    return [_marked(item) for item in _items(adapter, form, body)]


def require_form(adapter: Adapter, form: str) -> None:
    """Raises Misconfigured for a form in which this source's events cannot come at all: said once, not for each line."""
    source = f"[sources.{adapter.name}] is of kind {adapter.kind}"
    if form == "listing":
        listed.require_list(adapter)
    elif form == "body" and (needed := ", ".join(adapter.named_by_headers)):
        raise Misconfigured(
            f"{source}, whose events are named by headers ({needed}), and lines of bodies alone have none. "
            'Write each line as {"headers": {…}, "body": "…"}, and say --envelopes.'
        )


def _items(adapter: Adapter, form: str, body: bytes) -> list[Item]:
    if form == "listing":
        return [listed.of_listing(adapter, payload.parse(body))]
    if form == "message":
        return [listed.of_message(adapter, body)]
    if form == "envelope":
        return adapter.found(*_opened(body))
    return adapter.found(JSON, body)


def _marked(item: Item) -> Item:
    if isinstance(item, Delivery) and not item.delivery_id:
        return replace(item, delivery_id=DELIVERY_ID)
    return item


def _opened(envelope: bytes) -> tuple[Headers, bytes]:
    """`{"headers": {…}, "body": "…"}`, or `body_base64` for what is no text. Raises Malformed."""
    document = payload.parse(envelope)
    if not isinstance(document, Mapping) or not isinstance(document.get("headers", {}), Mapping):
        raise Malformed('It is no envelope; write {"headers": {…}, "body": "…"}.')
    headers = {str(name).lower(): str(value) for name, value in document.get("headers", {}).items()}
    return {**JSON, **headers}, _body(document)


def _body(document: Mapping[str, Any]) -> bytes:
    text, coded = document.get("body"), document.get("body_base64")
    try:
        if isinstance(text, str) and coded is None:
            return text.encode()
        if isinstance(coded, str) and text is None:
            return base64.b64decode(coded, validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        raise Malformed("The body in its envelope cannot be read.") from None
    raise Malformed('It is no envelope; write {"headers": {…}, "body": "…"}.')
