"""The list of events, as the Events page reads it. No body in it; one event whole is in views_event.

A page is found by its ids first (views_found) and only then are its rows read. Pages follow each other by where the
last one ended, and each read stops after a limit of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.exc import DBAPIError

from ledger.database import Transaction, sqlstate
from ledger.database.rows import made
from ledger.errors import TooSlow
from ledger.inbox.unhandled import HANDLED
from ledger.views.found import Filter, Place, found, is_cut

LIMIT_S = 2.0
CANCELLED = "57014"
COUNTED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event in a list. `deliveries` counts the first one too; `handled`: some worker has a handler for its kind."""

    id: int
    accepted_at: datetime
    source: str
    type: str
    event_key: str
    state: str
    ending: str | None
    handled: bool
    attempts: int
    attempts_max: int
    deliveries: int
    sends: int
    place: Place


@dataclass(frozen=True, slots=True)
class Page:
    """`more`: there is a next page. `cut`: more keys begin so than were looked at."""

    rows: tuple[EventRow, ...]
    more: bool
    cut: bool


ROWS = """
WITH found AS MATERIALIZED ({found})
SELECT e.id, e.accepted_at, e.source, e.type, e.event_key, e.state, e.ending, e.attempts, e.attempts_max, f.known,
       {handled} AS handled,
       1 + CAST(coalesce((SELECT sum(d.deliveries) FROM nottwice.duplicates d WHERE d.event_id = e.id), 0) AS bigint) AS deliveries,
       (SELECT count(*) FROM nottwice.actions a WHERE a.event_id = e.id) AS sends
FROM found f JOIN nottwice.events e ON e.id = f.id ORDER BY {order}
""".replace("{handled}", HANDLED)
COUNT = "SELECT count(*) AS n FROM ({found}) AS found"


def events(tx: Transaction, wanted: Filter, *, after: Place | None = None, most: int = 25) -> Page:
    """The next `most` events: the newest first, or in the order of their keys when one looks for a key."""
    looked = found(tx, wanted, after, most + 1)
    order = "f.known, e.id" if wanted.text else "e.id DESC"
    rows = tx.all(ROWS.format(found=looked.sql, order=order), **looked.values)
    page = tuple(made(EventRow, row, place=(row.known, row.id)) for row in rows)
    more = len(page) > most
    return Page(page[:most], more, cut=bool(wanted.text) and not more and is_cut(tx, looked))


def count(tx: Transaction, wanted: Filter) -> int:
    """How many there are; COUNTED_MAX + 1 stands for more than that."""
    looked = found(tx, wanted, None, COUNTED_MAX + 1, newest="")
    return int(tx.one(COUNT.format(found=looked.sql), **looked.values).n)


def sources(tx: Transaction) -> tuple[str, ...]:
    """Of the events that have ended, by name."""
    rows = tx.all("SELECT DISTINCT source FROM nottwice.kinds_done() ORDER BY source")
    return tuple(row.source for row in rows)


# Every list here comes in the order of an index. With the statistics of a table that was still empty, a planner would
# rather collect all matches in a bitmap and sort them.
BOUNDED = (
    "SELECT set_config('statement_timeout', :limit_ms, true), set_config('enable_bitmapscan', 'off', true)"
)


@contextmanager
def within(tx: Transaction, limit_s: float = LIMIT_S) -> Iterator[None]:
    """Each statement inside ends after `limit_s`. Raises TooSlow; the transaction is then of no more use."""
    tx.execute(BOUNDED, limit_ms=f"{limit_s * 1000:.0f}")
    try:
        yield
    except DBAPIError as error:
        if sqlstate(error) != CANCELLED:
            raise
        raise TooSlow(f"This took longer than {limit_s:g} s and was stopped.") from error
