"""Sources of which signature and names come from the configuration: an HMAC over a template, ids by header or path.

What is missing there, said twice or pointless stops the start, with the line (`complaints.py`). Without a signed timestamp
nothing but the key itself protects against a replay, and a key in a header is not signed unless the template names it: else
whoever recorded a request can send it again under another id, where `repeats_by_body` does not stop it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ledger import payload
from ledger.evidence import message_ids
from ledger.payload import Element
from ledger.receiver.sources.adapter import Adapter, Arrival, Headers, Identity, Unfit, require_id
from ledger.receiver.sources.bodies import opened, whole
from ledger.receiver.sources.complaints import complaints
from ledger.receiver.sources.signed_string import SignedString
from ledger.receiver.sources.signing import SECRET_BYTES_MIN, decoded, fresh, matches_any
from ledger.settings import SourceSettings
from ledger.settings.sources import NOTICE_PATHS

SIGNING = frozenset(
    (
        *("signature_header", "signature_prefix", "encoding", "signed", "coded"),
        *("timestamp_header", "timestamp_unit", "algorithm", "secret_form"),
    )
)
# Where such a body says what became of a message of ours.
TELLING = frozenset(("notices", *NOTICE_PATHS))
NAMING = frozenset(
    (
        *("key_header", "key_path", "key_with", "key_spelling", "type_header", "type_path", "type_otherwise"),
        *("subscription_header", "subscription_path", "time_path", "delivery_header", "repeats_by_body"),
        *("body_format", "json_inside"),
    )
)
UNPUBLISHED = (
    "signature_header",
    "algorithm",
    "encoding",
    "signed",
    "secret_form",
)  # of a signature nobody describes
REPLACED = "\ufffd"


class Configured(Adapter):
    """Everything comes from the configuration. A subclass adds what its provider is known for."""

    unpublished: ClassVar[tuple[str, ...]] = ()  # options without which the kind stays off
    known_key_header: ClassVar[str] = ""

    def __init__(self, name: str, settings: SourceSettings, secrets: Sequence[str]) -> None:
        super().__init__(name, settings, secrets)
        self._require_what_is_unpublished()
        if self.known_key_header and not (settings.key_header or settings.key_path):
            settings = settings.model_copy(update={"key_header": self.known_key_header})
        self.settings = settings
        self._signed = SignedString(settings)
        for option, what in complaints(settings, self._signed):
            raise self.wrong(option, what)
        self._is_subscribed = bool(settings.subscription_header or settings.subscription_path)

    def _require_what_is_unpublished(self) -> None:
        needed = (*self.unpublished, *(("timestamp_unit",) if self.settings.timestamp_header else ()))
        for option in needed if self.unpublished else ():
            if option not in self.settings.model_fields_set or not getattr(self.settings, option):
                what = (
                    f"is missing. What {self.facts.sender} does there is not published, so nothing is assumed: look it up in "
                    "the account, write it down here, and try it with a test delivery"
                )
                raise self.wrong(option, what)

    @property
    def named_by_headers(self) -> tuple[str, ...]:
        s = self.settings
        return tuple(filter(None, (s.key_header, s.type_header, s.subscription_header)))

    def secret(self, text: str) -> bytes:
        form = self.settings.secret_form
        if form == "text":
            return super().secret(text)
        found = decoded(text, form)
        if not found or len(found[0]) < SECRET_BYTES_MIN:
            raise self.wrong(
                "secrets", f"has a secret that is not {form} of {SECRET_BYTES_MIN} bytes or more"
            )
        return found[0]

    def is_authentic(self, arrival: Arrival) -> bool:
        s = self.settings
        if s.timestamp_header:
            timestamp = arrival.headers.get(s.timestamp_header.lower(), "")
            if not fresh(timestamp, arrival.received_at, s.tolerance_s, unit=s.timestamp_unit):
                return False
        given = self._signatures(arrival.headers.get(s.signature_header.lower(), ""))
        return matches_any(given, self.secrets, *self._signed.of(arrival), algorithm=s.algorithm)

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
        s = self.settings
        may_be_a_list = s.body_format == "json" and not s.key_header
        found = super().elements(arrival) if may_be_a_list else whole(arrival, s.body_format)
        if not s.json_inside:
            return found
        return [Element(opened(document, s.json_inside), body) for document, body in found]

    def identity(self, document: Any, arrival: Arrival) -> Identity:
        s, headers = self.settings, arrival.headers
        type_ = self._type(document, headers)
        return Identity(
            type=type_,
            key=(type_, *self._key(document, headers)),
            delivery_id=headers.get(s.delivery_header.lower(), ""),
            occurred_at=payload.moment(payload.look_up(document, s.time_path)) if s.time_path else None,
        )

    def _type(self, document: Any, headers: Headers) -> str:
        s = self.settings
        if s.type_constant:
            return s.type_constant
        found = _at(document, headers, s.type_header, s.type_path)
        if s.type_otherwise and payload.identity(found) is None:
            return s.type_otherwise
        return require_id(found, "type")

    def _key(self, document: Any, headers: Headers) -> tuple[str, ...]:
        s = self.settings
        if s.key_from_body:
            key: tuple[str, ...] = ("content", payload.content_digest(document, self.volatile).hex())
        else:
            key = (
                self._decoded(require_id(self._key_value(document, headers), "key")),
                *self._further(document),
            )
        return key + self._subscription(document, headers) if self._is_subscribed else key

    def _key_value(self, document: Any, headers: Headers) -> Any:
        value = _at(document, headers, self.settings.key_header, self.settings.key_path)
        if self.settings.key_spelling == "as-is":
            return value
        return message_ids.in_headers(value) if isinstance(value, str) else None

    def _further(self, document: Any) -> list[str]:
        found = [(path, payload.look_up(document, path)) for path in self.settings.key_with]
        return [self._decoded(require_id(value, f"key ({path})")) for path, value in found]

    def _subscription(self, document: Any, headers: Headers) -> tuple[str, ...]:
        s = self.settings
        value = _at(document, headers, s.subscription_header, s.subscription_path)
        return ("subscription", require_id(value, "subscription"))

    def _decoded(self, text: str) -> str:
        """Where bytes were replaced while they became text, two different ids would look the same."""
        if self.settings.body_format != "json" and REPLACED in text:
            raise Unfit("Its key has bytes that are no text in the charset it came in.")
        return text


def _at(document: Any, headers: Headers, header: str, path: str) -> Any:
    if header:
        return headers.get(header.lower())
    return payload.look_up(document, path) if path else None
