"""The console's entry: every visit runs this first, whatever address it asks for.

The folder is `screens/`, not `pages/`: beside the entry script Streamlit serves a folder of that name without it.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

st.set_page_config(page_title="Not Twice", page_icon=str(Path(__file__).with_name("icon.png")), layout="wide")

from dashboard import session  # noqa: E402 - the page must be configured before anything draws
from dashboard.components import database_gone, style  # noqa: E402
from dashboard.screens import me, overview, review  # noqa: E402
from ledger.errors import Misconfigured, Unavailable  # noqa: E402

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def main() -> None:
    style()
    address = st.get_option("server.address")
    if address not in LOOPBACK:
        st.error(
            "The console does not listen beyond this machine without sign-in. "
            "Start it with --server.address=127.0.0.1, and put nothing in front of it."
        )
        st.stop()
    try:
        who = session.person()
        waiting = _waiting()
    except Misconfigured as error:
        st.error("The console cannot start as it is configured.")
        st.text(str(error))
        st.stop()
    except Unavailable:
        _gone()
        return
    _navigate(who.name, who.role.value, waiting, session.HOME.get(who.role, "overview"))


def _waiting() -> int | None:
    snapshot = overview.now_or_last()
    return snapshot.needs_review + snapshot.proposed if snapshot else None


def _navigate(name: str, role: str, waiting: int | None, first: str) -> None:
    def home() -> None:  # the default page has no address of its own, so it must not be a real one
        st.switch_page(pages[first])

    title = f"Review · {waiting}" if waiting else "Review"
    pages = {
        "overview": st.Page(overview.page, title="Overview", url_path="overview"),
        "review": st.Page(review.page, title=title, url_path="review"),
        "me": st.Page(me.page, title=f"{name} · {role}", url_path="me", icon=":material/account_circle:"),
    }
    st.session_state["pages"] = pages
    default = st.Page(home, title="Home", default=True, visibility="hidden")
    chosen = st.navigation([default, *pages.values()], position="top")
    try:
        chosen.run()
    except Unavailable:
        database_gone(None)
        st.button("Try again", icon=":material/refresh:")


@st.fragment(run_every="2s")
def _gone() -> None:
    """No page can be drawn yet; look again until one can."""
    database_gone(None)
    try:
        session.person()
    except Unavailable:
        return
    st.rerun()


main()
