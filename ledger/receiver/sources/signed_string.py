"""What a signature covers, as a configuration tells it: `{timestamp}.{body}`, `{delivery}.{body}`, `{body}` alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ledger.receiver.sources.terms import Arrival
from ledger.settings import SourceSettings

BODY = "{body}"
NAMES = {"{timestamp}": "timestamp_header", "{delivery}": "delivery_header", "{key}": "key_header"}


class SignedString:
    """The template of one source, and the options that say in which headers its parts come."""

    def __init__(self, settings: SourceSettings) -> None:
        self.template = settings.signed or ("{timestamp}.{body}" if settings.timestamp_header else BODY)
        self._parts = [part for part in re.split(r"(\{[^{}]*\})", self.template) if part]
        self._headers = {name: getattr(settings, option).lower() for name, option in NAMES.items()}

    def of(self, arrival: Arrival) -> list[bytes]:
        """The bytes that were signed. A header that is missing is empty."""
        return [self._bytes(part, arrival) for part in self._parts]

    def _bytes(self, part: str, arrival: Arrival) -> bytes:
        if part == BODY:
            return arrival.body
        if part in self._headers:
            return arrival.headers.get(self._headers[part], "").encode(
                "latin-1"
            )  # as header bytes became text
        return part.encode()

    def complaints(self, settings: SourceSettings) -> Iterator[tuple[str, str]]:
        """What cannot work: an option, and what follows its name in a sentence."""
        if self._parts.count(BODY) != 1:
            yield "signed", 'does not cover the body; write {body} once, as in "{timestamp}.{body}"'
        for part in self._parts:
            if part.startswith("{") and part not in (BODY, *NAMES):
                yield "signed", f"has an unknown name in braces; it knows {', '.join((BODY, *NAMES))}"
            if part in NAMES and not getattr(settings, NAMES[part]):
                yield "signed", f"speaks of {part}, and there is no {NAMES[part]}"
        if settings.timestamp_header and "{timestamp}" not in self._parts:
            yield "timestamp_header", "names a timestamp that is not signed; write {timestamp} in `signed`"
