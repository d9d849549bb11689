"""One run: what was asked for, by whom, how far it is, and what became of each row."""

from __future__ import annotations

import streamlit as st

from dashboard import components, session
from dashboard.components import database_gone, too_slow
from dashboard.screens import reprocess_acts, reprocess_results, reprocess_runs, reprocess_second
from dashboard.screens import reprocess_words as words
from dashboard.words import many
from ledger.errors import TooSlow
from ledger.records.reprocess import RunState
from ledger.reprocess.requests import ASKERS, EVENT_ASKERS
from ledger.views import reprocess as views_reprocess
from ledger.views.reprocess import Run


def draw(run: Run) -> None:
    reprocess_runs.back()
    st.fragment(_live, run_every=session.refresh_s() if _moves(run) else None)(run)


def _live(drawn: Run) -> None:
    """Anew every two seconds while it moves; when it has ended or somebody stopped it, the whole page once more."""
    glance = session.figures()
    if glance.gone_since is not None:
        database_gone(glance.gone_since, glance.age_s, session.refresh_s())
        _as_last_read(st.session_state.get("rerun_last") or drawn)
        return
    try:
        run = session.read_soon(lambda tx: views_reprocess.run(tx, drawn.id)) or drawn
        st.session_state["rerun_last"] = run
        if run.state is not drawn.state or (_moves(drawn) and not _moves(run)):
            st.rerun()
        _page(run)
    except TooSlow:
        too_slow()


def _as_last_read(run: Run) -> None:
    """While the database is away: how far it was, and nothing to press."""
    st.title(f"As last counted: {words.stands(run)}", anchor=False)
    if words.has_begun(run):
        st.progress(_part(run), text=words.results(run))


def _part(run: Run) -> float:
    return run.over / max(run.over + run.waiting + run.working, 1)


def _page(run: Run) -> None:
    st.title(words.stands(run), anchor=False)
    st.caption(f"**{words.MODES[run.mode]}.** {words.whose(run)} Times in UTC.")
    _told(run)
    why = [] if words.is_asked(run) else [("Why", run.why)]  # a second person looks for themselves first
    components.facts([("What was chosen", run.selection), *why])
    if words.is_asked(run):
        reprocess_second.panel(run)
    if words.has_begun(run):
        st.progress(_part(run), text=words.results(run))
        _stop(run)
    reprocess_results.draw(run)


def _moves(run: Run) -> bool:
    """Whether more becomes of it by itself: rows under way end after a stop as well."""
    return run.state is RunState.RUNNING or run.working > 0


def _told(run: Run) -> None:
    """What became of the press that led here."""
    run_id, result, left_out = st.session_state.get("rerun_told", (0, None, 0))
    if run_id != run.id or result is None:
        return
    components.outcome(result, "run")
    if isinstance(result, session.Done) and left_out:
        st.info(
            f"**{many(left_out, 'row')} changed while you had the list open** and {'was' if left_out == 1 else 'were'} left out.",
            icon=":material/update:",
        )


def _stop(run: Run) -> None:
    may = session.chosen().role in ASKERS.get(run.mode, EVENT_ASKERS)
    if not may or run.state is not RunState.RUNNING:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        label = "Stop after the current one"
        st.button(
            label, icon=":material/stop_circle:", key=f"stop_{run.id}", on_click=reprocess_acts.cancel, args=(run,)
        )  # fmt: skip
        st.caption(words.stop(run), width="content")
