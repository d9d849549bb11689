"""The person's page, and the small line under every page that says as whom one acts."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from dashboard import components, session
from dashboard.screens.sign_in import is_in, sign_out
from dashboard.words import clock, harmless, named
from ledger.payload import shown
from ledger.sign_in.admission import Admitted

LOOK_S = 60.0
MAY = {
    "viewer": "Sees figures and lists, with recipients masked.",
    "support": "Decides uncertain sends, approves proposed ones, and agrees as second person. Reads own acts in the audit.",
    "engineer": "Tries stuck events again, sets them aside or hands them back. Sees recipients masked; support or admin decides sends.",
    "auditor": "Reads everything, checks and exports the record. Decides nothing.",
    "admin": "Decides, approves, agrees as second person, acts on stuck events, checks and exports the record.",
}


def page() -> None:
    found = session.admitted()
    if found is None:
        _one_of_the_people()
    else:
        _signed_in(found)


def _signed_in(found: Admitted) -> None:
    st.title(f"You are {named(found.name)}, {found.role.value}.", anchor=False)
    st.caption(MAY[found.role.value])
    if found.email:
        st.text(shown(found.email))
    st.text(shown(f"You are {found.role.value} because of the {found.rule}."))
    if found.until:
        st.markdown(f"Your sign-in ends at {clock(found.until)} UTC.")
    _zone()
    sign_out()


def _zone() -> None:
    """Times on every page are the same for everybody, so that two people who talk about one mean the same moment."""
    zone = named(st.context.timezone or "this machine").replace(" ", ", ")  # Europe, Berlin
    apart = components.ahead()
    told = f" Your clock, that of {zone}, is {apart}." if apart else ""
    st.markdown(harmless(f"All times are in UTC.{told}"))


def _one_of_the_people() -> None:
    who = session.chosen()
    st.title(f"You act as {named(who.name)}, {who.role.value}.", anchor=False)
    st.caption(MAY[who.role.value])
    if who.email:
        st.text(who.email)
    st.markdown(
        "This console listens on this machine alone and nobody signs in: whoever sits here acts as one of the people "
        "named in the configuration. The audit keeps that name."
    )
    _zone()
    people = session.people_here()
    st.radio(
        "Act as",
        range(len(people)),
        index=session.number(),
        format_func=lambda i: f"{named(people[i].name)} · {people[i].role.value}",
        captions=[MAY[one.role.value] for one in people],
        key="act_as",
        on_change=_chosen,
    )


def _chosen() -> None:
    session.choose(int(st.session_state["act_as"]))


def frame() -> None:
    """Under every page: who acts, and the others one can act as; where people sign in, a look whether they still are."""
    if found := session.admitted():
        _ends_with(found)
        return
    who, people = session.chosen(), session.people_here()
    others = [(i, one) for i, one in enumerate(people) if i != session.number()][:4]
    if not others:
        return
    components.remember(session.number())
    st.space("small")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="nt_frame"):
        st.caption(
            f"Nobody signs in on this machine. You act as **{named(who.name)}**, {who.role.value}.",
            width="content",
        )
        for i, one in others:
            label = f"Act as {named(one.name)} · {one.role.value}"
            st.button(label, type="tertiary", key=f"act_as_{i}", on_click=session.choose, args=(i,))


def _ends_with(found: Admitted) -> None:
    """A page that nobody touches does not outlive the sign-in: it looks when that ends, and once a minute until then."""
    if found.until is not None:
        left_s = (found.until - datetime.now(UTC)).total_seconds()
        st.fragment(_still_in, run_every=min(max(left_s, 0) + 0.2, LOOK_S))()


def _still_in() -> None:
    if not is_in():
        st.rerun()
