"""The runs that people asked for, the newest first, with the progress of those that are under way."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from dashboard import paging, session
from dashboard.colours import PILLS
from dashboard.components import age_caption, database_gone, mode, too_slow
from dashboard.lists import listed
from dashboard.screens import reprocess_words as words
from dashboard.words import clock, many, named
from ledger.errors import TooSlow
from ledger.payload import shown
from ledger.records.reprocess import RunMode
from ledger.reprocess.requests import ASKERS, EVENT_ASKERS
from ledger.views import reprocess as views_reprocess
from ledger.views.reprocess import Run

ROWS = paging.ROWS
PLANNERS = EVENT_ASKERS | ASKERS[RunMode.REPEAT]  # whoever may ask for some kind of run


def draw() -> None:
    before = paging.place("rerun")
    running, waiting = session.read_soon(views_reprocess.open_runs)
    runs = session.read_soon(lambda tx: views_reprocess.newest(tx, ROWS + 1, before=before))
    st.title(standing(running, waiting, bool(runs)), anchor=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        if session.chosen().role in PLANNERS:
            st.button("Run something again", type="primary", icon=":material/replay:", on_click=start)
        if runs:
            st.button(
                "Open the newest", icon=":material/arrow_forward:", on_click=open_run, args=(runs[0].id,)
            )
    if not runs:
        _empty()
        return
    st.fragment(_live, run_every=session.refresh_s() if running + waiting else None)(before)
    paging.foot("rerun", runs[ROWS - 1].id if len(runs) > ROWS else None)


def standing(running: int, waiting: int, any_run: bool) -> str:
    """The page's answer, as a sentence."""
    if not any_run:
        return "Nothing has been run again."
    parts = [f"{many(running, 'run is', 'runs are')} under way"] if running else []
    parts += [f"{many(waiting, 'run waits', 'runs wait')} for a second person"] if waiting else []
    return f"{', '.join(parts)}." if parts else "Nothing is running again, and nothing waits to."


def start() -> None:
    """A new plan, and nothing of the one before."""
    st.query_params.clear()
    st.query_params["plan"] = "new"
    for name in ("rerun_look", "rerun_picked", "rerun_result"):
        st.session_state.pop(name, None)


def open_run(run_id: int) -> None:
    st.query_params.clear()
    st.query_params["run"] = str(run_id)


def back() -> None:
    """A way to the list from wherever one is."""
    st.button("All runs", icon=":material/arrow_back:", type="tertiary", on_click=st.query_params.clear)


# ── The table ─────────────────────────────────────────────────────────────────────────────────────────


def _live(before: int | None) -> None:
    """Read anew while something is open; a row that was chosen opens its run."""
    if "run" in st.query_params:
        st.rerun()
    glance = session.figures()
    if glance.gone_since is not None:
        database_gone(glance.gone_since, glance.age_s, session.refresh_s())
    else:
        try:
            st.session_state["rerun_list"] = session.read_soon(
                lambda tx: views_reprocess.newest(tx, ROWS, before=before)
            )
        except TooSlow:
            too_slow()
    runs: list[Run] = st.session_state.get("rerun_list", [])  # while nothing can be read: as it was
    listed("run", frame(runs), [run.id for run in runs], _columns())
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("The newest comes first. Tick a row's box to open it.")
        age_caption(0.0 if glance.gone_since is None else glance.age_s, "Read")


def frame(runs: Sequence[Run]) -> pd.DataFrame:
    """The most telling columns first: at 900 px the rest scrolls."""
    return pd.DataFrame(
        {
            "Started (UTC)": [clock(run.asked_at, run.now) for run in runs],
            "By": [named(run.asked_by) for run in runs],
            "What": [shown(f"{words.MODES[run.mode]}: {run.selection}") for run in runs],
            "State": [[words.state(run)] for run in runs],
            "Rows": [f"{run.rows:,}" for run in runs],
            "Done": [f"{run.done:,}" for run in runs],
            "Left alone": [f"{run.skipped:,}" for run in runs],
            "Failed": [f"{run.failed:,}" for run in runs],
        }
    )


def _columns() -> dict[str, ColumnConfig]:
    text, pills = st.column_config.TextColumn, PILLS[mode()]
    state = st.column_config.MultiselectColumn(
        options=list(words.STATES), color=[pills[state] for state in words.STATES.values()], width=168
    )
    return {
        "Started (UTC)": text(width=100),
        "By": text(width=96),
        "What": text(width=288),
        "State": state,
        "Rows": text(width=60, alignment="right"),
        "Done": text(width=60, alignment="right"),
        "Left alone": text(width=80, alignment="right"),
        "Failed": text(width=60, alignment="right"),
    }


def _empty() -> None:
    with st.container(border=True):
        st.markdown("**Here something that was done is done once more, on purpose and on record.**")
        st.markdown(
            "- **Work it out again.** A rule or a table was wrong: the handlers of the events you choose run again, and our own "
            "results are replaced. Nothing leaves the house.\n"
            "- **Send again.** A customer never got it: the sends you pick go out once more, with new keys, when two people agree."
        )
        st.caption(
            "Deleting a row is no way to run it again: the next delivery of it would be a new event, and its e-mails would go out a "
            "second time with nobody having wanted it."
        )
