"""A plan in three parts: which events, what to repeat, and what will happen. Nothing begins before the last button."""

from __future__ import annotations

import streamlit as st

from dashboard import components, session
from dashboard.screens import reprocess_choice, reprocess_look, reprocess_picks, reprocess_runs
from dashboard.screens import reprocess_words as words
from ledger.records import Role
from ledger.records.reprocess import RunMode
from ledger.reprocess.requests import ASKERS, EVENT_ASKERS

READS_ONLY = "You can read the runs. Support asks to send again; engineer and admin may do both."


def draw() -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        reprocess_runs.back()
    st.title("Run something again", anchor=False)
    role = session.chosen().role
    if role not in reprocess_runs.PLANNERS:
        st.caption(READS_ONLY)
        return
    st.caption("Nothing begins before you press the button in part 3, which names what it does.")
    result = st.session_state.pop("rerun_result", None)
    if result is not None:
        components.outcome(result, "list")
    choice, ids = reprocess_choice.draw()
    if ids is None:
        return
    mode = _mode(role, ids)
    if mode is RunMode.RECOMPUTE:
        reprocess_look.draw(choice.wanted(), ids)
    elif mode is RunMode.REPEAT:
        wanted = reprocess_picks.wanted()
        if wanted is not None:
            reprocess_look.draw(wanted, ids)


def _mode(role: Role, ids: list[int]) -> RunMode | None:
    """What to repeat: nothing is preselected."""
    may = [mode for mode in words.CAPTIONS if role in ASKERS.get(mode, EVENT_ASKERS)]
    with st.container(border=True):
        st.subheader("2 · What to repeat", anchor=False)
        chosen = st.radio(
            "What to repeat",
            may,
            index=None,
            format_func=lambda mode: f"**{TITLES[mode]}**",
            captions=[words.CAPTIONS[mode] for mode in may],
            key="rerun_mode",
            label_visibility="collapsed",
            width="stretch",
        )
        if RunMode.RECOMPUTE not in may:
            st.caption(":material/block: **Work it out again** is for engineers and admins.")
        if chosen is RunMode.REPEAT:
            reprocess_picks.draw(ids)
    return chosen if chosen is None else RunMode(chosen)


TITLES = {
    RunMode.RECOMPUTE: "Work it out again. Nothing leaves the house.",
    RunMode.REPEAT: "Send again. People get mail.",
}
