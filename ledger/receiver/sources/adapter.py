"""What a source's adapter is: headers and bytes in, deliveries out, or a reason why not."""

from __future__ import annotations

import hmac
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ledger import payload
from ledger.payload import Malformed
from ledger.receiver.log import note
from ledger.records import Delivery, Unusable, digest_of
from ledger.settings import SourceSettings

Item = Delivery | Unusable
Event = Callable[[Any, bytes], Delivery]  # a document and its bytes in; raises Unfit
Headers = Mapping[str, str]  # by lower-case name; a field sent twice is joined with a comma (RFC 9110, 5.3)

TYPE_BYTES_MAX = 200  # a type stands in an index, whose entries are limited to some 2,700 bytes
ELEMENTS_MAX = 5_000  # of a body that is a list: all of them are stored in one transaction
ELEMENT_BYTES_MAX = 1_000_000  # one of many that are stored together must not be what they wait for
SUCCESS: Final = 200


class Forged(Exception):
    """The request is not authentic. Which check failed is nobody's business: the answer is the same for all."""


class Unfit(Exception):
    """An authentic element that cannot be an event; the message is the reason that quarantine shows."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What an adapter says of one event. The parts of a key are length-prefixed into its digest."""

    type: str
    key: tuple[str, ...]
    occurrence: tuple[str, ...] | None = None
    delivery_id: str = ""
    occurred_at: datetime | None = None


class Adapter(ABC):
    """One source. A subclass says what is authentic and what identifies an event; the order of checks is here."""

    def __init__(self, name: str, settings: SourceSettings, secrets: Sequence[str]) -> None:
        self.name, self.settings = name, settings
        self.secrets = [self.secret(text) for text in secrets]
        self.success_status: int = settings.success_status or SUCCESS

    @abstractmethod
    def secret(self, text: str) -> bytes:
        """The signing key. Raises Misconfigured."""

    @abstractmethod
    def is_authentic(self, headers: Headers, body: bytes, received_at: datetime) -> bool:
        """Whether somebody who holds a secret signed exactly these bytes, and recently where there is a time."""

    @abstractmethod
    def items(self, headers: Headers, body: bytes) -> list[Item]:
        """The events of an authentic body. Raises Malformed, or Unfit for the body as a whole."""

    @property
    @abstractmethod
    def key_rule(self) -> tuple[str, ...]:
        """Whose keys these are: ahead of the parts in every digest. Two sources with one rule share their events."""

    def read(self, headers: Headers, body: bytes, received_at: datetime) -> list[Item]:
        """Authenticity first, on the exact bytes. Raises Forged (401), Malformed (400), and nothing else.

        An empty list is an authentic request without an event, as some senders use for a ping.
        """
        if not self._is_authentic(headers, body, received_at):
            raise Forged
        return self.found(headers, body)

    def found(self, headers: Headers, body: bytes) -> list[Item]:
        """The events of a body whose sender is known already, as of a file that an operator hands in.

        Raises Malformed, and nothing else.
        """
        if not body:
            raise Malformed("It is empty.")
        try:
            return self.items(headers, body)
        except Malformed:
            raise
        except Unfit as error:
            return [self.unusable(str(error), body)]
        except Exception as error:  # noqa: BLE001 - our fault; the event is kept, and nobody retries it for days
            return [self._failed(error, body)]

    def _is_authentic(self, headers: Headers, body: bytes, received_at: datetime) -> bool:
        try:
            return self.is_authentic(headers, body, received_at)
        except Exception as error:  # noqa: BLE001 - a stranger must not be able to make a 500
            note("adapter failed", source=self.name, error=type(error).__name__)
            return False

    def delivery(self, found: Identity, document: Any, body: bytes, headers: Headers) -> Delivery:
        """The event that was found. Raises Unfit when its words cannot be stored as text."""
        _require_storable(found)
        return Delivery(
            namespace=self.settings.namespace,
            source=self.name,
            type=found.type,
            event_key=" ".join(found.key),
            key_digest=digest_of(*self.key_rule, *found.key),
            body=body,
            content_digest=payload.content_digest(document, self.settings.ignored_members),
            occurrence_digest=digest_of(*self.key_rule, "occurrence", *found.occurrence)
            if found.occurrence
            else None,
            content_type=payload.shown(headers.get("content-type", ""))[:200],
            delivery_id=payload.shown(found.delivery_id)[:500],
            occurred_at=found.occurred_at,
            ignored=found.type in self.settings.ignored_types,
            ordering_digest=self._ordering_digest(document),
        )

    def each(self, body: bytes, event: Event) -> list[Item]:
        """One item an element of a body that is a list. A bad one goes to quarantine, its neighbours do not.

        Raises Malformed, and Unfit when there are more than ELEMENTS_MAX.
        """
        elements = payload.elements(body)
        if len(elements) > ELEMENTS_MAX:
            raise Unfit(f"It has {len(elements)} elements; {ELEMENTS_MAX} can be taken at once.")
        return [self._element(event, *element, index) for index, element in enumerate(elements)]

    def _element(self, event: Event, document: Any, body: bytes, index: int) -> Item:
        if len(body) > ELEMENT_BYTES_MAX:
            reason = f"It has {len(body)} bytes; an element of a list may have {ELEMENT_BYTES_MAX}."
            return self.unusable(reason, body, index)
        try:
            return event(document, body)
        except Unfit as error:
            return self.unusable(str(error), body, index)
        except Exception as error:  # noqa: BLE001 - our fault; the neighbours are stored all the same
            return self._failed(error, body, index)

    def _failed(self, error: Exception, body: bytes, index: int = 0) -> Unusable:
        note("adapter failed", source=self.name, error=type(error).__name__)
        return self.unusable("Our reading of it failed. This is a fault in Not Twice.", body, index)

    def ordered_in(self, document: Any) -> Any:
        """Where `ordering_path` begins: at the top of the event, unless a source has a better place."""
        return document

    def _ordering_digest(self, document: Any) -> bytes | None:
        """The lane within the namespace, whatever the source: events of two that name one thing alike share it."""
        path = self.settings.ordering_path
        key = payload.identity(payload.look_up(self.ordered_in(document), path)) if path else None
        return None if key is None else digest_of("ordering", key)

    def unusable(self, reason: str, body: bytes, index: int = 0) -> Unusable:
        return Unusable(self.settings.namespace, self.name, index, reason, body)


