"""The list of events, with the filters that have an index, and beside it what became no event."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from dashboard import endpoints, paging, session
from dashboard.colours import PILLS, State
from dashboard.components import mode, too_slow
from dashboard.lists import listed
from dashboard.screens import events_filters, events_foot, events_kept
from dashboard.screens.events_words import UNHANDLED, counted, moment, state_word
from ledger.errors import TooSlow
from ledger.payload import shown
from ledger.views import events as views_events
from ledger.views import kept as views_kept
from ledger.views.events import EventRow, Page
from ledger.views.found import Filter

ROWS = paging.ROWS
SEGMENTS = ("events", "conflicts", "quarantine")
NAMES = {"events": "Events", "conflicts": "Conflicts", "quarantine": "Quarantine"}
PILL_STATES: dict[str, State] = {
    "Waiting": "waiting",
    "In hand": "working",
    "Done": "done",
    "Ignored": "waiting",
    UNHANDLED: "person",
    "Nobody handled it": "person",
    "Set aside": "broken",
}


def draw() -> None:
    sizes = session.read_soon(views_kept.sizes)
    asked = st.query_params.get("show", "events")
    segment = asked if asked in SEGMENTS else "events"
    title = st.empty()
    endpoints.notices(session.figures().figures)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.session_state["events_segment"] = segment
        st.segmented_control(
            "Show",
            SEGMENTS,
            required=True,
            format_func=lambda name: _segment(name, sizes),
            label_visibility="collapsed",
            key="events_segment",
            on_change=_show_segment,
        )
        events_foot.age()
    if segment == "conflicts":
        title.title(events_kept.conflicts_answer(sizes), anchor=False)
        events_kept.conflicts()
    elif segment == "quarantine":
        title.title(events_kept.quarantine_answer(sizes), anchor=False)
        events_kept.quarantine()
    else:
        _events(title)


def back(name: str) -> None:
    """From one event, conflict or element to the list it came from, with its filters."""
    st.query_params.pop(name, None)
    st.rerun()


def _segment(name: str, sizes: views_kept.Sizes) -> str:
    if name == "events":
        return NAMES[name]
    return f"{NAMES[name]} · {counted(sizes.conflicts if name == 'conflicts' else sizes.quarantine)}"


def _show_segment() -> None:
    segment = st.session_state["events_segment"]
    st.query_params.pop("show", None)
    if segment != "events":
        st.query_params["show"] = segment
    paging.start("events")


# ── The list ──────────────────────────────────────────────────────────────────────────────────────────


def _events(title: st.delta_generator.DeltaGenerator) -> None:
    # The table is asked for before the filters above it: a new browser has most to fetch for it.
    above, wanted = st.container(), events_filters.asked()
    _table(title, wanted)
    with above:
        events_filters.draw(wanted)


def _table(title: st.delta_generator.DeltaGenerator, wanted: Filter) -> None:
    place = paging.place("events")
    try:
        page, n = session.read_soon(
            lambda tx: (
                views_events.events(tx, wanted, after=place, most=ROWS),
                views_events.count(tx, wanted),
            )
        )
    except TooSlow:
        title.title("This was too much to look through.", anchor=False)
        too_slow()
        return
    title.title(answer(n, wanted), anchor=False)
    if page.rows:
        listed("event", frame(page.rows), [row.id for row in page.rows], _columns())
        st.caption(_order(page, wanted))
        events_foot.foot("event", page.rows[0].id, page.rows[-1].place if page.more else None)
    else:
        _empty(wanted)


def answer(n: int, wanted: Filter) -> str:
    """The page's answer, as a sentence."""
    if not n:
        return "Nothing has arrived yet." if wanted == Filter() else "No event fits."
    if wanted == Filter():
        return f"{counted(n)} {'event has' if n == 1 else 'events have'} arrived."
    return f"{counted(n)} {'event fits' if n == 1 else 'events fit'}."


def _order(page: Page, wanted: Filter) -> str:
    words = "In the order of their keys." if wanted.text else "The newest comes first."
    if page.cut:
        words += f" Only the first {views_events.COUNTED_MAX:,} keys that begin so were looked at: give more of the key."
    return f"{words} Tick a row's box to open it."


def frame(rows: tuple[EventRow, ...]) -> pd.DataFrame:
    """The most telling columns first: at 900 px the rest scrolls."""
    return pd.DataFrame(
        {
            "Received (UTC)": [moment(row.accepted_at) for row in rows],
            "Source": [shown(row.source) for row in rows],
            "Type": [shown(row.type) for row in rows],
            "Key": [shown(row.event_key) for row in rows],
            "State": [[state_word(row.state, row.ending, handled=row.handled)] for row in rows],
            "Tries": [f"{row.attempts} of {row.attempts_max}" if row.attempts else "–" for row in rows],
            "Deliveries": [f"{row.deliveries:,}" for row in rows],
            "Sends": [f"{row.sends:,}" if row.sends else "–" for row in rows],
        }
    )


def _columns() -> dict[str, ColumnConfig]:
    text, pills = st.column_config.TextColumn, PILLS[mode()]
    state = st.column_config.MultiselectColumn(
        options=list(PILL_STATES), color=[pills[state] for state in PILL_STATES.values()], width=132
    )
    return {
        "Received (UTC)": text(width=118),
        "Source": text(width=80),
        "Type": text(width=138),
        "Key": text(width=246),
        "State": state,
        "Tries": text(width=72, alignment="right"),
        "Deliveries": text(width=84, alignment="right"),
        "Sends": text(width=64, alignment="right"),
    }


def _empty(wanted: Filter) -> None:
    with st.container(border=True):
        if wanted == Filter():
            st.markdown("**What providers post to the receiver is listed here, each event once.**")
            st.caption("Overview shows the address to post to, and a command that posts a few.")
            return
        st.markdown("**Nothing that was received fits all of this.**")
        st.caption("A key is looked for from its beginning, as the provider writes it, or by our own number.")
        if st.button("Show all events", icon=":material/filter_alt_off:"):
            events_filters.clear()
