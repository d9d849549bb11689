"""Above the queue: sends that share one cause, and lists about which a second person is asked."""

from __future__ import annotations

from datetime import datetime
from typing import NoReturn

import streamlit as st

from dashboard import session
from dashboard.screens.review_fitting import alone_words, can_be_decided
from dashboard.words import clock, many, named, provider
from ledger.records import Decision
from ledger.views import together as views_together
from ledger.views.together import Cause, DecidedList


def draw(segment: str) -> None:
    if segment not in ("uncertain", "second_person"):
        return
    for asked in session.read(views_together.waiting_lists):
        _line(_asks(asked), "Look at these", f"list_{asked.id}", {"list": str(asked.id)})
    if segment == "uncertain":
        for cause in session.read(views_together.causes):
            _cause(cause)


def _cause(cause: Cause) -> None:
    words = f"**{many(cause.n, 'send shares', 'sends share')} one cause:** {cause_words(cause)}."
    may, why_not = session.may_decide(), ""
    if may:
        why_not = _why_not(cause)
    label = "Decide these together" if may and not why_not else "Look at these"
    _line(f"{words} {why_not}", label, f"cause_{cause.id}", {"cause": str(cause.id)})


def _why_not(cause: Cause) -> str:
    """Why nothing can be decided about them in common; empty where something can."""
    group = session.read(lambda tx: views_together.group(tx, cause.id))
    wait_s = session.house().settings.worker.decided_wait_s
    if group is None or can_be_decided(group, wait_s):
        return ""
    return f"None of them can be decided with the others. {alone_words(group)}"


def cause_words(cause: Cause, now: datetime | None = None) -> str:
    """What they share, in our words: for the page and for the record."""
    return f"{provider(cause.provider)} gave no clear answer {_between(cause.first_at, cause.last_at, now)}"


def _between(first: datetime, last: datetime, now: datetime | None) -> str:
    begin, end = clock(first, now), clock(last)
    return f"at {begin} UTC" if clock(first) == end else f"between {begin} and {end} UTC"


def asked_words(asked: DecidedList) -> str:
    """What a second person is asked to agree to."""
    n = many(asked.row_count, "send")
    match Decision(asked.decision):
        case Decision.WAS_SENT:
            return f"close {n} as sent"
        case Decision.RESEND_SAME_KEY:
            return f"send {n} again with the same key"
        case _:
            return f"close {n} as not sent"


def _asks(asked: DecidedList) -> str:
    ends = clock(asked.expires_at, asked.now) if asked.expires_at else ""
    who = "You ask" if asked.requested_by == session.me().id else f"{named(asked.name)} asks"
    return f"**{who} a second person to agree:** {asked_words(asked)}. Until {ends} UTC."


def _line(words: str, label: str, key: str, address: dict[str, str]) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(words, width="stretch")
        if st.button(label, icon=":material/arrow_forward:", icon_position="right", key=key):
            go(address)


def go(address: dict[str, str]) -> NoReturn:
    """To another view of this page."""
    st.query_params.clear()
    for name, value in address.items():
        st.query_params[name] = value
    st.rerun()
