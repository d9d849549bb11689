"""Who is here: as whom this session acts, and what the house has configured. `session` offers all of it to screens."""

from __future__ import annotations

import streamlit as st

from dashboard.house import House
from ledger import people
from ledger.deciding import DECIDERS
from ledger.records import Person
from ledger.settings import PersonSettings, load

COOKIE = "nottwice_acts_as"


@st.cache_resource(show_spinner=False)
def house() -> House:
    """The configuration and the database, once for all sessions of this console."""
    return House(load())


def people_here() -> tuple[PersonSettings, ...]:
    """Those among whom one chooses where nobody signs in."""
    return house().settings.console.people


def number() -> int:
    """Which of the people this session acts as; after a reload, the one this browser acted as before.

    The cookie is no proof of who one is: where nobody signs in, everybody may be anybody. It only keeps a reload
    from turning one person into another unseen.
    """
    if "person" not in st.session_state:
        kept = st.context.cookies.get(COOKIE, "")
        st.session_state["person"] = int(kept) if kept.isascii() and kept.isdecimal() and len(kept) < 4 else 0
    return int(st.session_state["person"]) % len(people_here())


def chosen() -> PersonSettings:
    return people_here()[number()]


def choose(number: int) -> None:
    """Act as another of the people from now on; what the one before had open or read is forgotten."""
    st.session_state.clear()
    st.session_state["person"] = number


def me() -> Person:
    """The person who acts, as the database knows them. Raises Unavailable."""
    if "me" not in st.session_state:
        given = chosen()
        st.session_state["me"] = house().database.run(lambda tx: people.local(tx, given))
    known: Person = st.session_state["me"]
    return known


def may_decide() -> bool:
    return chosen().role in DECIDERS
