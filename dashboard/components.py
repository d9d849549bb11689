"""Words, and what Streamlit has no element for. Text from outside goes through `said()` and nothing else here."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import streamlit as st

from dashboard.session import Result

COST = {"high": "●●● high", "medium": "●●○ medium", "low": "●○○ low"}
VERDICT = {
    "was_sent": ("It went out.", "done", "▲ It went out"),
    "was_not_sent": ("It did not go out.", "waiting", "▼ It did not go out"),
    "safe_to_try_again": ("Safe to try again", "working", "↻ Safe to try again"),
    "nobody_knows": ("Nobody knows whether it went out.", "person", "? Nobody knows"),
}
POINTS = {
    "sent": ("▲ it went out", "done"),
    "not_sent": ("▼ it did not", "waiting"),
    "neither": ("– neither", "waiting"),
}


def style() -> None:
    st.html(Path(__file__).with_name("style.css"))


def said(text: str) -> str:
    """Text from outside, ready for `st.html`: escaped, kept in one direction, hidden and look-alike letters outlined."""
    return "<bdi>" + "".join(_letter(c) for c in text) + "</bdi>"


def _letter(c: str) -> str:
    return f'<span class="nt-odd">{html.escape(c)}</span>' if is_odd(c) else html.escape(c)


def is_odd(c: str) -> bool:
    """Hidden, controlling, or a letter that is not Latin."""
    if unicodedata.category(c) in ("Cf", "Cc", "Cs", "Co") and c not in "\n\t":
        return True
    return ord(c) > 127 and c.isalpha() and "LATIN" not in unicodedata.name(c, "")


def looks_alike(address: str) -> list[str]:
    """Letters in an otherwise Latin address that only look Latin, by name."""
    has_latin = any(c.isascii() and c.isalpha() for c in address)
    odd = dict.fromkeys(c for c in address if is_odd(c))
    return [unicodedata.name(c, f"U+{ord(c):04X}").capitalize() for c in odd] if has_latin else []


def span(seconds: float) -> str:
    """A duration in words: `2 h 14 min`, `3 min`, `12 s`."""
    whole = max(0, int(seconds))
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours >= 48:
        return f"{hours // 24} days"
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min" if minutes else f"{whole} s"


def count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def clock(at: datetime | None, *, day: bool = False) -> str:
    if at is None:
        return "–"
    return f"{at.astimezone(UTC):%d %b %H:%M:%S}" if day else f"{at.astimezone(UTC):%H:%M:%S}"


def when(at: datetime | None, now: datetime) -> str:
    return clock(at, day=at is not None and at.astimezone(UTC).date() != now.astimezone(UTC).date())


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """A row of facts; the values are HTML made by `said` or by us."""
    rows = "".join(f"<div><dt>{html.escape(name)}</dt><dd>{value}</dd></div>" for name, value in pairs)
    st.html(f"<dl class='nt-facts'>{rows}</dl>")


def heading(title: str, lead: str = "") -> None:
    """A page's answer; `title` and `lead` are HTML made by `said` or by us."""
    st.html(f"<h1 class='nt-h1'>{title}</h1>" + (f"<p class='nt-lead'>{lead}</p>" if lead else ""))


def verdict_block(word: str, reasons: Iterable[str], until: datetime | None) -> None:
    title, tone, _ = VERDICT[word]
    if word == "safe_to_try_again":
        title = f"Safe to try again until {clock(until)[:5]} UTC."
    items = "".join(f"<li>{html.escape(reason)}</li>" for reason in reasons)
    st.html(f"<section class='nt-verdict nt-{tone}'><h2>{html.escape(title)}</h2><ul>{items}</ul></section>")


def tell(result: Result) -> None:
    """What became of an act, in the tone it deserves: to be second is no error."""
    words = result.words
    if result.kind in ("lost", "twice"):
        st.info(
            f"**{words.split('. ')[0]}.** {'. '.join(words.split('. ')[1:])}", icon=":material/person_check:"
        )
    elif result.kind == "stale":
        st.info("**This send changed while you had it open.** Nothing was done.", icon=":material/update:")
    elif result.kind == "failed":
        st.warning(words, icon=":material/error:")
    elif result.kind != "done":
        st.warning(words, icon=":material/edit:")


def database_gone(age_s: float | None) -> None:
    """A notice, not an alarm: the page keeps what it has and tries again by itself."""
    kept = f" The figures are {span(age_s)} old and buttons are off." if age_s is not None else ""
    st.info(
        f"**The database cannot be reached since {datetime.now(UTC):%H:%M:%S} UTC.**{kept} Trying again every 2 s.",
        icon=":material/cloud_off:",
    )
