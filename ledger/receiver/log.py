"""One JSON line a decision, on stderr: ids and words of ours, never a body, a header or a secret."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ledger import payload
from ledger.records import Acceptance, Delivery, Unusable

TEXT_MAX = 200
_waiting: list[str] = []


def note(event: str, **facts: Any) -> None:
    """Write one line. Facts are numbers, or words that are ours; `cut` those that are not."""
    _write(_line(event, facts))


def note_decisions(items: Sequence[Delivery | Unusable], answers: Sequence[Acceptance]) -> None:
    """What became of each element of one request. The key is there as its digest only."""
    lines = (
        _line("stored", {"became": a.kind.value, "event_id": a.event_id, **_facts(item)})
        for item, a in zip(items, answers, strict=True)
    )
    _write("".join(lines))


def flush() -> None:
    """Write what waits."""
    lines, _waiting[:] = "".join(_waiting), []
    sys.stderr.write(lines)
    sys.stderr.flush()


def _write(lines: str) -> None:
    """In the event loop, all lines of one turn become one write: each write lets another thread take the GIL."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        sys.stderr.write(lines)
        return
    if not _waiting:
        loop.call_soon(flush)
    _waiting.append(lines)


def cut(text: str) -> str:
    """Text from outside, short and visible."""
    return payload.shown(text[:TEXT_MAX])


class Lines(logging.Handler):
    """What libraries log, as lines like ours. An exception's words stay out: they may quote what was received."""

    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, Any] = {"logger": record.name, "level": record.levelname.lower()}
        if record.exc_info and record.exc_info[1] is not None:
            frames = traceback.extract_tb(record.exc_info[1].__traceback__)[-5:]
            facts["error"] = type(record.exc_info[1]).__name__
            facts["where"] = [f"{frame.filename}:{frame.lineno}" for frame in frames]
        note("log", text=cut(record.getMessage().strip()), **facts)


def _facts(item: Delivery | Unusable) -> dict[str, Any]:
    where = {"source": item.source, "namespace": item.namespace}
    if isinstance(item, Unusable):
        return {**where, "element": item.index, "reason": item.reason}
    return {**where, "type": item.type, "key": item.key_digest.hex(), "delivery": cut(item.delivery_id)}


def _line(event: str, facts: dict[str, Any]) -> str:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"at": at, "event": event, **facts}) + "\n"
