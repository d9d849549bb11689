"""What a finding is, what it is about, and how long something lasts in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Level(IntEnum):
    """The exit code of the worst finding is that of the command."""

    HEALTHY = 0
    WARNING = 1
    CRITICAL = 2


class Topic(StrEnum):
    """What is looked at, in the words and in the order of the Health page."""

    CONFIGURATION = "Configuration"
    DATABASE = "Database"
    HELD = "Sending"
    WORKERS = "Running workers"
    RECEIVERS = "Running receivers"
    PENDING = "Oldest due event"
    SENDS = "Oldest due send"
    LEASES = "Expired leases"
    UNSETTLED = "Oldest unsettled send"
    PROPOSED = "Oldest send to approve"
    RUNS = "Runs for a second person"
    PAUSED = "Paused accounts"
    UNSERVED = "Sends that nobody sends"
    ALARMS = "Keys used elsewhere"
    ENDPOINTS = "Endpoints off"
    CATCH_UPS = "Catch-ups running"
    REFUSED = "Refused at the door"
    FAILED = "Set aside"
    UNHANDLED = "Nobody handles"
    CONFLICTS = "Open conflicts"
    QUARANTINED = "In quarantine"
    TRANSACTION = "Oldest transaction"
    DEAD_ROWS = "Dead rows"
    CLOCKS = "Clock difference"
    GROWTH = "Growth in a day"
    UNSEALED = "Unsealed audit entries"
    CHAIN = "Audit chain"
    PRUNED = "Last purge"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    what: str
    topic: Topic = Topic.DATABASE


def critical(topic: Topic, what: str) -> Finding:
    return Finding(Level.CRITICAL, what, topic)


def warning(topic: Topic, what: str) -> Finding:
    return Finding(Level.WARNING, what, topic)


def late(topic: Topic, what: str, n: float, limit: float, critical_times: float) -> Finding | None:
    """None within the limit; critical when it is many times over it. `what` is the sentence."""
    if n <= limit:
        return None
    return Finding(Level.CRITICAL if n > limit * critical_times else Level.WARNING, what, topic)


def duration(seconds: float) -> str:
    """`90 s`, `12 min`, `5 h`, `3 days`: as precise as it matters."""
    for unit, length_s in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(n: float) -> str:
    """`640 kB`, `1.2 GB`: decimal, as disks are sold."""
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if abs(n) >= length:
            return f"{n / length:.1f} {unit}"
    return f"{n / 1e3:.0f} kB"
