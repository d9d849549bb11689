"""A hint that a person may adopt: "this message is it" becomes their decision, with its number and their reason."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import components, session
from dashboard.screens import review_said
from dashboard.screens.review_said import Said
from dashboard.screens.review_settled import show
from dashboard.words import harmless, many, provider
from ledger import decisions
from ledger.database import Transaction
from ledger.decisions import adopting
from ledger.decisions.adopting import Hint
from ledger.records import Act, Decision, Seen
from ledger.views.review import Send

SHOWN = 3


def panel(send: Send) -> None:
    """What a person may adopt, above the decision; nothing where nothing points to a message."""
    if send.state != "needs_review" or send.request or not session.may_decide():
        return
    hints = session.read(lambda tx: adopting.shared(tx, send.id))[:SHOWN]
    st.fragment(_cards)(send, hints)


def _cards(send: Send, hints: tuple[Hint, ...]) -> None:
    """One part for all of them, so that a press is answered whichever card has gone."""
    for hint in hints:
        _card(send, hint)


def _card(send: Send, hint: Hint) -> None:
    mark = f"{send.id}_{send.version}_{hint.id}"
    with st.container(border=True):
        st.markdown("**Is this the message?**")
        components.mail_head([("Hint", hint.found), ("From", hint.source), ("Number", hint.message_id)])
        if hint.others:
            _rivals(hint, mark)
        with st.form(f"adopt_{mark}", border=False, enter_to_submit=False):
            said = review_said.this_one(f"adopt_{mark}")
            pressed = st.form_submit_button("It was this one: close as sent", width="stretch")
        st.caption(f"Nothing goes out. It is closed as sent, under this number at {provider(send.provider)}.")
        if pressed:
            _press(send, hint, said)


def _rivals(hint: Hint, mark: str) -> None:
    words = many(hint.others, "other uncertain send", "other uncertain sends")
    st.caption(f"The same message may be that of {words}: a notice names no subject. Compare them first.")
    with st.container(horizontal=True):
        for rival in hint.rivals:
            if st.button(f"Open send {int(rival)}", key=f"rival_{mark}_{rival}", type="tertiary"):
                st.query_params["send"] = str(rival)
                st.rerun()


def _press(send: Send, hint: Hint, said: Said) -> None:
    looked, seen = (adopting.LOOKED_AT, *said.looked), Seen(send.version, send.content_digest)
    missing = session.incomplete(said.why, looked, send.finding, Decision.WAS_SENT)
    if missing:
        st.warning(harmless(missing), icon=":material/edit:")
        return

    def do(tx: Transaction, act: Act) -> Any:
        return adopting.adopt(tx, send.id, hint.id, seen, act)

    words = decisions.WORDS[Decision.WAS_SENT]
    form = session.form_id(send.id, send.version, Decision.WAS_SENT, "hint", hint.id)
    show(send, session.act(words, send.id, do, form=form, why=said.why, looked_at=looked))
