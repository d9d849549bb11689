"""One start of one process, and what it left behind. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from ledger.states import ActionState, EventState


@dataclass(frozen=True, slots=True)
class Worker:
    """One start of one process: the id is random per start, the name is only a label."""

    id: UUID
    name: str
    handles: Sequence[tuple[str, str]] = field(default=())


@dataclass(frozen=True, slots=True)
class Rescued:
    """A row whose lease ran out, and where it went. `trouble`: the error that its values led to, where they did."""

    id: int
    state: EventState | ActionState
    trouble: str = ""
