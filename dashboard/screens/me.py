"""The person's page: who acts here, in which role."""

from __future__ import annotations

import streamlit as st

from dashboard.session import person, settings

WORDS = {
    "viewer": "You see lists and figures, with recipients masked.",
    "support": "You decide uncertain sends and approve proposed ones.",
    "engineer": "You watch stuck work and try it again. Support or admin decides sends.",
    "auditor": "You read who did what and why.",
    "admin": "You decide, approve, agree as second person and try stuck work again.",
}


def page() -> None:
    who = person()
    st.title("Who acts here", anchor=False)
    st.caption(
        "This console listens on this machine alone and nobody signs in. Whoever sits here acts as one of the people "
        "named in the configuration; the audit keeps that name."
    )
    known = settings().console.people
    chosen = st.radio(
        "Act as",
        range(len(known)),
        index=st.session_state.get("person", 0) % len(known),
        format_func=lambda i: f"{i + 1}. {known[i].role.value}",
        captions=[WORDS[one.role.value] for one in known],
    )
    st.text(", ".join(f"{i + 1}. {one.name} ({one.email})" for i, one in enumerate(known)))
    if chosen != st.session_state.get("person", 0):
        st.session_state["person"] = chosen
        st.rerun()
    st.text(f"Now: {who.name}, {who.email}, {who.role.value}")
    st.caption("Times are shown in UTC.")
