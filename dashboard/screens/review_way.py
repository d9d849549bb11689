"""The way through the queue: which part of it somebody works through, and which send comes next there."""

from __future__ import annotations

from typing import NoReturn

import streamlit as st

from dashboard import session
from dashboard.remembered import OPENED
from ledger.views import queue as views_queue
from ledger.views.queue import Segment
from ledger.views.review import Send

PART = "review_part"
MOST = 200


def open_send(action_id: int) -> NoReturn:
    st.session_state.pop("last_result", None)
    st.query_params["send"] = str(action_id)
    begin_at_the_top()


def begin_at_the_top() -> NoReturn:
    """Draw the page anew, and show it from its top."""
    st.session_state[OPENED] = opened() + 1
    st.rerun()


def opened() -> int:
    """Another number each time the page is to be shown from its top."""
    return int(st.session_state.get(OPENED, 0))


def part(send: Send) -> Segment:
    """Where it waits for this person; else the part that they work through: what they ask others, or decided, keeps it."""
    here = _waits_in(send)
    if here is not None:
        st.session_state[PART] = here
    return st.session_state.get(PART, "uncertain")  # type: ignore[no-any-return]


def _waits_in(send: Send) -> Segment | None:
    if send.state == "proposed":
        return "to_approve"
    if send.state != "needs_review" or (send.request and send.request.requested_by == session.me().id):
        return None
    return "second_person" if send.request else "uncertain"


def waiting(of: Segment) -> list[int]:
    """What waits in a part, in the order of the queue."""
    return session.read(lambda tx: views_queue.in_order(tx, of, most=MOST))


def following(send: Send) -> int | None:
    """The next send for this person: of the part that they work through, else of those that are uncertain."""
    for of in dict.fromkeys((part(send), "uncertain")):
        if found := others(send, waiting(of)):
            return found[0]
    return None


def others(send: Send, ids: list[int]) -> list[int]:
    """Without this one, and without those about which this person asks a second one."""
    me = session.me().id
    own = session.read(lambda tx: views_queue.asked_by(tx, me))
    return [id_ for id_ in ids if id_ != send.id and id_ not in own]


def offer_next(send: Send) -> None:
    after = following(send)
    if after is None:
        st.caption("Nothing else waits for a decision.")
    elif st.button("Open the next one", type="primary", width="stretch", key=f"next_{send.id}", shortcut="N"):
        open_send(after)
