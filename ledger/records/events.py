"""What comes in and is worked once: deliveries, what became of them, events and their leases. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from ledger.digests import KEY_RULE
from ledger.payload import form as payload_form
from ledger.records.runs import Run


@dataclass(frozen=True, slots=True)
class Delivery:
    """One logical event as a source's adapter found it in a request, ready to be accepted.

    `event_key` is the readable key; the unique identity is `key_digest` within the namespace. `content_digest`
    covers the content without the members that differ between honest retries. `key_rule` is the version of the rules
    both were made by. Deliveries of one namespace with the same `ordering_digest` are worked one at a time, in the order
    in which they were accepted.
    """

    namespace: str
    source: str
    type: str
    event_key: str
    key_digest: bytes
    body: bytes
    content_digest: bytes
    occurrence_digest: bytes | None = None
    content_type: str = ""
    delivery_id: str = ""
    occurred_at: datetime | None = None
    ignored: bool = False
    ordering_digest: bytes | None = None
    key_rule: int = KEY_RULE


@dataclass(frozen=True, slots=True)
class Unusable:
    """An authentic element without a usable key or shape; kept in quarantine, once per (source, digest, index)."""

    namespace: str
    source: str
    index: int
    reason: str
    body: bytes


class AcceptanceKind(StrEnum):
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    NOT_COMPARED = (
        "not_compared"  # a duplicate; the first content is gone, or its digest was made by other rules
    )
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What became of one delivery. Every kind is durable once the transaction has committed."""

    kind: AcceptanceKind
    event_id: int | None


@dataclass(frozen=True, slots=True)
class EventLease:
    """The right to end or renew one event's work: its id and the claim token of this claim."""

    event_id: int
    token: UUID

    def __hash__(self) -> int:
        """By the event alone: quick, and one event has one lease at a time."""
        return self.event_id


@dataclass(frozen=True, slots=True)
class Event:
    """An accepted event as a handler sees it. `body` is exactly the bytes received; `run` tells why it runs and how long it may.

    Marks of an event with an ordering key: `passed_over` is the nearest earlier one of its key that was set aside when
    this one was claimed, `overtaken_by` the last later one that was done by then.
    """

    id: int
    namespace: str
    source: str
    type: str
    event_key: str
    body: bytes
    accepted_at: datetime
    occurred_at: datetime | None
    run: Run = field(default_factory=Run)
    passed_over: int | None = None
    overtaken_by: int | None = None

    @property
    def at(self) -> datetime:
        """When it happened by the source's word; when we accepted it, where the source says nothing."""
        return self.occurred_at or self.accepted_at

    def is_newer(self, at: datetime | None, event_id: int | None) -> bool:
        """Whether it may overwrite what the event `event_id` of the time `at` left: by time, then by id; None: nothing.

        The same event always may, so that working it again changes nothing that its first time did not.
        """
        if at is None or event_id is None or event_id == self.id:
            return True
        return (self.at, self.id) > (at, event_id)

    def json(self) -> Any:
        """The body parsed by the rules that accepted it: no number is rounded (fractions are `decimal.Decimal`).

        A form whose field `payload` is JSON, as GitHub's may be, is that JSON. Raises `ledger.payload.Malformed`, a
        ValueError, for a body that is no JSON by those rules.
        """
        return payload_form.json_of(self.body)

    def form(self) -> payload_form.Form:
        """The fields of a body that is a form, decoded by its charsets; what could not be decoded is in `problems`.

        Raises `ledger.payload.Malformed`.
        """
        return payload_form.read(self.body)


@dataclass(frozen=True, slots=True)
class ClaimedEvent:
    """An event under our claim. `attempt` counts this claim; `alone` asks to run with nothing beside it.

    `in_lane`: it has an ordering key, and others may wait for its end. `was_due_at`: its place among what was pending.
    """

    lease: EventLease
    event: Event
    attempt: int
    attempts_max: int
    alone: bool
    in_lane: bool = False
    was_due_at: datetime | None = None
