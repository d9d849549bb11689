"""What the verdict reads: tries, the answers that ended them, and what else was observed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


@dataclass(frozen=True, slots=True)
class AttemptRef:
    """The one row to which an attempt's answer belongs, whoever holds the action when it arrives."""

    attempt_id: int
    action_id: int
    token: UUID


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider took it and named it. Accepted is not delivered. `note`: what else it said, for people."""

    message_id: str
    thread_id: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """Definitely not sent, and a repeat would be refused again."""

    reason: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class NotSent:
    """Definitely not sent, may be tried again. `pauses` holds the whole provider account, not this action.

    `by_settings`: a key, a right or an address of ours is to blame; tried at once when settings are read anew.
    """

    reason: str
    code: str = ""
    retry_after_s: float | None = None
    pauses: bool = False
    by_settings: bool = False


@dataclass(frozen=True, slots=True)
class InFlight:
    """The provider says this key is busy (or was used with other content): the same bytes may be tried again.

    `other_content`: it says the second, and means it: an alarm, and no further try by itself.
    """

    reason: str
    code: str = ""
    other_content: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request may or may not have been carried out. `sent_as` is the id by which the provider can be asked."""

    reason: str
    code: str = ""
    sent_as: str | None = None


Outcome = Accepted | Refused | NotSent | InFlight | Unknown


class OutcomeKind(StrEnum):
    ACCEPTED = "accepted"
    REFUSED = "refused"
    NOT_SENT = "not_sent"
    IN_FLIGHT = "in_flight"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try, as the verdict reads it. `outcome` None: no answer yet, or its worker vanished (`abandoned`)."""

    number: int
    account: str
    started_at: datetime
    answered_at: datetime | None
    outcome: OutcomeKind | None
    abandoned: bool
    reason: str = ""
    code: str = ""
    message_id: str | None = None
    worker: str = ""
    other_content: bool = False
    place: str = ""


class PointsTo(StrEnum):
    SENT = "sent"
    NOT_SENT = "not_sent"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Something observed about an action. Only `proof` settles it; everything else is a hint for a person."""

    source: str
    found: str
    points_to: PointsTo
    proof: bool
    observed_at: datetime
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """How long the provider keeps our key, less our margin, and for how long we try at all.

    `decided`: a person asked for this try. It goes past the limits of patience, never past the key, nor past `send_before`:
    from then on it is worth nothing to its recipient, and is not sent any more whoever asks.
    `moved`: its provider's name stands for another account now, where the key protects nothing. `place`: where that is:
    a try that went elsewhere is not protected either. Left out, of either, it is not compared.
    """

    key_window_s: float | None
    key_margin_s: float
    retry_until: datetime
    decided: bool = False
    moved: bool = False
    send_before: datetime | None = None
    place: str = ""
