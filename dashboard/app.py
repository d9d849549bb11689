"""The console's entry: every visit runs this first, whatever address it asks for.

The folder is `screens/`, not `pages/`: beside the entry script Streamlit serves a folder of that name to a first
visitor without running the entry script (seen with 1.67).
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

st.set_page_config(page_title="Not Twice", page_icon=str(Path(__file__).with_name("icon.png")), layout="wide")

from dashboard import address, navigation, session, shown  # noqa: E402 - the page must be configured before anything draws
from dashboard.components import database_gone, style  # noqa: E402
from dashboard.navigation import Both, both  # noqa: E402
from dashboard.screens import (  # noqa: E402
    audit,
    events,
    health,
    me,
    overview,
    reprocess,
    review,
    sign_in,
    stuck,
)
from dashboard.words import named  # noqa: E402
from ledger.errors import Misconfigured, Unavailable  # noqa: E402
from ledger.records import Role  # noqa: E402
from ledger.settings.sign_in import is_loopback  # noqa: E402

NOBODY = """Nobody is named in [console] people, so nobody can act here. Add yourself to the configuration, and start the house again:

[[console.people]]
name = "Your Name"
email = "you@example.com"
role = "admin"   # or viewer, support, engineer, auditor"""
FIRST_PAGE = {Role.SUPPORT: "review", Role.ADMIN: "review"}  # for everybody else the overview


def main() -> None:
    style()
    address.clean()
    try:
        somebody_signs_in = session.door() is not None
        if not somebody_signs_in:
            _refuse_beyond_loopback()
            _refuse_nobody()
    except Misconfigured as error:
        st.title("The console cannot start as it is configured.", anchor=False)
        st.text(str(error))
        st.stop()
    if somebody_signs_in and not sign_in.is_in():
        _nothing_but_sign_in()
    else:
        _navigate()


def _refuse_nobody() -> None:
    if not session.people_here():
        raise Misconfigured(NOBODY)


def _refuse_beyond_loopback() -> None:
    if not is_loopback(str(st.get_option("server.address"))):
        st.title("The console does not listen beyond this machine without sign-in.", anchor=False)
        st.markdown("Start it with `nottwice console`, and put nothing in front of it.")
        st.stop()


def _nothing_but_sign_in() -> None:
    """Every page's address is answered with the same page, and stays in the browser: the sign-in leads back to it."""
    addresses = navigation.addresses(_pages("You"))
    everywhere = [st.Page(sign_in.page, title="Sign in", url_path=address) for address in addresses]
    home = st.Page(sign_in.page, title="Sign in", url_path="sign-in", default=True)
    st.navigation([home, *everywhere], position="hidden").run()


def _pages(
    person: str, waiting: int = 0, stuck_now: int = 0, *, reads: bool = True, inside: str = ""
) -> dict[str, Both]:
    review_title = f"Review · {waiting}" if waiting else "Review"
    stuck_title = f"Stuck work · {stuck_now}" if stuck_now else "Stuck work"
    return {
        "overview": both(overview.page, "overview", "Overview", inside),
        "review": both(review.page, "review", review_title, inside),
        "stuck": both(stuck.page, "stuck", stuck_title, inside),
        "events": both(events.page, "events", "Events", inside),
        "reprocess": both(reprocess.page, "reprocess", "Reprocess", inside),
        "audit": both(audit.page, "audit", "Audit", inside, is_offered=reads),
        "health": both(health.page, "health", "Health", inside),
        "me": both(me.page, "me", person, inside, icon=":material/account_circle:"),
    }


def _navigate() -> None:
    who, figures = session.chosen(), session.figures().figures
    waiting = figures.for_people if figures else 0
    stuck_now = figures.stuck if figures else 0
    st.session_state["drawn_waiting"], st.session_state["drawn_stuck"] = waiting, stuck_now

    def home() -> None:  # the default page has no address of its own, so it must not be a real one
        st.switch_page(st.session_state["pages"][FIRST_PAGE.get(who.role, "overview")])

    reads = who.role in audit.READERS
    person = f"{named(who.name)} · {who.role.value}"
    chosen = navigation.chosen(
        lambda inside: _pages(person, waiting, stuck_now, reads=reads, inside=inside),
        st.Page(home, title="Home", default=True, visibility="hidden"),
    )
    shown.only_here(chosen.url_path)
    try:
        chosen.run()
    except Unavailable:
        _gone()
    else:
        me.frame()


@st.fragment(run_every="2s")
def _gone() -> None:
    """This page needs the database. Say so, and draw it as soon as it answers."""
    glance = session.figures()
    if glance.gone_since is None:
        st.rerun()
    database_gone(glance.gone_since, None, session.refresh_s())


main()
