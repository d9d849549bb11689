"""A second person about a run: pills and a reason of their own first, what the first one said folded below."""

from __future__ import annotations

import streamlit as st

from dashboard import components, session
from dashboard.screens import reprocess_acts
from dashboard.screens import reprocess_words as words
from dashboard.screens.review_said import LOOKED_AT
from dashboard.words import clock, harmless, named
from ledger import reprocess
from ledger.payload import shown
from ledger.records.reprocess import RunMode
from ledger.reprocess.agreements import AGREERS
from ledger.reprocess.requests import EVENT_ASKERS
from ledger.views import reprocess as views_reprocess
from ledger.views.reprocess import Run

ASKS = {
    RunMode.RECOMPUTE: "work it out again",
    RunMode.PREVIEW: "try it out and keep nothing",
    RunMode.REPEAT: "send again with new keys",
}
MEANS = {
    RunMode.RECOMPUTE: "The handlers run again and our own results are replaced. Nothing leaves the house.",
    RunMode.PREVIEW: "The handlers run, and all they did in the database is undone. Nothing leaves the house.",
    RunMode.REPEAT: "Each goes out as if for the first time. Whoever already has it **gets it twice**.",
}


def panel(run: Run) -> None:
    agreers = AGREERS.get(run.mode, EVENT_ASKERS)
    with st.container(border=True):
        if run.asker_id == session.me().id:
            _own(run)
        elif session.chosen().role not in agreers:
            st.markdown("**It waits for a second person. Nothing has begun.**")
            st.caption(f"You can read this. {words.AGREES[run.mode]} agrees to it.")
        elif void := _void(run):
            st.markdown("**Nobody can agree to it any more.** Ask anew with what is known by now.")
            components.told("Why:", void)
        else:
            _asked(run)


def _void(run: Run) -> str:
    if run.mode is not RunMode.REPEAT:
        return ""
    return session.read_soon(lambda tx: views_reprocess.void_because(tx, run.id))


def _own(run: Run) -> None:
    st.markdown(f"**Asked at {clock(run.asked_at, run.now)} UTC. Nothing has begun.** {_ends(run)}")
    st.caption("You asked for this yourself. Somebody else must agree.")
    st.button("Withdraw the request", key=f"stop_{run.id}", on_click=reprocess_acts.cancel, args=(run,))


def _ends(run: Run) -> str:
    return f"Without an answer by {clock(run.expires_at, run.now)} UTC it lapses." if run.expires_at else ""


def _asked(run: Run) -> None:
    name, going = named(run.asked_by), words.things(run.mode, words.to_go(run))
    st.markdown(f"**{name} asks you to agree: {ASKS[run.mode]}, {going}.**")
    st.markdown(f"{MEANS[run.mode]} The list is below, and stays as it is.")
    with st.form(f"rerun_second_{run.id}", border=False, enter_to_submit=False):
        st.pills(
            "What did you look at yourself?", LOOKED_AT, selection_mode="multi", key=f"rerun_looked_{run.id}"
        )
        components.reason("Why? The audit keeps your words.", key=f"rerun_why_{run.id}")
        left, right = st.columns(2)
        agree = "Agree, send it" if run.mode is RunMode.REPEAT else "Agree, begin it"
        left.form_submit_button(agree, type="primary", width="stretch", on_click=_answer, args=(run, True))
        right.form_submit_button("Do not agree", width="stretch", on_click=_answer, args=(run, False))
    missing = st.session_state.pop(f"rerun_missing_{run.id}", "")
    if missing:
        st.warning(harmless(missing), icon=":material/edit:")
    with st.expander(f"Why {name} asks"):
        st.text(shown(run.why))
    st.caption(f"Asked at {clock(run.asked_at, run.now)} UTC. {_ends(run)}")


def _answer(run: Run, agrees: bool) -> None:
    """As it was drawn: a press on a stale page, or after somebody else's, is answered."""
    looked = tuple(st.session_state.get(f"rerun_looked_{run.id}") or ())
    why = str(st.session_state.get(f"rerun_why_{run.id}", "")).strip()
    missing = session.incomplete(why, looked) if agrees else ""
    if missing:
        st.session_state[f"rerun_missing_{run.id}"] = missing
    elif agrees:
        reprocess_acts.act_on(run, "agree to a run", reprocess.agree, why, looked)
    else:
        reprocess_acts.act_on(run, "decline a run", reprocess.decline, why, looked)
