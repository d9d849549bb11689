"""What a look-up asks and what comes of it: frozen values between a provider's file and the ledger. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from ledger.records.attempts import PointsTo


@dataclass(frozen=True, slots=True)
class LookUp:
    """One question about one send, under our claim. It may have gone out from `first_try_at` on.

    `last_try_at` is when the last try that could have sent it ended. `sent_as` is what the provider called a try of
    which it could not say more, `provider_key` our key there; each is None where there is none.
    `place` is where the last try went, as far as it is known.
    """

    id: int
    action_id: int
    token: UUID
    provider: str
    account: str
    reference: str
    content: bytes
    first_try_at: datetime
    last_try_at: datetime
    provider_key: str | None = None
    sent_as: str | None = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A message that the provider showed, in our own words. Proof names a message by our id, reference or label;
    anything else is a hint. The words of the same sighting are the same each time."""

    found: str
    points_to: PointsTo
    proof: bool
    message_id: str | None


@dataclass(frozen=True, slots=True)
class Answered:
    """The provider let us look. No sighting is no proof of anything: not found is never not sent."""

    sightings: tuple[Sighting, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """We could not look now: no connection, no right, no sense in the answer."""

    reason: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class CannotBeAsked:
    """This provider has no look-up, and says so in `reason`."""

    reason: str


Looked = Answered | Unanswered | CannotBeAsked


class LookedKind(StrEnum):
    ANSWERED = "answered"
    UNANSWERED = "unanswered"
    CANNOT_BE_ASKED = "cannot_be_asked"
