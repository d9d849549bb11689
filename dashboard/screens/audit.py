"""Audit: who did what, when, why; is the record whole?"""

from __future__ import annotations

import streamlit as st

from dashboard import session
from dashboard.components import too_slow, zone
from dashboard.screens import audit_check, audit_entry, audit_export, audit_filters, audit_table
from dashboard.words import clock, clock_s, many, named
from ledger.audit.choice import ALL, Chosen
from ledger.errors import TooSlow
from ledger.records import Person, Role
from ledger.views import audit as views_audit
from ledger.views.audit import Page, Standing

READERS = views_audit.READ_ALL | views_audit.READ_OWN
NOT_YOURS = (
    "It says who decided what, and why. Support reads its own acts here; engineers, auditors and admins read all. "
    "Ask one of them, or whoever gives out the roles."
)


def page() -> None:
    try:
        _draw(session.me())
    except TooSlow:
        too_slow()


def _draw(who: Person) -> None:
    if who.role not in READERS:
        st.title("The record is not open to viewers.", anchor=False)
        st.caption(NOT_YOURS)
        return
    stands, chosen = session.read(views_audit.standing), audit_filters.read()
    entries = audit_table.read(chosen)
    st.title(whole_or_not(stands), anchor=False)
    _state(stands)
    _top(stands, chosen, entries, who.role)
    if stands.sealed or entries.entries or chosen != ALL:
        audit_filters.draw(chosen, who.role)
    audit_table.draw(chosen, entries)
    audit_entry.open_asked()


def whole_or_not(stands: Standing) -> str:
    """The page's answer. A record that was never checked is not called whole."""
    check = stands.check
    if check is None and not stands.sealed:
        return "Nothing is on record yet."
    if check is None:
        return f"The record has {many(stands.sealed, 'entry', 'entries')}. Nobody has checked it yet."
    if check.broken is not None:
        return check.broken.heading
    at = clock(check.checked_at, stands.now)
    return f"The record is whole: {many(check.entries, 'entry', 'entries')}, checked at {at} UTC."


def _state(stands: Standing) -> None:
    """What the last check said beyond the heading, and whether seals are late."""
    check = stands.check
    if check is not None and check.broken is not None:
        st.error(
            "**Do not change anything.** Keep the database and its backups as they are, and call whoever answers for "
            "them: somebody went past the ledger. What the check found:",
            icon=":material/link_off:",
        )
        st.text(check.broken.words)
    if check is not None and check.backdated is not None:
        st.warning(
            f"Entry {check.backdated:,} claims a time long before the entry that was sealed before it: it was put in "
            "later, or the server's clock was set back."
        )
    if stands.unsealed:
        waiting = many(stands.unsealed, "entry waits", "entries wait")
        st.warning(
            f"{waiting} for a seal for over a minute. Seals are made by workers: look whether one runs.",
            icon=":material/lock_clock:",
        )


def _top(stands: Standing, chosen: Chosen, entries: Page, role: Role) -> None:
    """What can be done with the record as a whole, and how old this is."""
    with st.container(horizontal=True, vertical_alignment="center"):
        audit_table.offer_newest(entries)
        if role in views_audit.CHECKERS:
            audit_check.offer(stands)
            audit_export.offer(chosen)
        with st.container(horizontal=True, horizontal_alignment="right", width="stretch"):
            st.caption(_caption(stands, role), width="content")


def _caption(stands: Standing, role: Role) -> str:
    check = stands.check
    own = "You see your own acts. " if role in views_audit.READ_OWN else ""
    by = f"Checked by {named(check.who) if check.who else 'nobody by name'}. " if check else ""
    since = stands.sealed - check.entries if check and not check.broken else 0
    new = f"{many(since, 'entry', 'entries')} since. " if since > 0 else ""
    return f"{own}{by}{new}Read at {clock_s(stands.now)} · {zone()}"
