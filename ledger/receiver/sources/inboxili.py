"""Inboxili's webhooks about what became of a message: delivered, bounced.

Known from its two packages (inboxili 0.1.0 `webhooks.py`; inboxili-php): `X-Inboxili-Signature` is the hex HMAC-SHA256
of the exact body under the UTF-8 secret, without a prefix; blanks around it and its case do not matter. There is no
timestamp, so nothing but the key protects against a replay.

The body is not published. Its maker's article only says that the webhooks carry a `message_id`, and to tell copies
apart by the event id, or by message and type. Under which names the rest stands is therefore a setting, and the
defaults are assumptions (`ASSUMED_PATHS` in `ledger/settings_tables.py`). Key: type and event id; where there is no
event id, type, message and recipient. A body that is a list holds one event an element.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from ledger import payload
from ledger.errors import Misconfigured
from ledger.receiver.sources.adapter import Adapter, Headers, Identity, Item, matches_any, require_id
from ledger.records import Delivery

HEADER = "x-inboxili-signature"
SIGNATURE = re.compile(r"[0-9a-f]{64}")
SECRET_BYTES_MIN = 8


class Inboxili(Adapter):
    """One webhook endpoint of an Inboxili account; several secrets during a rotation."""

    @property
    def key_rule(self) -> tuple[str, ...]:
        return "inboxili", self.name  # whether event ids are unique over accounts is not published

    def secret(self, text: str) -> bytes:
        if len(text.encode()) < SECRET_BYTES_MIN:
            raise Misconfigured(
                f"A secret of [sources.{self.name}] is shorter than {SECRET_BYTES_MIN} bytes: anybody could guess it."
            )
        return text.encode()

    def is_authentic(self, headers: Headers, body: bytes, received_at: datetime) -> bool:
        """As the published `verify_webhook_signature`, which trims and lower-cases what was given."""
        given = headers.get(HEADER, "").strip().lower()
        signatures = [bytes.fromhex(given)] if SIGNATURE.fullmatch(given) else []
        return matches_any(signatures, self.secrets, body)

    def items(self, headers: Headers, body: bytes) -> list[Item]:
        def event(document: Any, spelled: bytes) -> Delivery:
            return self.delivery(self._identity(document), document, spelled, headers)

        return self.each(body, event) if body.lstrip()[:1] == b"[" else [event(payload.parse(body), body)]

    def _identity(self, document: Any) -> Identity:
        type_ = require_id(self._found(document, "type_path"), "type")
        occurred_at = payload.moment(self._found(document, "time_path"))
        return Identity(type_, self._key(type_, document), occurred_at=occurred_at)

    def _key(self, type_: str, document: Any) -> tuple[str, ...]:
        """The type is part of either: one id may stand for a message in several events about it."""
        event_id = payload.identity(self._found(document, "key_path"))
        if event_id:
            return type_, event_id
        message_id = require_id(self._found(document, "message_path"), "event id or message id")
        return type_, "message", message_id, *payload.texts(self._found(document, "recipient_path"))

    def _found(self, document: Any, name: str) -> Any:
        path = self.settings.path(name)
        return payload.look_up(document, path) if path else None
