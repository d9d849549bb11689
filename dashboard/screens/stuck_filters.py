"""Which source and which type; both stand in the address, which is the truth about them."""

from __future__ import annotations

import streamlit as st

from dashboard import session
from dashboard.screens import stuck_read
from dashboard.screens.events_filters import sources
from dashboard.words import named
from ledger.views.stuck_found import Filter


def draw(wanted: Filter) -> None:
    """The widgets, set to what the address says."""
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        st.session_state["stuck_source"] = wanted.source
        st.selectbox(
            "Source",
            options=[
                "",
                *sources(wanted.source, also=session.house().settings.providers),
            ],  # of sends: by whom they go
            format_func=lambda name: named(name) if name else "All",
            key="stuck_source",
            on_change=_chosen,
            args=("source",),
            width=165,
        )
        st.session_state["stuck_type"] = wanted.type
        st.text_input(
            "Type",
            key="stuck_type",
            max_chars=stuck_read.TEXT_MAX,
            placeholder="all",
            on_change=_chosen,
            args=("type",),
            width=200,
        )
        if (wanted.source or wanted.type) and st.button("Show all", icon=":material/filter_alt_off:"):
            for name in ("source", "type"):
                st.query_params.pop(name, None)
            stuck_read.from_the_start()
            st.rerun()


def _chosen(name: str) -> None:
    """Into the address, from where the next run reads it."""
    text = str(st.session_state[f"stuck_{name}"] or "").strip()
    st.query_params.pop(name, None)
    if text:
        st.query_params[name] = text
    stuck_read.from_the_start()
