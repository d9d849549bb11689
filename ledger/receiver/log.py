"""One JSON line a decision, on stderr: ids and words of ours, never a body, a header or a secret."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from ledger import payload
from ledger.records import Acceptance, Delivery, Unusable

TEXT_MAX = 200
Decisions = tuple[Sequence[Delivery | Unusable], Sequence[Acceptance]]
_waiting: list[str | Decisions] = []


def note(event: str, **facts: Any) -> None:
    """Write one line. Facts are numbers, or words that are ours; `cut` those that are not."""
    _write(_line(event, facts))


def note_decisions(items: Sequence[Delivery | Unusable], answers: Sequence[Acceptance]) -> None:
    """What became of each element of one request. The key is there as its digest only."""
    _write((items, answers))


def flush() -> None:
    """Write what waits."""
    waiting, _waiting[:] = _waiting[:], []
    sys.stderr.write(_spelled(waiting))
    sys.stderr.flush()


def _spelled(waiting: Sequence[str | Decisions]) -> str:
    at = _now()
    return "".join(
        one if isinstance(one, str) else "".join(map(partial(_decision, at), *one)) for one in waiting
    )


def _write(lines: str | Decisions) -> None:
    """In the event loop, all lines of one turn are spelled at one time and written at once: each write lets another
    thread take the GIL."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        sys.stderr.write(_spelled([lines]))
        return
    if not _waiting:
        loop.call_soon(flush)
    _waiting.append(lines)


def cut(text: str) -> str:
    """Text from outside, short and visible."""
    return payload.storable(text[:TEXT_MAX])


class Lines(logging.Handler):
    """What libraries log, as lines like ours. An exception's words stay out: they may quote what was received."""

    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, Any] = {"logger": record.name, "level": record.levelname.lower()}
        if record.exc_info and record.exc_info[1] is not None:
            frames = traceback.extract_tb(record.exc_info[1].__traceback__)[-5:]
            facts["error"] = type(record.exc_info[1]).__name__
            facts["where"] = [f"{frame.filename}:{frame.lineno}" for frame in frames]
        note("log", text=cut(record.getMessage().strip()), **facts)


def _facts(item: Unusable) -> dict[str, Any]:
    return {"source": item.source, "namespace": item.namespace, "element": item.index, "reason": item.reason}


def _decision(at: str, item: Delivery | Unusable, answer: Acceptance) -> str:
    """As `_line`; an event's is spelled by hand, which takes a third of the time."""
    if isinstance(item, Unusable):
        return _line("stored", {"became": answer.kind.value, "event_id": answer.event_id, **_facts(item)})
    return (
        f'{{"at": "{at}", "event": "stored", "became": "{answer.kind}", "event_id": {_number(answer.event_id)}, '
        f'"source": {quoted(item.source)}, "namespace": {quoted(item.namespace)}, "type": {quoted(item.type)}, '
        f'"key": "{item.key_digest.hex()}", "delivery": {quoted(cut(item.delivery_id))}}}\n'
    )


def _number(n: int | None) -> str:
    return "null" if n is None else str(n)


def _line(event: str, facts: dict[str, Any]) -> str:
    return json.dumps({"at": _now(), "event": event, **facts}) + "\n"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
