"""An event under our claim: how far it has come, and how its claim ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.records import ClaimedEvent
from worker.handlers import Handler


class Stage(StrEnum):
    SLOW = "slow"
    READY = "ready"
    APPLYING = "applying"


@dataclass(slots=True, eq=False)
class InHand:
    """An event under our claim, and how far it has come. `since`: when its code began to run."""

    claimed: ClaimedEvent
    handler: Handler
    stage: Stage
    since: float
    prepared: Any = None
    error: BaseException | None = None
    cuts: int = 0  # connections that broke while it was applied


class Ending(StrEnum):
    COMPLETED = "completed"
    RETRIED = "retried"
    SET_ASIDE = "set_aside"
    UNAVAILABLE = "retry later"
    LEASE_LOST = "lease_lost"
    LEFT = "left to its lease"  # could not be ended: something is wrong that is not the event's
