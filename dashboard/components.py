"""What Streamlit has no element for, and the sinks for text from outside.

Text from outside reaches a page in four ways only: `st.text`, `st.code(language=None)`, text columns of
`st.dataframe`, and `said()` inside `st.html`. Everything else in Streamlit reads Markdown; there stand our own
words, numbers, and names that went through `words.named()`. A test reads every call and holds this.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Literal

import streamlit as st

from dashboard import session
from dashboard.colours import Mode, State
from dashboard.letters import odd_places
from dashboard.remembered import at_top, remembering
from dashboard.words import clock, clock_s, harmless, many, named, span
from ledger.payload import shown
from ledger.verdict import VerdictWord

TONES: dict[str, State] = {
    VerdictWord.WAS_SENT: "done",
    VerdictWord.WAS_NOT_SENT: "waiting",
    VerdictWord.SAFE_TO_TRY_AGAIN: "working",
    VerdictWord.NOBODY_KNOWS: "person",
}
POINTS: dict[str, tuple[str, State]] = {
    "sent": ("▲ it went out", "done"),
    "not_sent": ("▼ it did not", "waiting"),
    "neither": ("– neither", "waiting"),
    "hint_sent": ("▲ may be it", "waiting"),  # no proof: it must not look like one
    "hint_not_sent": ("▼ perhaps not", "waiting"),
}
Thing = Literal["send", "event", "conflict", "pause", "run", "list", "group"]
NOTHING_HERE = "There is nothing here, or you may not see it."


def style() -> None:
    st.html(Path(__file__).with_name("style.css"))


def mode() -> Mode:
    """The viewer's theme when this run began."""
    return "dark" if getattr(st.context.theme, "type", "light") == "dark" else "light"


def remember(number: int) -> None:
    """A small number in the browser, for this console alone. Both are our own, as the script of `from_the_top` is."""
    st.html(remembering(number), unsafe_allow_javascript=True)


def from_the_top(opened: int) -> None:
    """Shows the page from its top when `opened` is another number than before; once, not at each run."""
    with st.container(key="nt_top"):
        st.html(at_top(opened), unsafe_allow_javascript=True)


# ── Text from outside ─────────────────────────────────────────────────────────────────────────────────


def said(text: str) -> str:
    """Text from outside, ready for `st.html`: escaped, kept in one direction, hidden and look-alike letters outlined."""
    odd = odd_places(text)
    return "<bdi>" + "".join(_letter(ch, i in odd) for i, ch in enumerate(text)) + "</bdi>"


def _letter(ch: str, odd: bool) -> str:
    safe = html.escape(shown(ch))
    return f'<span class="nt-odd" title="U+{ord(ch):04X}">{safe}</span>' if odd else safe


# ── Blocks of HTML; every value in them is escaped here or made by `said` ─────────────────────────────


def heading(what: str, to: Iterable[str], lead: str) -> None:
    """What it is and to whom, and one sentence of what happened."""
    first, *others = list(to) or ["nobody"]
    more = html.escape(f" and {many(len(others), 'other')}") if others else ""
    st.html(
        f"<h1 class='nt-h1'>{html.escape(what)} to {said(first)}{more}</h1><p class='nt-lead'>{html.escape(lead)}</p>"
    )


def headline(what: str, source: str, rest: str, lead: str) -> None:
    """What it is, from where, and what became of it. The first two come from outside."""
    st.html(
        f"<h1 class='nt-h1'>{said(what)} from {said(source)}{html.escape(rest)}</h1>"
        f"<p class='nt-lead'>{html.escape(lead)}</p>"
    )


def timeline(steps: Iterable[tuple[str, State, str, str, str]]) -> None:
    """When, in which state's colour, its mark, what happened and who did it. The last two may come from outside."""
    items = "".join(
        f"<li class='nt-{tone}'><time>{html.escape(when)}</time><b aria-hidden='true'>{html.escape(mark)}</b>"
        f"<div>{said(what)} <span class='nt-soft'>{said(who)}</span></div></li>"
        for when, tone, mark, what, who in steps
    )
    st.html(f"<ol class='nt-line'>{items}</ol>")


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """A row of facts. The values may come from outside."""
    cells = "".join(f"<div><dt>{html.escape(name)}</dt><dd>{said(value)}</dd></div>" for name, value in pairs)
    st.html(f"<dl class='nt-facts'>{cells}</dl>")


