"""Sends that share a cause and are decided together. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ledger.records.people import Seen


class ListState(StrEnum):
    WAITING = "waiting"
    DONE = "done"
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Listed:
    """One send of a list, as it was seen."""

    action_id: int
    seen: Seen


@dataclass(frozen=True, slots=True)
class Terms:
    """By which rules a list is decided.

    `cause` is what the sends share, in our words. A send can be taken back for `wait_s`; a list that takes the person
    over `second_person_above` sends within an hour waits `expires_s` for a second one.
    """

    cause: str
    wait_s: float = 15.0
    second_person_above: int = 50
    expires_s: float = 14_400.0


@dataclass(frozen=True, slots=True)
class Shared:
    """What became of a list. `going` sends were decided, or are asked about; `because`: why a second person is needed."""

    id: int
    state: ListState
    audit_id: int
    going: int
    left: int
    at: datetime
    because: str = ""
