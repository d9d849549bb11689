"""Review: which uncertain send first; did it go out? Two views: the queue, and one send with the whole window."""

from __future__ import annotations

import streamlit as st

from dashboard.screens import review_queue, review_send

NOTHING = "There is nothing here, or you may not see it."


def page() -> None:
    asked = st.query_params.get("send", "")
    if not asked:
        review_queue.draw()
        return
    if not (asked.isascii() and asked.isdecimal() and len(asked) <= 18) or not review_send.draw(int(asked)):
        st.title("Review", anchor=False)
        st.info(NOTHING, icon=":material/search_off:")
        if st.button("All that wait", icon=":material/arrow_back:"):
            back()


def back() -> None:
    st.query_params.clear()
    st.rerun()
