"""What somebody sees who is not in: the way in, or why it is shut. Nothing of the house is on it."""

from __future__ import annotations

import streamlit as st

from dashboard import session
from dashboard.way_back import FAILED
from dashboard.words import clock, harmless
from ledger.errors import NotAdmitted, SignInEnded
from ledger.payload import shown

FOR_WHOM = (
    "Not Twice is for people who have a role here: support, engineers, auditors. Sign in to see your page."
)
NOT_SIGNED_IN = (
    "Your provider did not sign you in, or its word could not be trusted. Nothing was opened. Try again; if it stays so, "
    "tell an administrator."
)
ENDED = "What was done before is on record. What you pressed or wrote after that was not sent."


def is_in() -> bool:
    """Whether this person may come in."""
    try:
        return session.admitted() is not None
    except NotAdmitted:
        return False


def page() -> None:
    """The way in, or why it is shut."""
    middle = st.container(key="nt_sign_in", horizontal=True, horizontal_alignment="center")
    with middle.container(width=520):
        st.caption("Not Twice")
        try:
            session.admitted()
        except SignInEnded as error:
            _way_in(f"Your sign-in ended at {clock(error.at)} UTC.", ENDED)
        except NotAdmitted as error:
            _shut(str(error))
        else:
            _way_in("Sign in.", NOT_SIGNED_IN if st.context.cookies.get(FAILED) else FOR_WHOM)


def _way_in(heading: str, words: str) -> None:
    st.title(heading, anchor=False)
    st.markdown(words)
    st.button("Sign in", type="primary", on_click=st.login)


def _shut(why: str) -> None:
    st.title("You may not come in.", anchor=False)
    st.markdown(harmless(why))
    if account := session.account():
        st.caption("You are signed in as")
        st.text(shown(account))
    sign_out("Sign in as somebody else")


def sign_out(label: str = "Sign out") -> None:
    """The way out, as one came in; nothing where a proxy has not named its own."""
    if session.signs_in_here():
        st.button(label, on_click=st.logout)
    elif address := session.sign_out_url():
        st.link_button(label, address)
