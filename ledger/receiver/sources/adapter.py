"""What a source's adapter is: headers and bytes in, deliveries out, or a reason why not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from ledger import payload
from ledger.payload import Element
from ledger.receiver.log import note
from ledger.receiver.sources.facts import Facts
from ledger.receiver.sources.signing import SECRET_BYTES_MIN
from ledger.receiver.sources.terms import Arrival as Arrival
from ledger.receiver.sources.terms import Forged as Forged
from ledger.receiver.sources.terms import Headers as Headers
from ledger.receiver.sources.terms import Identity as Identity
from ledger.receiver.sources.terms import Item as Item
from ledger.receiver.sources.terms import Unfit as Unfit
from ledger.receiver.sources.terms import WrongOption as WrongOption
from ledger.receiver.sources.terms import require_id as require_id
from ledger.receiver.sources.terms import require_storable
from ledger.receiver.sources.together import events_together, read_together, taken
from ledger.records import Delivery, Unusable, digest_of
from ledger.settings import SourceSettings
from ledger.settings.sources import Coded


class Adapter(ABC):
    """One source. A subclass says what is authentic and what identifies an event; the order of checks is here.

    It declares its `kind`, as a configuration names it, and its `facts`.
    """

    kind: ClassVar[str]
    facts: ClassVar[Facts]

    def __init__(self, name: str, settings: SourceSettings, secrets: Sequence[str]) -> None:
        """Raises WrongOption."""
        self.name, self.settings = name, settings
        self.secrets = [self.secret(text) for text in secrets]
        self.success_status: int = settings.success_status or self.facts.success
        self.ack_s = self.facts.ack_s or float("inf")
        self.coded: Coded = settings.coded or self.facts.coded
        self._ignored = {*self.facts.ignored, *settings.ignored_types}
        self.volatile = (*self.facts.volatile, *settings.ignored_members)

    def secret(self, text: str) -> bytes:
        """The signing key: the text's own bytes, unless the source has another rule. Raises WrongOption."""
        return self.long_enough(text.encode())

    def long_enough(self, key: bytes) -> bytes:
        """The key itself. Raises WrongOption for a short one."""
        if len(key) < SECRET_BYTES_MIN:
            what = f"has a secret that is shorter than {SECRET_BYTES_MIN} bytes: anybody could guess it"
            raise self.wrong("secrets", what)
        return key

    @property
    def key_rule(self) -> tuple[str, ...]:
        """Whose keys these are: ahead of the parts in every digest. Two sources with one rule share their events."""
        return self.kind, self.name  # two senders may both call their first event 1

    @property
    def named_by_headers(self) -> tuple[str, ...]:
        """The headers without which a body names no event, or another one: a file of bare bodies lacks them."""
        return ()

    def handshake(self, arrival: Arrival) -> str | None:
        """What is answered at once, as plain text, to a request that only asks whether we are here; None: it is a delivery."""
        return None

    @abstractmethod
    def is_authentic(self, arrival: Arrival) -> bool:
        """Whether somebody who holds a secret signed exactly these bytes, and recently where there is a time."""

    @abstractmethod
    def identity(self, document: Any, arrival: Arrival) -> Identity:
        """What one event is. Raises Unfit, which sends this element alone to quarantine."""

    def elements(self, arrival: Arrival) -> list[Element]:
        """The events of an authentic body, each with its own bytes. Raises Malformed, or Unfit for the body as a whole."""
        if self.facts.lists and arrival.body.lstrip()[:1] == b"[":
            return payload.elements(arrival.body)
        document = payload.parse(arrival.body)
        return [] if document == [] else [Element(document, arrival.body)]

    def read(self, headers: Headers, body: bytes, received_at: datetime, target: str = "") -> list[Item]:
        """Authenticity first, on the exact bytes. Raises Forged (401), Malformed (400), and nothing else.

        An empty list is an authentic request without an event, as some senders use for a ping.
        """
        (found,) = read_together(self, [Arrival(headers, body, received_at, target)])
        return taken(found)

    def require_authentic(self, arrival: Arrival) -> None:
        """On the form that was signed. Raises Forged, and nothing else."""
        if not self.seems_authentic(arrival):
            raise Forged

    def found(self, headers: Headers, body: bytes) -> list[Item]:
        """The events of a body whose sender is known already, as of a file that an operator hands in.

        Raises Malformed, and nothing else.
        """
        return self.events(Arrival(headers, body, datetime.now(UTC)))

    def events(self, arrival: Arrival) -> list[Item]:
        """The events of an authentic body in its plain form. Raises Malformed, and nothing else."""
        (found,) = events_together(self, [arrival])
        return taken(found)

    def failed(self, error: Exception, body: bytes, index: int = 0) -> Unusable:
        """What our own fault keeps from being read: it is kept, so that nobody retries it for days."""
        note("adapter failed", source=self.name, error=type(error).__name__)
        return self.unusable("Our reading of it failed. This is a fault in Not Twice.", body, index)

    def seems_authentic(self, arrival: Arrival) -> bool:
        """As `is_authentic`, which may fail. Never raises."""
        try:
            return self.is_authentic(arrival)
        except Exception as error:  # noqa: BLE001 - a stranger must not be able to make a 500
            note("adapter failed", source=self.name, error=type(error).__name__)
            return False

    def delivery(self, found: Identity, element: Element, headers: Headers) -> Delivery:
        """The event that was found. Raises Unfit when its words cannot be stored as text."""
        require_storable(found)
        return Delivery(
            namespace=self.settings.namespace,
            source=self.name,
            type=found.type,
            event_key=" ".join(found.key),
            key_digest=digest_of(*self.key_rule, *found.key),
            body=element.body,
            content_digest=payload.content_digest(element.document, self.volatile),
            occurrence_digest=self._occurrence_digest(found, element.body),
            content_type=payload.storable(headers.get("content-type", ""))[:200],
            delivery_id=payload.storable(found.delivery_id)[:500],
            occurred_at=found.occurred_at,
            ignored=found.type in self._ignored,
            ordering_digest=self._ordering_digest(element.document),
        )

    def _occurrence_digest(self, found: Identity, body: bytes) -> bytes | None:
        """The source's own, or that of the bytes where it was told that the same ones are never another event."""
        parts = found.occurrence or ((found.type, body) if self.settings.repeats_by_body else None)
        return digest_of(*self.key_rule, "occurrence", *parts) if parts else None

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

    def wrong(self, option: str, what: str) -> WrongOption:
        """To raise: an option of this source that cannot work."""
        return WrongOption(self.name, option, what)
