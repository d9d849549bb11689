"""An event under our claim: how far it has come, and how its claim ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.records import ClaimedEvent, Deadline
from worker.handlers import Handler


class Stage(StrEnum):
    SLOW = "slow"
    READY = "ready"
    APPLYING = "applying"


@dataclass(slots=True, eq=False)
class InHand:
    """An event under our claim, and how far it has come."""

    claimed: ClaimedEvent
    handler: Handler
    stage: Stage
    prepared: Any = None
    error: BaseException | None = None
    cuts: int = 0  # connections that broke while it was applied

    def begin(self, stage: Stage, run_s_max: float) -> None:
        """Its code runs from now on, for `run_s_max` at most; the handler is told through `event.run`."""
        self.stage = stage
        self.deadline.begin(run_s_max)

    @property
    def deadline(self) -> Deadline:
        return self.claimed.event.run.deadline


class Ending(StrEnum):
    COMPLETED = "completed"
    RETRIED = "retried"
    SET_ASIDE = "set_aside"
    UNAVAILABLE = "retry later"
    LEASE_LOST = "lease_lost"
    LEFT = "left to its lease"  # could not be ended: something is wrong that is not the event's
