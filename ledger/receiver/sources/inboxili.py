"""Inboxili's webhooks about what became of a message: delivered, bounced.

Known from its two packages (inboxili 0.1.0 `webhooks.py`; inboxili-php): `X-Inboxili-Signature` is the hex HMAC-SHA256
of the exact body under the UTF-8 secret, without a prefix; blanks around it and its case do not matter. There is no
timestamp, so nothing but the key protects against a replay.

The body is not published. Its maker's article only says that the webhooks carry a `message_id`, and to tell copies
apart by the event id, or by message and type. Under which names the rest stands is therefore a setting, and the
defaults are assumptions (`ASSUMED_PATHS` in `ledger/settings/sources.py`). Key: type and event id; where there is no
event id, type, message and recipient. A body that is a list holds one event an element.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ledger import payload
from ledger.receiver.sources.adapter import Adapter, Arrival, Identity, require_id
from ledger.receiver.sources.facts import Facts
from ledger.receiver.sources.signing import decoded, matches_any
from ledger.settings import SourceSettings
from ledger.settings.sources import BODY_PATHS, NOTICE_PATHS

HEADER = "x-inboxili-signature"
SIGNATURE = re.compile(r"[0-9a-f]{64}")


class Inboxili(Adapter):
    """One webhook endpoint of an Inboxili account; several secrets during a rotation."""

    kind = "inboxili"
    facts = Facts(
        sender="Inboxili",
        signature="`X-Inboxili-Signature`: HMAC-SHA256 over the body, hex; its case and blanks around it do not matter",
        key="type and event id (`key_path`); without an event id type, message and recipient",
        type="`type_path`, assumed to be `type`",
        event_time="`time_path`, assumed to be `timestamp`",
        resource_ids="`message_path`, assumed to be `message_id`; `recipient_path`, assumed to be `to`",
        lists=True,
        takes=frozenset(("notices", *BODY_PATHS, *NOTICE_PATHS)),
    )

    def __init__(self, name: str, settings: SourceSettings, secrets: Sequence[str]) -> None:
        super().__init__(name, settings, secrets)
        if not settings.path("type_path"):
            raise self.wrong("type_path", "is empty; without a type no event can be told from another")
        if not (settings.path("key_path") or settings.path("message_path")):
            raise self.wrong(
                "key_path", "is empty, and so is message_path; one of them makes the event's key"
            )

    def is_authentic(self, arrival: Arrival) -> bool:
        """As the published `verify_webhook_signature`, which trims and lower-cases what was given."""
        given = arrival.headers.get(HEADER, "").strip().lower()
        signatures = decoded(given, "hex") if SIGNATURE.fullmatch(given) else []
        return matches_any(signatures, self.secrets, arrival.body)

    def identity(self, document: Any, arrival: Arrival) -> Identity:
        type_ = require_id(self._at(document, "type_path"), "type")
        occurred_at = payload.moment(self._at(document, "time_path"))
        return Identity(type_, self._key(type_, document), occurred_at=occurred_at)

    def _key(self, type_: str, document: Any) -> tuple[str, ...]:
        """The type is part of either: one id may stand for a message in several events about it."""
        event_id = payload.identity(self._at(document, "key_path"))
        if event_id:
            return type_, event_id
        message_id = require_id(self._at(document, "message_path"), "event id or message id")
        return type_, "message", message_id, *payload.texts(self._at(document, "recipient_path"))

    def _at(self, document: Any, name: str) -> Any:
        path = self.settings.path(name)
        return payload.look_up(document, path) if path else None
