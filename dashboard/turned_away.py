"""What the front door refused lately, in a line: a sender that is about to give up is noticed here first."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard.words import named
from ledger.figures.refusals import Refusal, Refused

SHOWN_MAX = 3
WORDS = {
    Refusal.BAD_SIGNATURE: "not signed as it should be",
    Refusal.MALFORMED: "no document",
    Refusal.CUT_SHORT: "cut short",
    Refusal.TOO_SLOW: "too slow",
    Refusal.TOO_LARGE: "too large",
    Refusal.CODED: "compressed",
    Refusal.UNKNOWN_SOURCE: "no such source",
    Refusal.WRONG_METHOD: "another method",
    Refusal.NOT_HTTP: "no HTTP",
    Refusal.NO_ROOM: "no room at the moment",
    Refusal.NOT_STORED: "not stored at the moment",
}


def words(refused: Sequence[Refused]) -> str:
    """The most frequent first, as they are given."""
    told = [f"{one.n:,} of {named(one.source)} ({WORDS[one.reason]})" for one in refused[:SHOWN_MAX]]
    more = len(refused) - len(told)
    return f"Turned away in the last hour: {', '.join(told)}{f', and {more} more' if more else ''}."
