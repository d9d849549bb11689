"""The nouns of the ledger: frozen values that cross its functions. Standard library only.

Times are aware UTC datetimes read from the database's clock; durations end in `_s` and are seconds.

They stand in this package, one file for each thing they speak of; all are offered here, and are imported from here.
"""

from __future__ import annotations

from ledger.digests import JsonObject, canonical_json, digest_of
from ledger.records.actions import (
    ActionLease,
    ClaimedAction,
    Email,
    KindRules,
    Policy,
    Proposal,
    Proposed,
    Rate,
)
from ledger.records.attempts import (
    Accepted,
    Attempt,
    AttemptRef,
    Evidence,
    InFlight,
    NotSent,
    Outcome,
    OutcomeKind,
    PointsTo,
    Refused,
    Unknown,
    Window,
)
from ledger.records.events import (
    Acceptance,
    AcceptanceKind,
    ClaimedEvent,
    Delivery,
    Event,
    EventLease,
    Unusable,
)
from ledger.records.lookups import Answered, CannotBeAsked, Looked, LookedKind, LookUp, Sighting, Unanswered
from ledger.records.people import Act, Decision, Person, Role, Seen, Settled
from ledger.records.runs import Deadline, Mode, Run
from ledger.records.workers import Rescued, Worker

__all__ = [
    "Acceptance",
    "AcceptanceKind",
    "Accepted",
    "Act",
    "ActionLease",
    "Answered",
    "Attempt",
    "AttemptRef",
    "CannotBeAsked",
    "ClaimedAction",
    "ClaimedEvent",
    "Deadline",
    "Decision",
    "Delivery",
    "Email",
    "Event",
    "EventLease",
    "Evidence",
    "InFlight",
    "JsonObject",
    "KindRules",
    "LookUp",
    "Looked",
    "LookedKind",
    "Mode",
    "NotSent",
    "Outcome",
    "OutcomeKind",
    "Person",
    "PointsTo",
    "Policy",
    "Proposal",
    "Proposed",
    "Rate",
    "Refused",
    "Rescued",
    "Role",
    "Run",
    "Seen",
    "Settled",
    "Sighting",
    "Unanswered",
    "Unknown",
    "Unusable",
    "Window",
    "Worker",
    "canonical_json",
    "digest_of",
]