def _require_storable(found: Identity) -> None:
    if len(found.type.encode("utf-8", "surrogatepass")) > TYPE_BYTES_MAX:
        raise Unfit(f"Its type is longer than {TYPE_BYTES_MAX} bytes.")
    if not all(payload.is_storable(text) for text in (found.type, *found.key, *(found.occurrence or ()))):
        raise Unfit("Its type or an id has a NUL or half a surrogate pair, which is not text.")


def require_id(value: Any, name: str) -> str:
    """The text of an id. Raises Unfit, because a missing id must never become a key like any other missing one."""
    text = payload.identity(value)
    if text is None:
        raise Unfit(f"It has no usable {name}.")
    return text


def matches_any(given: Sequence[bytes], secrets: Sequence[bytes], *signed: bytes) -> bool:
    """Whether one of the signatures is the HMAC-SHA256 of the signed parts under one of the secrets.

    Every pair is compared, each in constant time.
    """
    message = b"".join(signed)
    # Not hmac.digest(): it gives up the GIL for however short a message, and a writer's thread takes it for long.
    expected = [hmac.new(secret, message, "sha256").digest() for secret in secrets]
    return sum(hmac.compare_digest(g, e) for g in given for e in expected) > 0


def fresh(timestamp: str, received_at: datetime, tolerance_s: float, *, unit: str = "s") -> bool:
    """Whether a Unix time is within the tolerance, both ways: the window for a replay is twice that.

    Digits only: no sign, no blank, no fraction. Seconds are never guessed to be milliseconds.
    """
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 15):
        return False
    signed_at = int(timestamp) / (1000 if unit == "ms" else 1)
    return abs(received_at.timestamp() - signed_at) <= tolerance_s
