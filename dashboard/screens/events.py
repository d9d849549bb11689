"""Events: what happened to this event? A list to find it in, and one event, conflict or quarantined element whole.

The address holds source, type, state, times and ids. What people type to look for a key stays out of it: histories,
proxies and logs keep addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from dashboard import session
from dashboard.components import NOTHING_HERE, too_slow
from dashboard.screens import events_kept, events_list, events_one
from ledger.database import Transaction
from ledger.errors import TooSlow
from ledger.views import event as views_event
from ledger.views import kept as views_kept

DIGITS_MAX = 18  # of a bigint that is certainly one
ONE: dict[str, tuple[Callable[[Transaction, int], Any], Callable[[Any], None]]] = {
    "event": (views_event.story, events_one.draw),
    "conflict": (views_kept.conflict, events_kept.draw_conflict),
    "quarantined": (views_kept.quarantined, events_kept.draw_quarantined),
}


def page() -> None:
    try:
        _draw()
    except TooSlow:
        too_slow()


def _draw() -> None:
    for name, (read, draw) in ONE.items():
        asked = st.query_params.get_all(name)
        if asked:
            found = _find(asked, read)
            draw(found) if found is not None else _nothing(name)
            return
    events_list.draw()


def _find(asked: list[str], read: Callable[[Transaction, int], Any]) -> Any:
    """What an address names. An address only shows; nothing is ever done because of one."""
    text = asked[0]
    if len(asked) != 1 or not (text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX):
        return None
    return session.read_soon(lambda tx: read(tx, int(text)))


def _nothing(name: str) -> None:
    st.title(NOTHING_HERE, anchor=False)
    if st.button("All events", icon=":material/arrow_back:", type="tertiary"):
        events_list.back(name)