def facts_down(pairs: Iterable[tuple[str, str]]) -> None:
    """Facts one below the other. The values may come from outside."""
    rows = "".join(f"<dt>{html.escape(name)}</dt><dd>{said(value)}</dd>" for name, value in pairs)
    st.html(f"<dl class='nt-mail nt-down'>{rows}</dl>")


def chip_line(word: str, tone: State, whom: str, about: str) -> None:
    """A state as a chip, to whom, and about what. The last two come from outside."""
    st.html(
        f"<div><span class='nt-chip nt-{tone}'>{html.escape(word)}</span> {said(whom)}"
        f" <span class='nt-soft'>{said(about)}</span></div>"
    )


def mail_head(pairs: Iterable[tuple[str, str]]) -> None:
    """Who it is from, who it is to, what about. The values come from outside."""
    rows = "".join(f"<dt>{html.escape(name)}</dt><dd>{said(value)}</dd>" for name, value in pairs if value)
    st.html(f"<dl class='nt-mail'>{rows}</dl>")


def told(ours: str, theirs: str) -> None:
    """Our own words, and behind them some that may hold words from outside."""
    st.html(f"<p class='nt-told'>{html.escape(ours)} {said(theirs)}</p>")


def evidence(rows: Iterable[tuple[str, str, str, str]]) -> None:
    """What we looked at, what we found, which way it points, and when. The first two may come from outside."""
    body = "".join(
        f"<tr><td>{said(asked)}</td><td>{said(found)}</td>"
        f"<td><span class='nt-chip nt-{POINTS[points][1]}'>{POINTS[points][0]}</span></td>"
        f"<td class='nt-soft'>{html.escape(when)}</td></tr>"
        for asked, found, points, when in rows
    )
    head = "<tr><th>We looked at</th><th>We found</th><th>Points to</th><th>UTC</th></tr>"
    st.html(f"<table class='nt-ev'>{head}{body}</table>")


def verdict_block(word: str, reasons: Iterable[str], until: str, *, waits: bool = True) -> None:
    """What is known, and why. It never says which button to press. What `waits` for nobody calls nobody."""
    tone = "waiting" if TONES[word] == "person" and not waits else TONES[word]
    title = {
        VerdictWord.WAS_SENT: "It went out.",
        VerdictWord.WAS_NOT_SENT: "It did not go out.",
        VerdictWord.SAFE_TO_TRY_AGAIN: f"Safe to try again until {until} UTC.",
        VerdictWord.NOBODY_KNOWS: "Nobody knows whether it went out.",
    }[VerdictWord(word)]
    items = "".join(f"<li>{said(reason)}</li>" for reason in reasons)
    st.html(f"<section class='nt-verdict nt-{tone}'><h2>{html.escape(title)}</h2><ul>{items}</ul></section>")


def reason(label: str, *, key: str) -> str:
    """A person's own words. The field has no limit of its own: it would drop a longer paste without a sign. What is longer
    than the audit keeps, the press is answered with (`session.too_long`).
    """
    return st.text_input(label, key=key)


# ── Notices ───────────────────────────────────────────────────────────────────────────────────────────


def outcome(result: session.Result, thing: Thing = "send") -> None:
    """What became of an act, in the tone it deserves: to be second is no error."""
    match result:
        case session.Lost():
            st.info(_lost(result), icon=":material/person_check:")
        case session.Twice():
            st.info(
                f"Already done: {_did(result.what)} at {clock_s(result.at)} UTC.", icon=":material/done_all:"
            )
        case session.Changed():
            st.info(
                f"**This {thing} changed while you had it open.** Nothing was done. Below is how it is now.",
                icon=":material/update:",
            )
        case session.Refused():
            st.warning(f"**Not done.** {harmless(result.message)}", icon=":material/block:")
        case session.TryAgain():
            st.warning(result.sentence, icon=":material/sync_problem:")
        case session.Done():
            pass


def in_short(result: session.Result) -> str:
    """Why one of several was not carried out, in one sentence of ours."""
    match result:
        case session.Lost():
            return f"{_first(result)}, at {clock_s(result.at)} UTC."
        case session.Twice():
            return f"Already done: {_did(result.what)} at {clock_s(result.at)} UTC."
        case session.Changed():
            return "It changed while you had it open."
        case session.Refused():
            return harmless(result.message)
        case session.TryAgain():
            return result.sentence
    return "Done."


