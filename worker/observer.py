"""One hook for logs and for tests: `note()` writes a JSON line to stderr and tells whoever listens in this process.

Ids, states and words of ours; never a body, a recipient, a claim token or a secret. Text from outside is escaped to
ASCII, so that it is one line whatever it holds.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

Listener = Callable[[str, dict[str, Any]], None]
_listeners: list[Listener] = []
_lock = threading.Lock()


def note(event: str, **facts: Any) -> None:
    """Say that something happened. Never raises: a log that nobody reads any more stops no work."""
    line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts}
    with _lock, suppress(OSError, ValueError):
        sys.stderr.write(json.dumps(line, default=str) + "\n")
        sys.stderr.flush()
    for listener in tuple(_listeners):
        listener(event, facts)


def listen(listener: Listener) -> Callable[[], None]:
    """Be told of every note; returns what ends it."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)
