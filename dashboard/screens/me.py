"""The person's page, and the small line under every page that says as whom one acts."""

from __future__ import annotations

import streamlit as st

from dashboard import components, session
from dashboard.words import named

MAY = {
    "viewer": "Sees figures and lists, with recipients masked.",
    "support": "Decides uncertain sends, approves proposed ones, and agrees as second person. Reads own acts in the audit.",
    "engineer": "Tries again what was set aside. Sees recipients masked; support or admin decides sends.",
    "auditor": "Reads everything, checks and exports the record. Decides nothing.",
    "admin": "Decides, approves, agrees as second person, tries again what was set aside, checks and exports the record.",
}


def page() -> None:
    who = session.chosen()
    st.title(f"You act as {named(who.name)}, {who.role.value}.", anchor=False)
    st.caption(MAY[who.role.value])
    if who.email:
        st.text(who.email)
    st.markdown(
        "This console listens on this machine alone and nobody signs in: whoever sits here acts as one of the people "
        "named in the configuration. The audit keeps that name. All times are in UTC."
    )
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
    """Under every page: who acts, and the others one can act as."""
    who, people = session.chosen(), session.people_here()
    others = [(i, one) for i, one in enumerate(people) if i != session.number()][:4]
    if not others:
        return
    components.remember(session.COOKIE, session.number())
    st.space("small")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="nt_frame"):
        st.caption(
            f"Nobody signs in on this machine. You act as **{named(who.name)}**, {who.role.value}.",
            width="content",
        )
        for i, one in others:
            label = f"Act as {named(one.name)} · {one.role.value}"
            st.button(label, type="tertiary", key=f"act_as_{i}", on_click=session.choose, args=(i,))
