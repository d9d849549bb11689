"""Review: which uncertain send first; did it go out? Two views: the queue, and one send with the whole window."""

from __future__ import annotations

import streamlit as st

from dashboard import session
from dashboard.components import NOTHING_HERE
from dashboard.screens import review_queue, review_send
from ledger.views import review as views_review

DIGITS_MAX = 18  # of a bigint that is certainly one


def page() -> None:
    asked = st.query_params.get_all("send")
    if not asked:
        review_queue.draw()
        return
    send = _find(asked)
    if send is None:
        st.title(NOTHING_HERE, anchor=False)
        if st.button("All that wait", icon=":material/arrow_back:", type="tertiary"):
            st.query_params.clear()
            st.rerun()
        return
    review_send.draw(send)


def _find(asked: list[str]) -> views_review.Send | None:
    """The send that an address names. An address only shows; nothing is ever done because of one."""
    text, who = asked[0], session.chosen()
    if len(asked) != 1 or not (text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX):
        return None
    return session.read(lambda tx: views_review.send(tx, who.role, int(text)))
