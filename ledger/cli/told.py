"""What the command line tells of events one by one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ledger.terminal import plain, tell

if TYPE_CHECKING:
    from ledger.cli.retrying import Chosen, Tried

SAME_MAX = 20


def described(event: Chosen) -> str:
    parts = (event.namespace, f"{event.source} {event.type}", event.event_key)
    said = f"event {event.id}: {', '.join(plain(part, 80) for part in parts)}; {event.attempts} attempts"
    return f"{said}; {plain(event.last_error)}" if event.last_error else said


def tell_refused(refused: list[Tried], done: str = "tried") -> None:
    """One by one; many that were refused with the same words, in one line."""
    for words, n in Counter(one.refusal for one in refused).items():
        if n > SAME_MAX:
            tell(f"{n:,} events: not {done}: {words}")
            continue
        for one in refused:
            if one.refusal == words:
                tell(f"event {one.event_id}: not {done}: {words}" if one.event_id else f"Not {done}: {words}")
