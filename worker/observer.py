"""One hook for logs and for tests: `note()` writes a JSON line to stderr and tells whoever listens in this process.

Ids, states and words of ours; never a body, a recipient or a secret.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

Listener = Callable[[str, dict[str, Any]], None]
_listeners: list[Listener] = []
_lock = threading.Lock()


def note(event: str, **facts: Any) -> None:
    """Say that something happened."""
    line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts}
    with _lock:
        sys.stderr.write(json.dumps(line, default=str) + "\n")
        sys.stderr.flush()
    for listener in _listeners:
        listener(event, facts)


def listen(listener: Listener) -> Callable[[], None]:
    """Be told of every note; returns what ends it."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)
