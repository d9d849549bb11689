"""Sources of which signature and names come from the configuration: HMAC-SHA256 over a template, ids by header or path.

What is missing there, said twice or pointless stops the start, with the line. Without a signed timestamp nothing but
the key itself protects against a replay, and a key in a header is not signed: whoever recorded a request can send it
again under another id.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ledger import payload
from ledger.payload import Element
from ledger.receiver.sources.adapter import Adapter, Arrival, Headers, Identity, require_id
from ledger.receiver.sources.signing import decoded, fresh, matches_any
from ledger.settings import SourceSettings

SIGNING = frozenset(
    (
        *("signature_header", "signature_prefix", "encoding", "signed"),
        *("timestamp_header", "timestamp_unit"),
    )
)
NAMING = frozenset(
    (
        *("key_header", "key_path", "key_with", "type_header", "type_path", "type_constant"),
        *("time_path", "delivery_header"),
    )
)


class Configured(Adapter):
    """Everything comes from the configuration. A subclass adds what its provider is known for."""

    def __init__(self, name: str, settings: SourceSettings, secrets: Sequence[str]) -> None:
        super().__init__(name, settings, secrets)
        self.template = settings.signed or ("{timestamp}.{body}" if settings.timestamp_header else "{body}")
        for option, what in (*_about_signing(settings, self.template), *_about_naming(settings)):
            raise self.wrong(option, what)
        self._before, self._after = self.template.split("{body}")

    def is_authentic(self, arrival: Arrival) -> bool:
        s, timestamp = self.settings, ""
        if s.timestamp_header:
            timestamp = arrival.headers.get(s.timestamp_header.lower(), "")
            if not fresh(timestamp, arrival.received_at, s.tolerance_s, unit=s.timestamp_unit):
                return False
        given = self._signatures(arrival.headers.get(s.signature_header.lower(), ""))
        before, after = (part.replace("{timestamp}", timestamp) for part in (self._before, self._after))
        return matches_any(given, self.secrets, before.encode(), arrival.body, after.encode())

    def _signatures(self, header: str) -> list[bytes]:
        """One, or several apart by commas, each behind the prefix."""
        prefix, found = self.settings.signature_prefix, []
        for entry in header.split(","):
            text = entry.strip()
            if text.startswith(prefix):
                found += decoded(text.removeprefix(prefix), self.settings.encoding)
        return found

    def elements(self, arrival: Arrival) -> list[Element]:
        """A key in a header names the whole body, whatever it is."""
        if self.settings.key_path:
            return super().elements(arrival)
        document = payload.parse(arrival.body)
        return [] if document == [] else [Element(document, arrival.body)]

    def identity(self, document: Any, arrival: Arrival) -> Identity:
        s, headers = self.settings, arrival.headers
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


Complaints = list[tuple[str, str]]  # an option, and what is wrong with it


def _about_signing(s: SourceSettings, template: str) -> Complaints:
    found = []
    if not s.signature_header:
        found.append(("signature_header", 'is missing; name the header that carries it, as in "X-Signature"'))
    if template.count("{body}") != 1:
        found.append(("signed", 'does not cover the body; write {body} once, as in "{timestamp}.{body}"'))
    if bool(s.timestamp_header) != ("{timestamp}" in template):
        what = "speaks of a timestamp that is not signed; name timestamp_header, and {timestamp} in `signed`"
        found.append(("timestamp_header" if s.timestamp_header else "signed", what))
    if set(re.findall(r"\{(.*?)\}", template)) - {"body", "timestamp"}:
        found.append(("signed", "has an unknown name in braces; it knows {timestamp} and {body}"))
    if "," in s.signature_prefix:
        found.append(("signature_prefix", "has a comma; signatures are told apart by commas"))
    return found


def _about_naming(s: SourceSettings) -> Complaints:
    found = []
    if bool(s.key_header) == bool(s.key_path):
        what = "or key_header finds the event's key; the source needs exactly one of them"
        found.append(("key_path", what))
    if sum(map(bool, (s.type_header, s.type_path, s.type_constant))) != 1:
        found.append(("type_path", "or type_header or type_constant is needed, exactly one of them"))
    return found
