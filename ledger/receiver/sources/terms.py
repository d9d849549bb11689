"""The words in which a source and the front door speak: what arrived, what an event is, and what is wrong with either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ledger import payload
from ledger.errors import Misconfigured
from ledger.event_types import TYPE_BYTES_MAX
from ledger.payload import Element
from ledger.records import Delivery, Unusable

Item = Delivery | Unusable
Headers = Mapping[str, str]  # by lower-case name; a field sent twice is joined with a comma (RFC 9110, 5.3)

ELEMENTS_MAX = 5_000  # of a body that is a list: all of them are stored in one transaction
ELEMENT_BYTES_MAX = 1_000_000  # one of many that are stored together must not be what they wait for


class Forged(Exception):
    """The request is not authentic. Which check failed is nobody's business: the answer is the same for all."""


class Unfit(Exception):
    """An authentic element that cannot be an event; the message is the reason that quarantine shows."""


class WrongOption(Misconfigured):
    """An option of [sources.NAME] that cannot work; `what` follows its name in a sentence."""

    def __init__(self, source: str, option: str, what: str) -> None:
        super().__init__(f"[sources.{source}] {option} {what}.")
        self.option, self.what = option, what


class Arrival(NamedTuple):
    """One request as it came: the exact bytes, and the target (path and query) as its first line spelled it."""

    headers: Headers
    body: bytes
    received_at: datetime
    target: str = ""


class Identity(NamedTuple):
    """What an adapter says of one event. The parts of a key are length-prefixed into its digest."""

    type: str
    key: tuple[str, ...]
    occurrence: tuple[str, ...] | None = None
    delivery_id: str = ""
    occurred_at: datetime | None = None


def bound(elements: Sequence[Element]) -> None:
    """Raises Unfit when there are more than can be taken at once."""
    if len(elements) > ELEMENTS_MAX:
        raise Unfit(f"It has {len(elements)} elements; {ELEMENTS_MAX} can be taken at once.")


def bound_one_of_many(element: Element, whole: bytes) -> None:
    """Raises Unfit when one element is what all the others would wait for. A body that is one event may be larger."""
    if element.body is not whole and len(element.body) > ELEMENT_BYTES_MAX:
        raise Unfit(f"It has {len(element.body)} bytes; an element of a list may have {ELEMENT_BYTES_MAX}.")


def require_storable(found: Identity) -> None:
    """Raises Unfit for a type or an id that PostgreSQL's text, or its index, cannot hold."""
    if len(found.type) * 4 > TYPE_BYTES_MAX < len(found.type.encode("utf-8", "surrogatepass")):
        raise Unfit(f"Its type is longer than {TYPE_BYTES_MAX} bytes.")
    if not payload.is_storable("".join((found.type, *found.key, *(found.occurrence or ())))):
        raise Unfit("Its type or an id has a NUL or half a surrogate pair, which is not text.")


def require_id(value: Any, name: str) -> str:
    """The text of an id. Raises Unfit, because a missing id must never become a key like any other missing one."""
    text = payload.identity(value)
    if text is None:
        raise Unfit(f"It has no usable {name}.")
    return text
