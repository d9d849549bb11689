"""What the page shows is read once and kept, so that what a person picks from is what they saw; `again` reads anew.

The kept page has a number of its own, which is in the table's key: a selection never outlives the rows it was made on.
What the address says (segment, source, type) and where this session has paged to decide which page it is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import streamlit as st

from dashboard import paging, session
from dashboard.screens.stuck_words import Pace
from ledger.database import Transaction
from ledger.events import by_two, recovery
from ledger.events.by_two import Request
from ledger.records import Person
from ledger.views import stuck as views_stuck
from ledger.views.stuck_found import SEGMENTS, Filter, Place, Segment
from ledger.views.stuck_rows import Limits, Page, Row, Sizes

ROWS_SHOWN = paging.ROWS
TEXT_MAX = 200
FRESH_S = 2.0  # what nobody has picked from is read anew by a run after that


@dataclass(frozen=True, slots=True)
class Kept:
    """One page as it was read. `asked` is what was asked for, `number` tells one reading from the next."""

    asked: tuple[Segment, Filter, Place | None]
    page: Page
    sizes: Sizes
    requests: tuple[Request, ...]
    read_at: float
    number: int

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.read_at


def segment() -> Segment | None:
    """What the address asks for, else what this session is at; None: the first that holds something."""
    asked = st.query_params.get("show", "")
    named, old = next((name for name in SEGMENTS if name == asked), None), _old()
    stays = old is not None and (chosen() or paging.place("stuck") or gone() or old.age_s < FRESH_S)
    return named or (old.asked[0] if old and stays else None)


def wanted() -> Filter:
    given = (st.query_params.get(name, "")[:TEXT_MAX].strip() for name in ("source", "type"))
    return Filter(*given)


def limits() -> Limits:
    settings = session.house().settings
    silent_s = min(settings.worker.lease_s, settings.alerts.worker_silent_s)
    return Limits(settings.worker.lease_s, settings.alerts.pending_s, silent_s)


def pace() -> Pace:
    settings = session.house().settings
    return Pace(max(settings.worker.sweep_s, settings.worker.patience_s), settings.alerts.pending_s)


def chosen() -> tuple[int, ...]:
    """The rows that were picked, by their place in the kept page's list of ids; an event and a send may share a number."""
    picked: tuple[int, ...] = st.session_state.get("stuck_chosen") or ()
    return picked


def kept() -> Kept:
    """The page to draw. Raises TooSlow, and Unavailable where there is none yet."""
    asked, old = (segment(), wanted(), paging.place("stuck")), _old()
    if old is not None and old.asked == asked and (chosen() or gone() or old.age_s < FRESH_S):
        return old
    me = session.me() if session.chosen().role in recovery.REQUEUERS else None
    new = session.read_soon(lambda tx: _read(tx, *asked, me, (old.number if old else 0) + 1))
    st.session_state["stuck_kept"] = new
    st.session_state["stuck_chosen"] = ()
    return new


def _read(
    tx: Transaction, at: Segment | None, wanted: Filter, after: Place | None, me: Person | None, number: int
) -> Kept:
    """The sizes first: they say which segment it is where nobody asked for one."""
    sizes = views_stuck.sizes(tx, limits(), wanted)
    shown = at or next((name for name in SEGMENTS if getattr(sizes, name)), SEGMENTS[0])
    page = views_stuck.page(tx, shown, limits(), wanted, after=after, most=ROWS_SHOWN)
    requests = (*by_two.waiting(tx), *(by_two.unfinished(tx, me) if me else ()))
    return Kept((shown, wanted, after), page, sizes, requests, time.monotonic(), number)


def _old() -> Kept | None:
    old: Kept | None = st.session_state.get("stuck_kept")
    return old


def picked(now: Kept) -> list[Row]:
    return [now.page.rows[place] for place in chosen() if place < len(now.page.rows)]


def number() -> int:
    """Of the kept page: the same list asked about twice from one page is one request."""
    old = _old()
    return old.number if old else 0


def gone() -> bool:
    """Whether the database cannot be reached: what was read stays, and nothing can be done with it."""
    return session.figures().gone_since is not None


def again() -> None:
    """What was picked is let go, and the next run reads."""
    st.session_state["stuck_chosen"] = ()
    st.session_state.pop("stuck_kept", None)


def from_the_start() -> None:
    paging.start("stuck")
    turned()


def turned() -> None:
    """Another page, or other filters: what became of the last act stood with what was there."""
    st.session_state.pop("stuck_told", None)
    again()
