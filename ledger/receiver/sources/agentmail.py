"""AgentMail, delivered by Svix (docs.agentmail.to: webhook verification, events; docs.svix.com: manual verification).

Key: the body's `event_id`, stable over retries. Occurrence: type, inbox and message of what was received, so that a
message found again without its event id is no new event; a status (delivered, bounced …) may come several times for
one message, recipient by recipient, and has none. Delivery: `svix-id`. Time: nested under the event's own object.
Order: off, unless `ordering_path` names a member of that object, as in "thread_id" or "inbox_id".

The signature is checked by the few lines below. The published verifiers (`svix` 2.9, `standardwebhooks` 1.1) do not
hold: a malformed signature raises ValueError or binascii.Error instead of their own error, `123.9` passes for the
time 123, and neither lets the time be given. The tests hold these lines against them and their published vector.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ledger import payload
from ledger.errors import Misconfigured
from ledger.receiver.sources.adapter import (
    Adapter,
    Headers,
    Identity,
    Item,
    Unfit,
    fresh,
    matches_any,
    require_id,
)

# Under which name an event carries its own object (agentmail 2.0.18, agentmail/events/types).
NESTED = ("message", "send", "delivery", "bounce", "complaint", "reject", "open")


class AgentMail(Adapter):
    """Svix signatures `v1`; several secrets and several signatures during a rotation."""

    @property
    def key_rule(self) -> tuple[str, ...]:
        return ("agentmail",)  # event ids are AgentMail's own: two of our sources that get one event share it

    def secret(self, text: str) -> bytes:
        try:
            encoded = text.removeprefix("whsec_")
            key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not key:
            raise Misconfigured(
                f"A secret of [sources.{self.name}] is not an AgentMail webhook secret. "
                "It begins with whsec_, base64 follows; copy it from the webhook's page."
            )
        return key

    def is_authentic(self, headers: Headers, body: bytes, received_at: datetime) -> bool:
        """Svix signs `id.timestamp.body`; the header may hold several signatures, apart by blanks."""
        svix_id, timestamp = headers.get("svix-id", ""), headers.get("svix-timestamp", "")
        if not svix_id or not fresh(timestamp, received_at, self.settings.tolerance_s):
            return False
        head = f"{svix_id}.{timestamp}.".encode("latin-1")  # as header bytes became text
        return matches_any(_signatures(headers.get("svix-signature", "")), self.secrets, head, body)

    def items(self, headers: Headers, body: bytes) -> list[Item]:
        document = payload.parse(body)
        if document == []:
            return []
        if not isinstance(document, Mapping):
            raise Unfit("It is not an object.")
        return [self.delivery(_identity(document, headers), document, body, headers)]

    def ordered_in(self, document: Any) -> Any:
        return _inner(document)


def _signatures(header: str) -> list[bytes]:
    found = []
    for entry in header.split(" "):
        version, _, encoded = entry.partition(",")
        if version == "v1":
            try:
                found.append(base64.b64decode(encoded, validate=True))
            except (binascii.Error, ValueError):
                continue
    return found


def _identity(document: Mapping[str, Any], headers: Headers) -> Identity:
    type_ = require_id(document.get("event_type"), "event_type")
    event_id = require_id(document.get("event_id"), "event_id")
    inner = _inner(document)
    return Identity(
        type=type_,
        key=(event_id,),
        occurrence=_occurrence(type_, inner),
        delivery_id=headers.get("svix-id", ""),
        occurred_at=payload.moment(inner.get("timestamp")),
    )


def _inner(document: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in NESTED:
        found = document.get(name)
        if isinstance(found, Mapping):
            return found
    return {}


def _occurrence(type_: str, message: Mapping[str, Any]) -> tuple[str, ...] | None:
    inbox, message_id = payload.identity(message.get("inbox_id")), payload.identity(message.get("message_id"))
    if inbox and message_id and type_.startswith("message.received"):
        return type_, inbox, message_id
    return None
