"""A second person: asked to agree to a new key, with pills and reason of their own before they see the first ones."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import components, session
from dashboard.screens import review_found, review_said
from dashboard.screens.review_said import Said
from dashboard.screens.review_settled import show
from dashboard.screens.review_way import offer_next, open_send
from dashboard.words import clock, harmless, named
from ledger import decisions
from ledger.database import Transaction
from ledger.payload import shown
from ledger.records import Act, Decision, Seen, Settled
from ledger.views.review import Request, Send


def panel(send: Send, request: Request) -> None:
    own = request.requested_by == session.me().id
    asked, ends = clock(request.requested_at, send.now), clock(request.expires_at, send.now)
    with st.container(border=True):
        if own:
            _own(send, request, asked, ends)
            return
        name, wait_s = named(request.name), session.house().settings.worker.decided_wait_s
        st.markdown(f"**{name} asks you to agree: send again with a new key.**")
        st.markdown(
            f"It goes out as if for the first time, in {wait_s:g} seconds. If the first one arrived, **they get it twice**."
        )
        _new_since(send, request, name, asked)
        _form(send, request)
        with st.expander(f"What {name} looked at, and why"):
            st.text(shown(f"{', '.join(request.looked_at)}.\n{request.why}"))
        st.caption(f"Asked at {asked} UTC. Expires at {ends} UTC; then it goes back to the desk.")


def _own(send: Send, request: Request, asked: str, ends: str) -> None:
    st.markdown(
        f"**Asked at {asked} UTC: send again with a new key. Nothing has gone out.** "
        f"Without an answer by {ends} UTC it comes back to this desk."
    )
    st.caption("You asked for this yourself. Somebody else must agree.")
    _new_since(send, request, "you", asked)
    offer_next(send)
    if st.button("Withdraw the request", width="stretch", key=f"withdraw_{request.id}"):
        _answer(send, request, "withdrawn", Said())


def _new_since(send: Send, request: Request, who: str, asked: str) -> None:
    """It does not end the request: the second person sees it, and the audit names it."""
    new = review_found.new_since(send, request.requested_at, request.found_then)
    if new:
        st.markdown(f":material/new_releases: **New since {who} asked at {asked} UTC:**")
        components.evidence(new)


def _form(send: Send, request: Request) -> None:
    """Of what is drawn here: a press on an older drawing is no press on this one."""
    with st.form(f"second_{request.id}_{send.version}", border=False, enter_to_submit=False):
        said = review_said.asked(
            f"second_{request.id}", Decision.RESEND_NEW_KEY, "What did you look at yourself?"
        )
        left, right = st.columns(2)
        agreed = left.form_submit_button("Agree, send it", type="primary", width="stretch")
        disagreed = right.form_submit_button("Do not agree", width="stretch")
    if not (agreed or disagreed):
        return
    missing = session.incomplete(said.why, said.looked) if agreed else ""
    if missing:
        st.warning(harmless(missing), icon=":material/edit:")
        return
    _answer(send, request, "agreed" if agreed else "disagreed", said)


def _answer(send: Send, request: Request, answer: str, said: Said) -> None:
    seen, wait_s = Seen(send.version, send.content_digest), session.house().settings.worker.decided_wait_s

    def do(tx: Transaction, act: Act) -> Any:
        if answer == "agreed":
            return decisions.agree(tx, request.id, seen, act, wait_s=wait_s)
        return decisions.disagree(tx, request.id, act)

    form = session.form_id("request", request.id, answer)
    result = session.act(answer, send.id, do, form=form, why=said.why, looked_at=said.looked)
    if isinstance(result, session.Done) and isinstance(result.value, Settled):
        open_send(result.value.action_id)  # the new generation is what goes out
    show(send, result)
