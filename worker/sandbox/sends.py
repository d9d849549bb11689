"""Mailera's sends as the sandbox plays them: an id for each, and a status that moves on by itself.

Its article names the five words and what is asked for them; the shape of the answer is the one that our configuration
assumes when nothing else is said.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

STATES = ("queued", "sending", "sent", "failed", "unknown")
USUAL = (("queued", 0.0), ("sending", 0.3), ("sent", 1.0))  # from how many seconds after the send on


@dataclass(slots=True)
class Send:
    """What is said of one send: `first` once, to whoever asked for it; then by how many seconds have passed."""

    at: float
    first: str
    says: tuple[tuple[str, float], ...]

    def word(self, now: float) -> str:
        said, self.first = self.first, ""
        return said or next(word for word, from_s in reversed(self.says) if now - self.at >= from_s)


class Sends:
    """Safe to use from several threads. Of what was sent before a restart it says `sent`."""

    def __init__(self, is_mail: Callable[[str], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._is_mail, self._clock, self._lock = is_mail, clock, threading.Lock()
        self._sends: dict[str, Send] = {}

    def begin(self, named: str, state: str = "", then: str = "") -> None:
        """A send under this id; `state` is what its own answer says, `then` (or it again) what is said later."""
        says = ((then or state, 0.0),) if state else USUAL
        with self._lock:
            self._sends.setdefault(named, Send(self._clock(), state, says))

    def told(self, named: str) -> dict[str, Any] | None:
        """The answer to `GET /sends/{id}`, and to the send itself."""
        with self._lock:
            send = self._sends.get(named)
            if send is not None:
                return {"id": named, "status": send.word(self._clock())}
        return {"id": named, "status": "sent"} if self._is_mail(named) else None
