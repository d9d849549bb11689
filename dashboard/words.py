"""Our own words for what rows say: spans of time, clocks, states, sentences. No Streamlit, no text from outside.

`named()` is the one way for a name (of a person, a provider, a kind) into a label, heading or sentence that
Streamlit reads as Markdown: it keeps letters, digits and what names are written with, so that nothing is left that
could be read as Markdown, a link or an address.
"""

from __future__ import annotations

import unicodedata
from datetime import datetime, timedelta

from ledger.views.review import provider_name

NAME_CHARACTERS_MAX = 60
COSTS = {"high": "●●● high", "medium": "●●○ medium", "low": "●○○ low"}


def named(text: str) -> str:
    """A name, harmless as Markdown. `A. Soto-Ruiz` stays; `www.evil.example` becomes `www evil example`."""
    kept = [_kept(ch, text[i + 1 : i + 2]) for i, ch in enumerate(text)]
    return " ".join("".join(kept).split())[:NAME_CHARACTERS_MAX].rstrip() or "Somebody"


def harmless(text: str) -> str:
    """A whole sentence of the ledger's, in which a name may stand: what Markdown could read is taken out."""
    return "".join(_spoken(ch, text[i + 1 : i + 2]) for i, ch in enumerate(text))


def _spoken(ch: str, following: str) -> str:
    if ch == ":" and (following.isdigit() or following in ("", " ")):
        return ch  # 09:41, but no :shortcode:
    return ch if ch in ",;%…()" else _kept(ch, following)


def _kept(ch: str, following: str) -> str:
    if ch.isalnum() or unicodedata.category(ch) == "Mn" or ch in "'’-":
        return ch
    return ch if ch == "." and following in ("", " ") else " "


def provider(name: str) -> str:
    """A provider's name for a label."""
    return named(provider_name(name))


def what(kind: str) -> str:
    """`refund_notice` is a `Refund notice`."""
    return named(kind.replace("_", " ")).capitalize()


def span(seconds: float) -> str:
    """How long, with as many digits as matter: `3.2 s`, `74 s`, `31 min`, `2 h 14 min`, `3 days 4 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} days {hours % 24} h"


def clock(at: datetime, now: datetime | None = None) -> str:
    """`09:41`, with the day before it when that is not today's. UTC; whoever prints it says so."""
    day = "" if now is None or at.date() == now.date() else f"{at.day} {at:%b} "
    return f"{day}{at:%H:%M}"


def day(at: datetime) -> str:
    """`4 Jan 2028`, for what is far away."""
    return f"{at.day} {at:%b %Y}"


def clock_s(at: datetime) -> str:
    """`09:41:20`, for what a person did."""
    return f"{at:%H:%M:%S}"


def many(n: int, one: str, more: str = "") -> str:
    """`1 send`, `4 sends`."""
    return f"{n:,} {one if n == 1 else more or one + 's'}"


def key_words(provider_label: str, left_s: float | None, until: datetime | None, now: datetime) -> str:
    """What the safe key is worth: `until 14:43, 5 h left`, `ran out at 14:28`, `Inboxili has none`."""
    if left_s is None or until is None:
        return f"{provider_label} has none"
    if left_s <= 0:
        return f"ran out at {clock(until, now)}"
    if until.date() != now.date():
        tomorrow = until.date() == (now + timedelta(days=1)).date()
        return f"until {clock(until)} tomorrow" if tomorrow else f"until {clock(until, now)}"
    left = f"{left_s // 3600:.0f} h" if left_s >= 3600 else span(left_s)
    return f"until {clock(until)}, {left} left"
