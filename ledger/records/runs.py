"""What a handler is told of its run: why it runs, for the how-manieth time, and how long it may. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from ledger.clock import clock


class Mode(StrEnum):
    """Why a handler runs: for the first time, to work out local results again, or to say what it would let out once more.

    In both of the latter it creates no action; in the last one nothing that it does is kept but what it proposes.
    """

    FIRST = "first"
    RECOMPUTE = "recompute"
    REPEAT = "repeat"


@dataclass(slots=True, eq=False)
class Deadline:
    """When the part that runs now has used up its time, by `ledger.clock`; the worker sets it as each part begins."""

    at: float = inf

    def begin(self, run_s_max: float) -> None:
        self.at = clock() + run_s_max

    @property
    def is_over(self) -> bool:
        return clock() > self.at


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an event's handler.

    `number` counts the runs a person asked for, from 1; a retry is the same run. `attempt` counts the claims of all runs,
    this one included, and `attempts_max` is how many there may be: a person's retry and a further run raise it.
    """

    mode: Mode = Mode.FIRST
    number: int = 1
    attempt: int = 1
    attempts_max: int = 5
    deadline: Deadline = field(default_factory=Deadline, compare=False, repr=False)

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure now sets the event aside; `RetryLater` does not count as one."""
        return self.attempt >= self.attempts_max

    def remaining_s(self) -> float:
        """How long the part that asks may still run before its lease is given up, never below 0.

        By a clock that no change of the time moves; the slow part and the apply part have `[worker] run_s_max` each.
        Infinite where nobody set a limit, as in a test of yours that calls the handler itself.
        """
        return max(0.0, self.deadline.at - clock())