def _lost(result: session.Lost) -> str:
    after_s = (result.tried_at - result.at).total_seconds()
    before = (
        f", {span(after_s) if after_s >= 10 else many(round(after_s), 'second')} before you"
        if after_s > 0.5
        else ""
    )
    who, nothing = ("You", "Nothing more") if _is_own(result) else (named(result.who), "Nothing of yours")
    return (
        f"**Not done. {_first(result)}.** {who} {DID.get(result.what, 'decided this')} "
        f"at {clock_s(result.at)} UTC{before}. {nothing} was carried out. The audit has both."
    )


def _first(result: session.Lost) -> str:
    """Of one person with two windows, too: to read one's own name as somebody else's would be a riddle."""
    return "It was done before in your name" if _is_own(result) else f"{named(result.who)} was first"


def _is_own(result: session.Lost) -> bool:
    return result.who == session.me().name


def _did(what: str) -> str:
    return f"you {DID.get(what, 'decided this')}"


DID = {
    "closed as sent": "closed this as sent",
    "closed without sending": "closed this without sending",
    "send again with the same key": "had it sent again with the same key",
    "approved": "approved this",
    "declined": "declined this",
    "taken back": "took this back",
    "opened again": "opened this again",
    "asked a second person: send again with a new key": "asked a second person about this",
    "agreed": "agreed to this",
    "agreed: send again with a new key": "agreed to a new key",
    "disagreed": "did not agree to this",
    "withdrawn": "withdrew the request",
    "look again": "asked for a look at the provider",
    "marked as seen": "marked this as seen",
    "linked to another event": "linked this to another event",
    "link taken back": "took the link back",
    "examine again": "had this examined again",
    "resume": "resumed this account",
    "resumed": "resumed this account",
    "release sending": "released this ledger",
    "cancelled: recompute local results": "stopped this",
    "cancelled: repeat external actions": "stopped this",
    "cancelled: preview a recompute with its handlers": "stopped this",
    "agreed: recompute local results": "agreed to this",
    "agreed: repeat external actions": "agreed to this",
    "agreed: preview a recompute with its handlers": "agreed to this",
    "did not agree: recompute local results": "did not agree to this",
    "did not agree: repeat external actions": "did not agree to this",
    "did not agree: preview a recompute with its handlers": "did not agree to this",
    "recompute local results": "asked for this",
    "preview a recompute with its handlers": "asked for this",
    "asked a second person: repeat external actions": "asked a second person about this",
    "asked a second person: recompute local results": "asked a second person about this",
    "asked a second person: preview a recompute with its handlers": "asked a second person about this",
    "try again": "had this tried again",
    "set aside": "set this aside",
    "hand back": "handed this back",
    "closed as sent, together": "closed these as sent",
    "closed without sending, together": "closed these as not sent",
    "send again with the same key, together": "had these sent again with the same key",
    "asked a second person: closed as sent, together": "asked a second person about these",
    "asked a second person: closed without sending, together": "asked a second person about these",
    "asked a second person: send again with the same key, together": "asked a second person about these",
    "taken back, together": "took these back",
}


def too_slow() -> None:
    """One block of a page took longer than people wait; the others stay."""
    st.info(
        "**This took longer than 2 s and was stopped.** Choose a shorter time, or a source and a type.",
        icon=":material/timer_off:",
    )


def age_caption(age_s: float, live: str) -> None:
    """How old the figures are, and in which zone the times are. One age is true for all of a page's figures."""
    st.caption(f"{live} {age_s:.0f} s ago · {zone()}", width="content")


def zone() -> str:
    """In which zone a page's times are, the same for everybody, and how far the viewer's own clock is from it."""
    apart = ahead()
    return f"times in UTC, yours is {apart}" if apart else "times in UTC"


def ahead() -> str:
    """`1:00 h ahead`, or behind: the viewer's clock, as seen from UTC; empty where they are the same."""
    minutes = -(st.context.timezone_offset or 0)  # the browser counts from here to UTC
    if not minutes:
        return ""
    return f"{abs(minutes) // 60}:{abs(minutes) % 60:02} h {'ahead' if minutes > 0 else 'behind'}"


def database_gone(since: datetime, age_s: float | None, every_s: float) -> None:
    """A notice, not an alarm: the page keeps what it has, and tries again by itself."""
    kept = f" The figures are {span(age_s)} old and buttons are off." if age_s is not None else ""
    st.info(
        f"**The database cannot be reached since {clock_s(since)} UTC.**{kept} Trying again every {every_s:g} s.",
        icon=":material/cloud_off:",
    )


def clock_or_dash(at: datetime | None, now: datetime) -> str:
    return clock(at, now) if at else "–"
