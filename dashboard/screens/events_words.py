"""Words of the Events page that more than one of its files says. No Streamlit, no text from outside."""

from __future__ import annotations

from datetime import UTC, datetime

from dashboard.words import clock
from ledger.views.event import Story
from ledger.views.events import COUNTED_MAX

ENDINGS = {"done": "Done", "ignored": "Ignored", "unhandled": "Nobody handled it"}
UNHANDLED = "Nobody handles it"
STATES = {"pending": "Waiting", "processing": "In hand", "failed": "Set aside"}


def counted(n: int) -> str:
    """`1,204`, or `More than 10,000` where nobody counted on."""
    return f"{n:,}" if n <= COUNTED_MAX else f"More than {COUNTED_MAX:,}"


def state_word(state: str, ending: str | None, *, handled: bool = True) -> str:
    if state == "pending" and not handled:
        return UNHANDLED
    return STATES[state] if state in STATES else ENDINGS.get(ending or "done", "Done")


def moment(at: datetime, now: datetime | None = None) -> str:
    """`09:41:20` of today, `29 Nov 09:41:20` of another day; UTC, which whoever prints it says."""
    day = "" if at.date() == (now or datetime.now(UTC)).date() else f"{at.day} {at:%b} "
    return f"{day}{at:%H:%M:%S}"


def key_kept(story: Story, until: datetime) -> str:
    """How long its key is kept, and what a delivery with the same key is then. `until` by the configured period."""
    if not story.key_kept:
        return (
            "No longer kept. The same key is a new event now; the keys of what went out are kept longer, "
            "so nothing goes out twice."
        )
    day, is_past = clock(until, story.now), until < story.now
    if not story.is_over:
        least = "" if is_past else f", and until {day} UTC at least"
        return f"Kept while this or a send of it is open{least}. Until then the same key is a duplicate."
    if is_past:
        return f"Its time was over at {day} UTC; the next clean-up gives it up. After that the same key is a new event."
    return f"Kept until {day} UTC. The same key is a duplicate until then, and a new event after."


def size(n: int | None) -> str:
    """`812 bytes`, `14 kB`, `1.2 MB`: of a body."""
    if n is None:
        return "no longer kept"
    if n < 10_000:
        return f"{n:,} {'byte' if n == 1 else 'bytes'}"
    return f"{n / 1000:.0f} kB" if n < 1_000_000 else f"{n / 1_000_000:.1f} MB"
