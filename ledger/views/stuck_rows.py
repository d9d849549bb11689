"""What the Stuck work page is told: one record a thing, each with the facts that say why it waits and for what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ledger.accounts.pauses import Pause
from ledger.views.stuck_found import Place

COUNTED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is in each segment, events and sends together; COUNTED_MAX + 1 stands for more than that.

    `expired` of `past` have outlived their lease, the others are close to its end. `given_up` of `aside` are sends.
    """

    past: int
    aside: int
    unhandled: int
    waiting: int
    expired: int
    given_up: int

    @property
    def stuck(self) -> int:
        """What no worker will finish without something changing, as the Overview counts it."""
        return self.expired + self.aside - self.given_up + self.unhandled


@dataclass(frozen=True, slots=True)
class Takers:
    """Who handles a kind: whether a running worker does, else which one did last, and when it was there last."""

    running: bool
    last: str
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides about every row: who works, when the next sweep may take something back, what holds sends.

    `resume_at` is in the future after an outage only: until then living workers renew, and nothing is taken back.
    """

    now: datetime
    running: int
    resume_at: datetime | None
    held: str
    pauses: Mapping[str, Pause]


@dataclass(frozen=True, slots=True)
class ByHand:
    """Who set it aside, when and why."""

    who: str
    at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class StuckEvent:
    """One event. `worker` has it in hand, and gave its last sign at `worker_seen_at`; `ahead_*` is whom it waits for."""

    id: int
    version: int
    state: str
    mode: str
    namespace: str
    source: str
    type: str
    event_key: str
    accepted_at: datetime
    attempts: int
    attempts_max: int
    alone: bool
    claimed_at: datetime | None
    lease_until: datetime | None
    due_at: datetime | None
    ended_at: datetime | None
    last_error: str
    waits_behind: int
    ahead_key: str
    ahead_state: str
    worker: str
    worker_seen_at: datetime | None
    place: Place
    now: datetime
    takers: Takers | None = None
    by_hand: ByHand | None = None


@dataclass(frozen=True, slots=True)
class StuckSend:
    """One send. `started`: its call may be under way, so nobody may simply try it again."""

    id: int
    version: int
    state: str
    kind: str
    about: str
    provider: str
    account: str
    event_id: int | None
    content_digest: bytes
    created_at: datetime
    attempts: int
    lease_until: datetime | None
    due_at: datetime | None
    retry_until: datetime
    settled_at: datetime | None
    started: bool
    last_error: str
    worker: str
    worker_seen_at: datetime | None
    place: Place
    now: datetime


Row = StuckEvent | StuckSend


@dataclass(frozen=True, slots=True)
class Page:
    rows: tuple[Row, ...]
    more: bool
    around: Surroundings


@dataclass(frozen=True, slots=True)
class Limits:
    """From the configuration: a lease's length, from when work waits too long, and from when a worker is silent."""

    lease_s: float
    waiting_s: float
    silent_s: float


@dataclass(frozen=True, slots=True)
class Failure:
    """One try that did not end well, or was ended."""

    attempt: int
    ending: str
    worker: str
    claimed_at: datetime
    ended_at: datetime
    error: str
