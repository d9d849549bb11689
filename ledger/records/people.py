"""Who may act, and what a decision was about. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from ledger.states import ActionState


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
