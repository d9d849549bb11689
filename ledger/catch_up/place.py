"""How far a listing was read: the place that a stopped catch-up goes on from, so that nothing is counted twice."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any


class Place:
    """Everything until `newest` is dealt with, and of that very moment the messages in `_ids`.

    `position` is what the command that was stopped kept. Only a list in order of time has places to go on from.
    """

    def __init__(self, since: datetime, position: dict[str, Any] | None = None) -> None:
        self.goes_on = position is not None
        self.newest = datetime.fromisoformat(position["newest"]) if position else since
        self._ids = set(position.get("ids", ())) if position else set[str]()
        self._start, self._start_ids = self.newest, frozenset(self._ids)
        self._is_in_order = True

    @property
    def start(self) -> datetime:
        """Where this reading began."""
        return self._start

    def is_ahead(self, at: datetime | None, message_id: str | None = None) -> bool:
        """Whether it was not counted yet. `message_id` only of incoming mail; of what has no time nobody can tell."""
        if at is None or at > self._start:
            return True
        was_counted = self.goes_on and (message_id is None or message_id in self._start_ids)
        return at == self._start and not was_counted

    def has_passed(self, at: datetime | None) -> bool:
        return at is None or at <= self.newest

    def go_past(self, mail: Iterable[tuple[datetime, str]]) -> None:
        for at, message_id in mail:
            if at < self.newest:
                self._is_in_order = False
            if at > self.newest:
                self.newest, self._ids = at, set()
            if at == self.newest:
                self._ids.add(message_id)

    def kept(self) -> dict[str, Any] | None:
        """What to keep; None for a list that is not in order."""
        if not self._is_in_order:
            return None
        return {"newest": self.newest.isoformat(), "ids": sorted(self._ids)}
