"""Pages of the queue and of what was decided, by the place where the one before ended."""

from __future__ import annotations

from typing import Any

import streamlit as st

ROWS = 25


def place() -> Any:
    """Behind which the page begins that this session is at; None: at the first."""
    return (st.session_state.get("places") or [None])[-1]


def start() -> None:
    st.session_state.pop("places", None)


def foot(onwards: Any) -> None:
    """Back and on; `onwards` is where this page ends, None when nothing follows."""
    places: list[Any] = st.session_state.get("places") or []
    if not places and onwards is None:
        return
    with st.container(horizontal=True):
        if places and st.button(f"Previous {ROWS}", icon=":material/chevron_left:"):
            st.session_state["places"] = places[:-1]
            st.rerun()
        if onwards is not None and st.button(
            f"Next {ROWS}", icon=":material/chevron_right:", icon_position="right"
        ):
            st.session_state["places"] = [*places, onwards]
            st.rerun()
