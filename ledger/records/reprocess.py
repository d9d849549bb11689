"""Events worked again and actions sent again: what is asked for, what is on the list, what became of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ledger.digests import digest_of


class RunMode(StrEnum):
    """What a run does with its rows. Only `repeat` lets anything out of the house."""

    PREVIEW = "preview"
    RECOMPUTE = "recompute"
    REPEAT = "repeat"


class RunState(StrEnum):
    """Where a run stands; `waiting` is for a second person. The last three are final."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    DECLINED = "declined"


class RowState(StrEnum):
    """What became of one row. `skipped`: it was not begun, and its reason says why; `failed`: all stands as before."""

    WAITING = "waiting"
    WORKING = "working"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


class Found(StrEnum):
    """What a handler's proposal meets when it runs again."""

    SAME = "same"
    DIFFERS = "differs"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. Events for preview and recompute: all that is given must fit, times are of acceptance, `since`
    on and before `until`. Actions and findings for a repeat, chosen one by one. `even_once_ever` is the explicit word for
    kinds that are configured to go out once ever.
    """

    mode: RunMode
    event_ids: tuple[int, ...] = ()
    namespace: str = ""
    source: str = ""
    type: str = ""
    state: str = "completed"
    error: str = ""
    since: datetime | None = None
    until: datetime | None = None
    action_ids: tuple[int, ...] = ()
    finding_ids: tuple[int, ...] = ()
    even_once_ever: bool = False

    @property
    def in_words(self) -> str:
        """The selection as it stands in the run and in the audit."""
        parts = [f"{name} {', '.join(map(str, n))}" for name, n in self._numbers().items() if n]
        parts += [f"{name} {text}" for name, text in self._texts().items() if text]
        parts += ["even once ever"] if self.even_once_ever else []
        return "; ".join(parts) or "all events that are completed"

    def _numbers(self) -> dict[str, tuple[int, ...]]:
        return {"events": self.event_ids, "sends": self.action_ids, "findings": self.finding_ids}

    def _texts(self) -> dict[str, str]:
        texts = {"namespace": self.namespace, "source": self.source, "type": self.type}
        times = {"since": self.since, "until": self.until}
        return (
            texts
            | {"state": self.state if self.state != "completed" else "", "error": self.error}
            | {name: f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "" for name, at in times.items()}
        )


@dataclass(frozen=True, slots=True)
class Listed:
    """One row of a list before it is asked for: an event, or what a repeat sends. `refusal`: it would be skipped.

    `recipients` is None where whoever asks may not see them.
    """

    refusal: str
    version: int
    event_id: int | None = None
    action_id: int | None = None
    finding_id: int | None = None
    evidence: int = 0
    content_digest: bytes | None = None
    namespace: str = ""
    what: str = ""
    key: str = ""
    state: str = ""
    recipients: tuple[str, ...] | None = None
    exists: bool = True

    @property
    def name(self) -> str:
        """As the command line takes it: `event 12`, `action 7`, `finding 3`."""
        numbers = {"event": self.event_id, "action": self.action_id, "finding": self.finding_id}
        return next(f"{word} {n}" for word, n in numbers.items() if n is not None)

    @property
    def called(self) -> str:
        """As people read it: `Event 12`, `Send 7`, `Finding 3`."""
        return self.name.replace("action", "send").capitalize()


@dataclass(frozen=True, slots=True)
class Standing:
    """Actions that the listed events made: so many of a kind in a state. A recompute sends none of them again."""

    kind: str
    state: str
    actions: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A list as it would be frozen. Two plans with the same digest do the same to the same rows in the same versions."""

    wanted: Wanted
    rows: tuple[Listed, ...]
    standing: tuple[Standing, ...] = ()

    @property
    def going(self) -> tuple[Listed, ...]:
        return tuple(row for row in self.rows if not row.refusal)

    @property
    def digest(self) -> bytes:
        parts = (f"{row.name} {row.version} {row.evidence}" for row in self.going)
        contents = (row.content_digest or b"" for row in self.going)
        return digest_of("reprocess", self.wanted.mode.value, *parts, *contents)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request did: its run, whether a second person is needed and why, and the audit entry."""

    run_id: int
    state: RunState
    audit_id: int
    second_because: str = ""
