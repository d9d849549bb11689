"""AgentMail, delivered by Svix (docs.agentmail.to: webhook verification, events).

Key: the body's `event_id`, stable over retries; occurrence: type, inbox and message, so that a message found again
without its event id is not a new event. Attempt: `svix-id`. Time: nested under the event's own object.
The published verifiers are not used: `svix` 2.9 and `standardwebhooks` 1.1 raise ValueError and binascii.Error on
malformed signatures, and neither lets the time be given.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ledger import payload
from ledger.errors import Misconfigured
from ledger.receiver.sources.adapter import (
    Forged,
    Identity,
    delivery,
    fresh,
    matches_any,
    moment,
    unusable,
)
from ledger.records import Delivery, Unusable
from ledger.settings import SourceSettings

ACK_WITHIN_S = 15
RETRY_HORIZON_H = 27.6  # Svix: 0, 5 s, 5 min, 30 min, 2, 5, 10, 10 h
NESTED = ("message", "send", "delivery", "bounce", "complaint", "reject")


class AgentMail:
    """Svix signatures `v1`; several secrets and several signatures during a rotation."""

    def __init__(self, name: str, settings: SourceSettings, secrets: Sequence[str]) -> None:
        self.name, self.settings = name, settings
        self.secrets = [_key(name, secret) for secret in secrets]

    def read(self, headers: Mapping[str, str], body: bytes, now: datetime) -> list[Delivery | Unusable]:
        self._check(headers, body, now)
        document = payload.parse(body)
        content_type = headers.get("content-type", "")
        found = _identity(document, headers.get("svix-id", ""))
        if isinstance(found, str):
            return [unusable(self.name, self.settings, found, body)]
        return [delivery(self.name, self.settings, found, document, body, content_type)]

    def _check(self, headers: Mapping[str, str], body: bytes, now: datetime) -> None:
        message_id, timestamp = headers.get("svix-id", ""), headers.get("svix-timestamp", "")
        signed = f"{message_id}.{timestamp}.".encode("utf-8", "surrogateescape") + body
        given = _signatures(headers.get("svix-signature", ""))
        if not fresh(timestamp, now, self.settings.tolerance_s) or not message_id:
            raise Forged
        if not matches_any(given, self.secrets, signed):
            raise Forged


def _key(name: str, secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix("whsec_") + "==", validate=False)
    except (binascii.Error, ValueError):
        raise Misconfigured(f"The secret of [sources.{name}] is not whsec_ and base64.") from None


def _signatures(header: str) -> list[bytes]:
    found = []
    for entry in header.split(" "):
        version, _, encoded = entry.partition(",")
        if version == "v1":
            try:
                found.append(base64.b64decode(encoded.encode("ascii"), validate=True))
            except (binascii.Error, ValueError):
                continue
    return found


def _identity(document: Any, svix_id: str) -> Identity | str:
    """What identifies the event, or why nothing does."""
    if not isinstance(document, Mapping):
        return "It is not an object."
    event_id, type_ = payload.identity(document.get("event_id")), payload.identity(document.get("event_type"))
    if event_id is None or type_ is None:
        return "It has no event_id or no event_type."
    inner: Mapping[str, Any] = next((document[n] for n in NESTED if isinstance(document.get(n), Mapping)), {})
    inbox, message = payload.identity(inner.get("inbox_id")), payload.identity(inner.get("message_id"))
    occurrence = (
        (type_, inbox, message) if inbox and message and type_.startswith("message.received") else None
    )
    return Identity(type_, (event_id,), occurrence, svix_id, moment(inner.get("timestamp")))
