"""What came in at the sandbox's inboxes, so that it can be listed when its webhook was lost.

Each message is a line of a file before anybody is told of it: a restart forgets nothing that a real provider would keep.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Message = Mapping[str, Any]
NEEDED = ("inbox_id", "thread_id", "message_id", "timestamp", "from")


class NotAnEvent(ValueError):
    """What was given is no event of a received message; the message says what one is."""


class Incoming:
    """Safe to use from several threads."""

    def __init__(self, file: Path | None = None) -> None:
        self._file, self._lock = file, threading.Lock()
        self._messages: list[Message] = []

    def load(self) -> None:
        """Read the file back. A last line that a crash left half written was told to nobody, and is passed over."""
        if self._file is None or not self._file.exists():
            return
        whole, _, _ = self._file.read_bytes().rpartition(b"\n")
        self._messages = [json.loads(line) for line in whole.splitlines() if line]

    def arrive(self, event: Any) -> Message:
        """The message of an event as AgentMail's webhook would tell it. Raises NotAnEvent."""
        message = event.get("message") if isinstance(event, Mapping) else None
        if not isinstance(message, Mapping) or not all(isinstance(message.get(n), str) for n in NEEDED):
            raise NotAnEvent(f"Write an event with a message that has {', '.join(NEEDED)}.")
        at = {"created_at": message["timestamp"], "updated_at": message["timestamp"]}
        kept = {"labels": ["received", "unread"], "to": [message["inbox_id"]], "size": 0, **at, **message}
        with self._lock:
            self._messages.append(kept)
            self._keep(kept)
        return kept

    def of(self, inbox: str) -> list[Message]:
        return [m for m in list(self._messages) if m["inbox_id"] == inbox]

    def forget(self) -> None:
        with self._lock:
            self._messages.clear()

    def _keep(self, message: Message) -> None:
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(message) + "\n")
