"""Any source that signs its body with HMAC-SHA256 and names its events in a header or in the body.

The key is the event's type and the id found by `key_header` or `key_path` (with `key_with` as further parts). With
`key_path`, a body that is a list holds one event an element; a bad element goes to quarantine, its neighbours do not.
Without a signed timestamp nothing but the key itself protects against a replay, and a key in a header is not signed:
whoever recorded a request can send it again under another id.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ledger import payload
from ledger.errors import Misconfigured
from ledger.receiver.sources.adapter import (
    Adapter,
    Headers,
    Identity,
    Item,
    fresh,
    matches_any,
    require_id,
)
from ledger.records import Delivery
from ledger.settings import SourceSettings

SECRET_BYTES_MIN = 8
FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2: token
HEADERS = ("signature_header", "timestamp_header", "key_header", "type_header", "delivery_header")
PATHS = ("key_path", "type_path", "time_path")


class Generic(Adapter):
    """Everything comes from the configuration; what is missing, said twice or pointless there stops the start."""

    def __init__(self, name: str, settings: SourceSettings, secrets: Sequence[str]) -> None:
        super().__init__(name, settings, secrets)
        self.template = settings.signed or ("{timestamp}.{body}" if settings.timestamp_header else "{body}")
        if complaints := _complaints(settings, self.template):
            raise Misconfigured(f"[sources.{name}] {complaints[0]}")
        self._before, self._after = self.template.split("{body}")

    @property
    def key_rule(self) -> tuple[str, ...]:
        return "generic", self.name  # two senders may both call their first event 1

    def secret(self, text: str) -> bytes:
        if len(text.encode()) < SECRET_BYTES_MIN:
            raise Misconfigured(
                f"A secret of [sources.{self.name}] is shorter than {SECRET_BYTES_MIN} bytes: anybody could guess it."
            )
        return text.encode()

    def is_authentic(self, headers: Headers, body: bytes, received_at: datetime) -> bool:
        s, timestamp = self.settings, ""
        if s.timestamp_header:
            timestamp = headers.get(s.timestamp_header.lower(), "")
            if not fresh(timestamp, received_at, s.tolerance_s, unit=s.timestamp_unit):
                return False
        given = self._signatures(headers.get(s.signature_header.lower(), ""))
        before, after = (part.replace("{timestamp}", timestamp) for part in (self._before, self._after))
        return matches_any(given, self.secrets, before.encode(), body, after.encode())

    def _signatures(self, header: str) -> list[bytes]:
        """One, or several apart by commas, each behind the prefix."""
        prefix, found = self.settings.signature_prefix, []
        for entry in header.split(","):
            text = entry.strip()
            if text.startswith(prefix):
                found += _decoded(text.removeprefix(prefix), self.settings.encoding)
        return found

    def items(self, headers: Headers, body: bytes) -> list[Item]:
        def event(document: Any, spelled: bytes) -> Delivery:
            return self.delivery(self._identity(headers, document), document, spelled, headers)

        if self.settings.key_path and body.lstrip()[:1] == b"[":
            return self.each(body, event)
        document = payload.parse(body)
        return [] if document == [] else [event(document, body)]

    def _identity(self, headers: Headers, document: Any) -> Identity:
        s = self.settings
        type_ = s.type_constant or _found(headers, document, s.type_header, s.type_path, "type")
        key = _found(headers, document, s.key_header, s.key_path, "key")
        further = (require_id(payload.look_up(document, path), f"key ({path})") for path in s.key_with)
        return Identity(
            type=type_,
            key=(type_, key, *further),
            delivery_id=headers.get(s.delivery_header.lower(), ""),
            occurred_at=payload.moment(payload.look_up(document, s.time_path)) if s.time_path else None,
        )


def _found(headers: Headers, document: Any, header: str, path: str, what: str) -> str:
    return require_id(headers.get(header.lower()) if header else payload.look_up(document, path), what)


def _decoded(text: str, encoding: str) -> list[bytes]:
    try:
        return [bytes.fromhex(text) if encoding == "hex" else base64.b64decode(text, validate=True)]
    except (binascii.Error, ValueError):
        return []


def _complaints(s: SourceSettings, template: str) -> list[str]:
    """What is wrong with the settings, in sentences that follow the table's name."""
    found = []
    if sum(map(bool, (s.type_header, s.type_path, s.type_constant))) != 1:
        found.append("needs type_header, type_path or type_constant, exactly one of them.")
    if template.count("{body}") != 1:
        found.append(
            'has a `signed` that does not cover the body; write {body} once, as in "{timestamp}.{body}".'
        )
    if bool(s.timestamp_header) != ("{timestamp}" in template):
        found.append(
            "has a timestamp that is not signed; name timestamp_header, and {timestamp} in `signed`."
        )
    if set(re.findall(r"\{(.*?)\}", template)) - {"body", "timestamp"}:
        found.append("has a `signed` with an unknown name; it knows {timestamp} and {body}.")
    if "," in s.signature_prefix:
        found.append("has a comma in signature_prefix; signatures are told apart by commas.")
    found += [
        f"has {name} = {getattr(s, name)!r}, which is no name of a header."
        for name in HEADERS
        if getattr(s, name) and not FIELD_NAME.fullmatch(getattr(s, name))
    ]
    found += [
        f"has the path {path!r} with an empty part; write names with dots, as in data.object.id."
        for path in (*(getattr(s, name) for name in PATHS if getattr(s, name)), *s.key_with)
        if not all(path.split("."))
    ]
    return found
