"""On one event's page: which others tell of the same occurrence, and the form in which a person says so."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import streamlit as st

from dashboard import components, session
from ledger.database import Transaction
from ledger.kept import linked
from ledger.records import Act
from ledger.views import linked as views_linked
from ledger.views.event import Story
from ledger.views.linked import Linked

DIGITS_MAX = 18  # of a number that the ledger can hold


def draw(story: Story) -> None:
    found = session.read(lambda tx: views_linked.of_event(tx, story.id))
    may = session.chosen().role in linked.LINKERS
    if not (found.others or may):
        return
    result = st.session_state.pop(f"linked_{story.id}", None)
    if result is not None:
        components.outcome(result, "event")
    for other in found.others:
        if st.button(f"Tells of the same as event {int(other)}", key=f"same_{other}", type="tertiary"):
            st.query_params["event"] = str(other)
            st.rerun()
    if may:
        with st.expander("Does another event tell of the same?", expanded=result is not None):
            _form(story, found)


def _form(story: Story, found: Linked) -> None:
    st.caption(
        "For a sender that gave one occurrence two ids. Only the record changes: both keep their work and their sends, "
        "and the page of each leads to the other. `key_with` of the source keeps the next two from being two events."
    )
    st.text_input("Number of the other event", key=f"other_{story.id}", max_chars=DIGITS_MAX)
    st.text_input("Why? The audit keeps your words.", key=f"same_why_{story.id}", max_chars=500)
    with st.container(horizontal=True):
        st.button(
            "Link them", key=f"link_{story.id}", icon=":material/link:", on_click=_link, args=(story.id,)
        )
        if found.same_as is not None:
            st.button(
                f"It is not event {int(found.same_as)}",
                key=f"unlink_{story.id}",
                icon=":material/link_off:",
                on_click=_take_back,
                args=(story.id,),
            )


def _link(event_id: int) -> None:
    given = str(st.session_state.get(f"other_{event_id}", "")).strip()
    if not (given.isascii() and given.isdecimal()):
        said = "Write the number that stands under “Our number” on the other event's page. Nothing was done."
        st.session_state[f"linked_{event_id}"] = session.Refused(said)
        return
    _act(event_id, linked.LINKED, lambda tx, act: linked.link(tx, event_id, int(given), act))


def _take_back(event_id: int) -> None:
    _act(event_id, linked.TAKEN_BACK, lambda tx, act: linked.take_back(tx, event_id, act))


def _act(event_id: int, what: str, do: Callable[[Transaction, Act], int]) -> None:
    """A second press finds what the first one did: what is linked is not linked again."""
    why = str(st.session_state.get(f"same_why_{event_id}", ""))
    result = session.act(what, event_id, do, form=uuid4(), why=why, entity="event")
    if not isinstance(result, session.Done):
        st.session_state[f"linked_{event_id}"] = result
