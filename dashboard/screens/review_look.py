"""Look again: the provider is asked by a worker, never from here. The request is a row; the page says what came of it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import components, session
from dashboard.screens import review_found
from dashboard.words import clock_s, many, named, provider
from ledger.database import Transaction
from ledger.evidence import lookups
from ledger.records import Act, LookedKind
from ledger.views import lookups as views_lookups
from ledger.views.lookups import Looks
from ledger.views.review import Send

STATES = ("needs_review", "closed")
EVERY_S = 1.0
CAPTION = "Asks the provider now. Sends nothing."


def draw(send: Send) -> None:
    """The button, or the steps while a worker is asked; below, when the provider was asked and what it said."""
    if send.state in STATES and send.attempts and review_found.can_be_asked(session.kind_of(send.provider)):
        looks = session.read(lambda tx: views_lookups.looks(tx, send.id))
        st.fragment(_looking, run_every=EVERY_S if looks.asked_at else None)(send, looks.done)


def _looking(send: Send, drawn: int) -> None:
    looks = session.read(lambda tx: views_lookups.looks(tx, send.id))
    if looks.asked_at is not None:
        _steps(send, looks)
        return
    if looks.done != drawn:
        st.rerun()  # what was found stands in the table above
    with st.container(horizontal=True, vertical_alignment="center"):
        if session.may_decide():
            pressed = st.button("Look again", icon=":material/manage_search:", key=f"look_{send.id}")
            st.caption(CAPTION, width="content")
            if pressed:
                _ask(send, looks)
    _told(send, looks)


def _ask(send: Send, looks: Looks) -> None:
    def do(tx: Transaction, act: Act) -> Any:
        return lookups.ask(tx, send.id, act)

    form = session.form_id(send.id, lookups.ASK, looks.done)
    result = session.act(lookups.ASK, send.id, do, form=form)
    if isinstance(result, session.Done | session.Twice):
        st.rerun()
    components.outcome(result)


def _steps(send: Send, looks: Looks) -> None:
    name = provider(send.provider)
    who = named(looks.asked_by or "")
    steps = st.status(f"Looking at {name}…", expanded=True)  # not as a block, whose end would tick it off
    if looks.asked_at:
        steps.markdown(f":material/check: Asked by {who} at {clock_s(looks.asked_at)} UTC. Nothing is sent.")
    steps.markdown(f":material/more_horiz: {_waits_for(name, looks)}")


def _waits_for(name: str, looks: Looks) -> str:
    if looks.in_hand:
        return f"A worker asks {name} now."
    if looks.held_until is not None:
        return f"{name} is held until {clock_s(looks.held_until)} UTC; a worker asks it then."
    figures = session.figures().figures
    if figures is not None and figures.workers == 0:
        return f"No worker is running. As soon as one does, it asks {name}; you need not wait here."
    return "Waits for the next free worker."


def _told(send: Send, looks: Looks) -> None:
    name = provider(send.provider)
    if looks.last_at is not None:
        times = f"{name} was asked {many(looks.done, 'time')}, last at {clock_s(looks.last_at)} UTC"
        if looks.outcome == LookedKind.ANSWERED:
            st.caption(f"{times}. What it showed stands above.")
        else:
            components.told(f"{times}, without an answer:", looks.words)
    if looks.due_at is not None:
        st.caption(f"We ask by ourselves at {clock_s(looks.due_at)} UTC.")
