"""Any source that signs its body with HMAC-SHA256 and names its events in a header or in the body.

With `timestamp_header` the signed bytes are `{timestamp}.{body}` and the tolerance holds; without it there is no
protection against a replay but the key itself.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ledger import payload
from ledger.errors import Misconfigured
from ledger.receiver.sources.adapter import Forged, Identity, delivery, fresh, matches_any, moment, unusable
from ledger.records import Delivery, Unusable
from ledger.settings import SourceSettings


class Generic:
    """Everything comes from the configuration; what is missing or said twice stops the start."""

    def __init__(self, name: str, settings: SourceSettings, secrets: Sequence[str]) -> None:
        if bool(settings.type_header) == bool(settings.type_path):
            raise Misconfigured(f"[sources.{name}] needs type_header or type_path, exactly one of them.")
        self.name, self.settings = name, settings
        self.secrets = [secret.encode() for secret in secrets]

    def read(self, headers: Mapping[str, str], body: bytes, now: datetime) -> list[Delivery | Unusable]:
        self._check(headers, body, now)
        document = payload.parse(body)
        if document == []:  # an empty list is a ping
            return []
        found = self._identity(headers, document)
        if isinstance(found, str):
            return [unusable(self.name, self.settings, found, body)]
        content_type = headers.get("content-type", "")
        return [delivery(self.name, self.settings, found, document, body, content_type)]

    def _check(self, headers: Mapping[str, str], body: bytes, now: datetime) -> None:
        s, signed = self.settings, body
        if s.timestamp_header:
            timestamp = headers.get(s.timestamp_header.lower(), "")
            if not fresh(timestamp, now, s.tolerance_s):
                raise Forged
            signed = timestamp.encode() + b"." + body
        if not matches_any(self._given(headers.get(s.signature_header.lower(), "")), self.secrets, signed):
            raise Forged

    def _given(self, header: str) -> list[bytes]:
        found = []
        for part in header.split(","):
            text = part.strip()
            if text.startswith(self.settings.signature_prefix):
                found += _decoded(text.removeprefix(self.settings.signature_prefix), self.settings.encoding)
        return found

    def _identity(self, headers: Mapping[str, str], document: Any) -> Identity | str:
        s = self.settings
        key = payload.identity(_from(headers, document, s.key_header, s.key_path))
        type_ = payload.identity(_from(headers, document, s.type_header, s.type_path))
        if key is None:
            return "It has no usable key."
        if type_ is None:
            return "It has no usable type."
        at = moment(payload.look_up(document, s.time_path)) if s.time_path else None
        return Identity(type_, (type_, key), None, headers.get(s.delivery_header.lower(), ""), at)


def _from(headers: Mapping[str, str], document: Any, header: str, path: str) -> Any:
    return headers.get(header.lower()) if header else payload.look_up(document, path)


def _decoded(text: str, encoding: str) -> list[bytes]:
    try:
        if encoding == "hex":
            return [bytes.fromhex(text)] if text.isascii() else []
        return [base64.b64decode(text.encode("ascii"), validate=True)]
    except (binascii.Error, ValueError):
        return []
