"""Who is here: signed in at a provider, named by a proxy, or, where nobody signs in, one of the people configured.

`session` offers all of it to screens. Every question is answered anew from the token or the headers, so that a sign-in
that ended opens nothing any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import streamlit as st

from dashboard.house import House
from dashboard.remembered import COOKIE, OPENED
from ledger.decisions.deciding import DECIDERS
from ledger.errors import NotAdmitted
from ledger.records import Person
from ledger.settings import PersonSettings, ProxySettings, SignInSettings, load
from ledger.sign_in import admission, people
from ledger.sign_in.admission import Admitted


@st.cache_resource(show_spinner=False)
def house() -> House:
    """The configuration and the database, once for all sessions of this console."""
    return House(load())


def door() -> SignInSettings | ProxySettings | None:
    """How people come in; None where nobody signs in."""
    return house().settings.console.door


# ── Signed in ─────────────────────────────────────────────────────────────────────────────────────────


def claims() -> Mapping[str, object]:
    """What the provider's token says of this browser; nothing before it signed in. Streamlit checked its signature."""
    said = st.user.to_dict()
    return said if said.get("is_logged_in") else {}


def headers(name: str) -> Sequence[str]:
    """All values of a header with which this session began."""
    return [_as_utf8(value) for value in st.context.headers.get_all(name)]


def _as_utf8(value: str) -> str:
    try:
        return value.encode("latin-1").decode()
    except (UnicodeEncodeError, UnicodeDecodeError):
        return value


def admitted() -> Admitted | None:
    """Who signed in; None before anybody did. Raises NotAdmitted, with the reason in words for them."""
    settings = house().settings
    match settings.console.door:
        case SignInSettings() as sign_in:
            said = claims()
            now = datetime.now(UTC)
            return admission.by_token(said, sign_in, house().roles.now(), now) if said else None
        case ProxySettings() as proxy:
            secret = settings.secret(proxy.secret)
            return admission.by_headers(headers, proxy, secret, house().roles.now())
    return None


def account() -> str:
    """What the provider calls this person, whether they may come in or not. Text from outside."""
    said = claims() if signs_in_here() else {}
    return str(said.get("email") or said.get("sub") or "")


def signs_in_here() -> bool:
    """Whether people sign in and out at this console, not at a proxy in front of it."""
    return isinstance(door(), SignInSettings)


def sign_out_url() -> str:
    """Where the proxy in front lets people sign out; "" where nobody named it."""
    found = door()
    return found.sign_out_url if isinstance(found, ProxySettings) else ""


def _signed_in() -> Admitted:
    """Whoever is not in any more gets the page that says so, from wherever they are."""
    try:
        found = admitted()
    except NotAdmitted:
        st.rerun()
        raise
    if found is None:
        st.rerun()
        raise NotAdmitted("You are not signed in.")
    _only_one(found)
    return found


def _only_one(found: Admitted) -> None:
    """A session is one person's: what another had open or read in it is forgotten."""
    whose = (found.issuer, found.subject)
    if st.session_state.get("whose", whose) != whose:
        st.session_state.clear()
    st.session_state["whose"] = whose


# ── Nobody signs in ───────────────────────────────────────────────────────────────────────────────────


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


def choose(number: int) -> None:
    """Act as another of the people from now on, from the top of the page; what the one before had open or read is forgotten."""
    opened = int(st.session_state.get(OPENED, 0))
    st.session_state.clear()
    st.session_state["person"], st.session_state[OPENED] = number, opened + 1


# ── Either way ────────────────────────────────────────────────────────────────────────────────────────


def chosen() -> PersonSettings:
    """Name, address and role of whoever acts."""
    if door() is None:
        return people_here()[number()]
    found = _signed_in()
    return PersonSettings(name=found.name, email=found.email, role=found.role)


def me() -> Person:
    """The person who acts, as the database knows them. Raises Unavailable."""
    given, found = chosen(), None if door() is None else _signed_in()
    if "me" not in st.session_state or st.session_state["me"].role is not given.role:
        st.session_state["me"] = house().database.run(
            lambda tx: people.admitted(tx, found) if found else people.local(tx, given)
        )
    known: Person = st.session_state["me"]
    return known


def may_decide() -> bool:
    return chosen().role in DECIDERS
