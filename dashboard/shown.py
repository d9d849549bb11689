"""What was revealed is hidden again when its page is left: the next look is another one, with an entry of its own."""

from __future__ import annotations

import streamlit as st

OPENED = ("send", "event", "conflict", "quarantined")  # the address's words for what can be read
REVEALED = ("text_", "body_", "whole_")


def only_here(page: str) -> None:
    """Before a page is drawn."""
    here = (page, *(st.query_params.get(name) for name in OPENED))
    if st.session_state.get("shown_at", here) != here:
        for key in [key for key in st.session_state if str(key).startswith(REVEALED)]:
            del st.session_state[key]
    st.session_state["shown_at"] = here
