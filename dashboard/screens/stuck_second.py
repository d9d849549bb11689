"""Lists that wait for a second person: who asks for what and why, and the word of somebody else."""

from __future__ import annotations

from functools import partial

import streamlit as st

from dashboard import components, session
from dashboard.screens import stuck_done, stuck_read
from dashboard.screens.stuck_fits import AUDITED, CONSEQUENCE, Deed
from dashboard.screens.stuck_read import Kept
from dashboard.words import clock, many, named
from ledger.database import Transaction
from ledger.events import by_two, recovery
from ledger.events.by_two import Request
from ledger.payload import shown
from ledger.records import Act

DEED_OF: dict[str, Deed] = {audited: deed for deed, audited in AUDITED.items()}


def panels(now: Kept) -> None:
    """Above the list, for those who may agree."""
    if session.chosen().role not in recovery.REQUEUERS:
        return
    for request in now.requests:
        with st.container(border=True):
            _panel(request)


def _panel(request: Request) -> None:
    deed = DEED_OF[request.act]
    if request.behind is not None:
        _interrupted(request, deed, request.behind)
        return
    own, asks = request.requested_by == session.me().id, wish(deed, len(request.rows))
    st.markdown(
        f"**You asked to {asks}.**" if own else f"**{named(request.asked_by)} asks you to agree: {asks}.**"
    )
    st.caption(
        f"{CONSEQUENCE[deed]} Asked at {clock(request.requested_at)} UTC; it runs out at {clock(request.expires_at)} UTC."
    )
    if own:
        st.caption("You asked for this yourself. Somebody else must agree.")
        _answer(request, deed, own=True)
        return
    _answer(request, deed, own=False)
    with st.expander("Which events, and why"):
        st.text(shown(request.why))
        st.text(shown(", ".join(f"{event_id}" for event_id, _ in request.rows[:200])))


def _interrupted(request: Request, deed: Deed, behind: int) -> None:
    """What this person agreed to and did not get through: the rest of it, within the hour."""
    total = behind + len(request.rows)
    st.markdown(
        f"**You agreed to {wish(deed, total)}, and {behind:,} of {total:,} are done, or have changed.**"
    )
    st.caption(
        f"{CONSEQUENCE[deed]} Asked by {named(request.asked_by)}. The rest can be done within an hour of your word."
    )
    with st.form(f"stuck_rest_{request.id}", border=False, enter_to_submit=False):
        why = components.reason("Why? The audit keeps your words.", key=f"stuck_rest_why_{request.id}")
        goes_on = st.form_submit_button("Do the rest", type="primary")
    if goes_on and not why.strip():
        st.warning("Nothing was done. Please say why.", icon=":material/edit:")
    elif goes_on:
        _rest(request, deed, why)
        st.rerun()


def wish(deed: Deed, n: int) -> str:
    """`try 120 events again`."""
    them = many(n, "event")
    return {"again": f"try {them} again", "aside": f"set {them} aside", "back": f"hand {them} back"}[deed]


def _answer(request: Request, deed: Deed, *, own: bool) -> None:
    with st.form(f"stuck_second_{request.id}", border=False, enter_to_submit=False):
        why = components.reason("Why? The audit keeps your words.", key=f"stuck_second_why_{request.id}")
        left, right = st.columns(2)
        agrees = not own and left.form_submit_button("Agree, and do it", type="primary", width="stretch")
        declines = right.form_submit_button(
            "Withdraw the request" if own else "Do not agree", width="stretch"
        )
    if not (agrees or declines):
        return
    if not why.strip():
        st.warning("Nothing was done. Please say why.", icon=":material/edit:")
        return
    _agree(request, deed, why) if agrees else _decline(request, why)
    st.rerun()


def _agree(request: Request, deed: Deed, why: str) -> None:
    """The word, and then each event as an act of its own; what changed since it was asked is left alone."""
    form = session.form_id("stuck agreement", request.id)
    result = session.act(
        f"agreed: {request.act}",
        request.id,
        lambda tx, act: by_two.agree(tx, request.id, act),
        form=form,
        why=why,
        entity="request",
    )
    if not isinstance(result, session.Done | session.Twice):
        st.session_state["stuck_asked"] = ("declined", result)
        stuck_read.again()
        return
    _rest(request, deed, why)


def _rest(request: Request, deed: Deed, why: str) -> None:
    stuck_done.one_by_one(
        deed, [(f"event {row[0]}", partial(_one, request, row, why)) for row in request.rows]
    )


def _one(request: Request, row: tuple[int, int], why: str) -> session.Result:
    def do(tx: Transaction, act: Act) -> int:
        return by_two.carry_out(tx, request, *row, act)

    form = session.form_id("stuck request", request.id, row[0])
    return session.act(request.act, row[0], do, form=form, why=why, entity="event")


def _decline(request: Request, why: str) -> None:
    form = session.form_id("stuck decline", request.id)
    result = session.act(
        f"did not agree: {request.act}",
        request.id,
        lambda tx, act: by_two.decline(tx, request.id, act),
        form=form,
        why=why,
        entity="request",
    )
    st.session_state["stuck_asked"] = ("declined", result)
    stuck_read.again()
