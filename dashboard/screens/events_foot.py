"""What the three lists of events share: their foot, and how old what is drawn is."""

from __future__ import annotations

import time
from typing import Any

import streamlit as st

from dashboard import paging, session
from dashboard.components import age_caption, database_gone


def foot(name: str, first: int, following: Any) -> None:
    """`first` is the id of the first row; `following` where the next page begins, None when there is none."""
    with st.container(horizontal=True):
        paging.buttons("events", following)
        if st.button("Open the first", icon=":material/arrow_forward:", icon_position="right"):
            st.query_params[name] = str(first)
            st.rerun()


def age() -> None:
    """How long ago the page was read. A list does not move under one's hands: reading again is a button."""
    if st.button("Read again", icon=":material/refresh:", type="tertiary", key="events_again"):
        st.rerun()
    st.fragment(_ticking, run_every=session.refresh_s())(time.monotonic())


def _ticking(read_at: float) -> None:
    glance, age_s = session.figures(), time.monotonic() - read_at
    if glance.gone_since is not None:
        database_gone(glance.gone_since, age_s, session.refresh_s())
        return
    with st.container(horizontal=True, horizontal_alignment="right"):
        age_caption(age_s, "Read")
