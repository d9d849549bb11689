"""The rows of one segment, what has waited longest first; several can be picked, and each opens."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from dashboard import session
from dashboard.screens import stuck_fits, stuck_read, stuck_words
from dashboard.screens.stuck_read import Kept
from dashboard.screens.stuck_words import Pace
from ledger.views.stuck_found import Segment
from ledger.views.stuck_rows import Row, StuckEvent

EMPTY = {
    "past": "A worker that gives no sign until its lease ends has lost its work: it shows here until a sweep takes it back.",
    "aside": "What fails as often as it may, and what a person sets aside, shows here until a person says what becomes of it.",
    "unhandled": "An event shows here when no worker has a handler for its source and type. It stands in nobody's way.",
    "waiting": "What is due and not taken, is tried again and again, or waits behind another event for too long, shows here.",
}
ORDER = {
    "past": "The lease that ended first comes first.",
    "aside": "What was set aside first comes first. Sends that ran out of time are listed for 7 days.",
    "unhandled": "The longest wait comes first.",
    "waiting": "The longest wait comes first.",
}
# In px, of what it is, why nobody has taken it, and what happens next.
USUAL = (160, 240, 237)
WIDTHS: dict[Segment, tuple[int, int, int]] = {"past": (190, 232, 215), "aside": (150, 340, 240)}


def draw(now: Kept, pace: Pace) -> None:
    if not now.page.rows:
        _empty(now)
        return
    key = f"stuck_rows_{now.number}"
    st.caption(f"{ORDER[now.asked[0]]} {stuck_fits.may_do(session.chosen().role)}")
    st.dataframe(
        frame(now, pace),
        hide_index=True,
        on_select=lambda: _pick(key),
        selection_mode="multi-row",
        selection_default={"selection": {"rows": list(stuck_read.chosen())}},
        key=key,
        row_height=38,
        height="content",
        column_config=_columns(now.asked[0]),
    )


def _pick(key: str) -> None:
    """Before the run that draws them, so that it keeps the page they were picked on. What was told before is over."""
    st.session_state.pop("stuck_told", None)
    st.session_state["stuck_chosen"] = tuple(st.session_state[key].selection.rows)


def frame(now: Kept, pace: Pace) -> pd.DataFrame:
    """The most telling columns first: at 900 px the rest scrolls. Only what is in hand has a worker."""
    rows, around = now.page.rows, now.page.around
    workers = {"Worker": [stuck_words.worker(row) for row in rows]} if now.asked[0] == "past" else {}
    return pd.DataFrame(
        {
            "What": [stuck_words.thing(row) for row in rows],
            "Age": [stuck_words.age(row) for row in rows],
            "Why nobody has taken it": [stuck_words.why(row, around) for row in rows],
            "What happens next": [stuck_words.happens_next(row, around, pace) for row in rows],
            "Tries": [stuck_words.tries(row) for row in rows],
            **workers,
            "Source": [stuck_words.source(row) for row in rows],
        }
    )


def _columns(segment: Segment) -> dict[str, ColumnConfig]:
    """As wide as what stands in them, and at 900 px with the end of what happens next: keys are as long as providers
    make them, and an error needs more room than the end of a lease."""
    text, (what, why, then) = st.column_config.TextColumn, WIDTHS.get(segment, USUAL)
    return {
        "What": text(width=what),
        "Age": text(width=78, alignment="right"),
        "Why nobody has taken it": text(width=why),
        "What happens next": text(width=then),
        "Tries": text(width=52, alignment="right"),
        "Worker": text(width=66),
        "Source": text(width=68),
    }


def offer_oldest(now: Kept) -> None:
    """For those who do not reach a row by hand: an event opens here, a send in Review."""
    if now.page.rows and st.button("Open the oldest", icon=":material/arrow_forward:", icon_position="right"):
        open_row(now.page.rows[0])


def open_row(row: Row) -> None:
    if isinstance(row, StuckEvent):
        st.query_params["event"] = str(row.id)
        st.rerun()
    st.switch_page(st.session_state["pages"]["review"], query_params={"send": str(row.id)})


def _empty(now: Kept) -> None:
    name, wanted, place = now.asked
    with st.container(border=True):
        if place is not None:
            st.markdown("**Nothing more is stuck here.** What was on this page has moved on.")
        elif wanted.source or wanted.type:
            st.markdown("**Nothing that is stuck fits this source and type.**")
        else:
            st.markdown(f"**{EMPTY[name]}**")
            st.caption(
                "Work that outlives its lease goes back by itself; what fails waits 2, 4, 8 s … between its tries."
            )
