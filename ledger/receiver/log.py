"""One JSON line a decision, on stderr: ids and words of ours, never a body, a header or a secret."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any


def note(event: str, **facts: Any) -> None:
    line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts}
    sys.stderr.write(json.dumps(line, default=str) + "\n")
