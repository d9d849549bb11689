"""The nouns of the ledger: frozen values that cross its functions. Standard library only.

Times are aware UTC datetimes read from the database's clock; durations end in `_s` and are seconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from ledger.states import ActionState, EventState

JsonObject = Mapping[str, Any]


def digest_of(*parts: bytes | str) -> bytes:
    """SHA-256 of the parts, each behind its length: `("ab", "c")` and `("a", "bc")` never meet."""
    whole = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        whole.update(len(raw).to_bytes(8, "big") + raw)
    return whole.digest()


def canonical_json(value: Any) -> bytes:
    """The one spelling in which rendered requests are stored and compared."""
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


# ── Intake ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Delivery:
    """One logical event as a source's adapter found it in a request, ready to be accepted.

    `event_key` is the readable key; the unique identity is `key_digest` within the namespace. `content_digest`
    covers the content without the members that differ between honest retries.
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
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What became of one delivery. Every kind is durable once the transaction has committed."""

    kind: AcceptanceKind
    event_id: int | None


# ── Work ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class EventLease:
    """The right to end or renew one event's work: its id and the claim token of this claim."""

    event_id: int
    token: UUID


class Mode(StrEnum):
    """Why a handler runs: for the first time, or to work out local results again."""

    FIRST = "first"
    RECOMPUTE = "recompute"


@dataclass(frozen=True, slots=True)
class Event:
    """An accepted event as a handler sees it. `body` is exactly the bytes received."""

    id: int
    namespace: str
    source: str
    type: str
    event_key: str
    body: bytes
    accepted_at: datetime
    occurred_at: datetime | None
    mode: Mode
    run: int

    def json(self) -> Any:
        """The body parsed as JSON; numbers keep their digits (`decimal.Decimal` for fractions)."""
        return json.loads(self.body, parse_float=Decimal)


@dataclass(frozen=True, slots=True)
class ClaimedEvent:
    """An event under our claim. `attempt` counts this claim; `alone` asks to run with nothing beside it."""

    lease: EventLease
    event: Event
    attempt: int
    attempts_max: int
    alone: bool


# ── Actions ───────────────────────────────────────────────────────────────────────────────────────────


class Policy(StrEnum):
    """What happens to an action nobody can know about. `review` is the default."""

    REVIEW = "review"
    RESEND = "resend"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Email:
    """An outgoing e-mail as a handler writes it; rendered once, stored, and never changed.

    `inbox` and `in_reply_to` (the provider's message id) make it a reply where the provider has replies.
    """

    to: tuple[str, ...]
    subject: str
    text: str
    html: str | None = None
    sender: str | None = None
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    reply_to: tuple[str, ...] = ()
    inbox: str | None = None
    in_reply_to: str | None = None

    def content(self) -> dict[str, Any]:
        """The members that are set, as the JSON object that is stored as the action's content."""
        members = {name: getattr(self, name) for name in self.__slots__}
        return {
            name: list(v) if isinstance(v, tuple) else v for name, v in members.items() if v not in (None, ())
        }


@dataclass(frozen=True, slots=True)
class KindRules:
    """What configuration says of one kind of action: `[actions.KIND]`, and its provider's key."""

    kind: str
    provider: str
    account: str
    policy: Policy = Policy.REVIEW
    approval: bool = False
    key_window_s: float | None = None
    key_margin_s: float = 900.0
    evidence_s: float = 300.0
    retry_for_s: float = 86_400.0
    cost: Literal["high", "medium", "low"] = "high"
    cost_reason: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An external action to be made once per (namespace, action key), whoever proposes it first."""

    namespace: str
    action_key: str
    rules: KindRules
    content: JsonObject
    recipients: tuple[str, ...]
    about: str = ""
    event_id: int | None = None


@dataclass(frozen=True, slots=True)
class Proposed:
    """The action that stands under the key. `created` is False when it existed; then its content stands."""

    action_id: int
    created: bool
    state: ActionState
    same_content: bool


@dataclass(frozen=True, slots=True)
class ActionLease:
    """The right to carry one action's next attempt, or to give it back."""

    action_id: int
    token: UUID


@dataclass(frozen=True, slots=True)
class ClaimedAction:
    """An approved action under our claim, with the stored bytes that every attempt sends."""

    lease: ActionLease
    namespace: str
    kind: str
    provider: str
    account: str
    action_key: str
    provider_key: str | None
    reference: str
    content: bytes
    content_digest: bytes
    attempts: int


@dataclass(frozen=True, slots=True)
class AttemptRef:
    """The one row to which an attempt's answer belongs, whoever holds the action when it arrives."""

    attempt_id: int
    action_id: int
    token: UUID


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider took it and named it. Accepted is not delivered."""

    message_id: str
    thread_id: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Definitely not sent, and a repeat would be refused again."""

    reason: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class NotSent:
    """Definitely not sent, may be tried again. `pauses` holds the whole provider account, not this action."""

    reason: str
    code: str = ""
    retry_after_s: float | None = None
    pauses: bool = False


@dataclass(frozen=True, slots=True)
class InFlight:
    """The provider says this key is busy (or was used with other content): the same bytes may be tried again."""

    reason: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request may or may not have been carried out."""

    reason: str
    code: str = ""


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

    `decided`: a person asked for this try. It goes past the limits of patience, never past the key.
    """

    key_window_s: float | None
    key_margin_s: float
    retry_until: datetime
    decided: bool = False


# ── People ────────────────────────────────────────────────────────────────────────────────────────────


class Role(StrEnum):
    VIEWER = "viewer"
    SUPPORT = "support"
    ENGINEER = "engineer"
    AUDITOR = "auditor"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Person:
    """A named person, keyed by who vouches for them (`issuer`) and under which subject."""

    id: int
    issuer: str
    subject: str
    name: str
    email: str
    role: Role


@dataclass(frozen=True, slots=True)
class Act:
    """Who acts and why. `form_id` is one-time: the same form is one decision, however often it arrives."""

    person: Person
    form_id: UUID
    reason: str = ""
    looked_at: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What the person had before their eyes; a decision about anything else is refused as stale."""

    version: int
    content_digest: bytes


class Decision(StrEnum):
    """What a person can decide about an uncertain send."""

    WAS_SENT = "was_sent"
    RESEND_SAME_KEY = "resend_same_key"
    RESEND_NEW_KEY = "resend_new_key"
    DO_NOT_SEND = "do_not_send"


@dataclass(frozen=True, slots=True)
class Settled:
    """What a decision did, for the words on screen: the new state, the audit entry and, for a send, its time."""

    action_id: int
    state: ActionState
    audit_id: int
    at: datetime
    goes_at: datetime | None = None


# ── Workers ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Worker:
    """One start of one process: the id is random per start, the name is only a label."""

    id: UUID
    name: str
    handles: Sequence[tuple[str, str]] = field(default=())


@dataclass(frozen=True, slots=True)
class Rescued:
    """A row whose lease ran out, and where it went."""

    id: int
    state: EventState | ActionState
