"""Which events a filter means, as one statement that yields their ids and never walks through history.

Each part of it goes through one small index under the same conditions. What lives has indexes of its own and is
fenced (MATERIALIZED), so that no plan hopes to meet the few rows that wait while it walks the primary key. What has
ended is found by source, type and id, or by the beginning of its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ledger.database import Transaction
from ledger.inbox.unhandled import HANDLED
from ledger.states import EventState

KEYS_LOOKED_AT_MAX = 10_001  # of those with one beginning, before the other filters are applied
KEY_CHARACTERS_INDEXED = 60  # as in nottwice.known_as
ID_MAX = 2**63 - 1
ID_DIGITS_MAX = 18  # of a bigint that is certainly one
RUN_AT_ONCE = timedelta(seconds=15)  # longer than a transaction of ours may last
LAST_CHARACTER = "\U0010ffff"
NEWEST = "ORDER BY e.id DESC"

Place = tuple[
    str, int
]  # where a page of events ends: the beginning of its key when one searches by it, and its id


@dataclass(frozen=True, slots=True)
class Filter:
    """What a person looks for. `text` is an id, or a key or its beginning; empty members let everything pass.

    `since` and `until` bound the time of receipt; `until` itself is outside. `handled` tells apart what is pending:
    whether some worker takes its kind.
    """

    text: str = ""
    source: str = ""
    type: str = ""
    state: EventState | None = None
    since: datetime | None = None
    until: datetime | None = None
    handled: bool | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A statement that yields `id` and `known`, and its values."""

    sql: str
    values: dict[str, Any]


TOGETHER = "SELECT e.id, CAST('' AS text) AS known FROM ({parts}) AS e {newest} LIMIT :most"
ALL = "SELECT e.id FROM nottwice.events e WHERE {between}{bounds} {newest} LIMIT :most"
LIVING = """SELECT live.id FROM (
    WITH live AS MATERIALIZED (SELECT e.id FROM nottwice.events e WHERE e.state = '{state}'{kind} AND {between}{bounds})
    SELECT e.id FROM live e {newest} LIMIT :most) AS live"""
# A range of rows, not an equality: with one, the primary key could give the order too, and plans would hope.
DONE = """SELECT done.id FROM ({kinds}) AS k, LATERAL (
    SELECT e.id FROM nottwice.events e
    WHERE e.state = 'completed' AND (e.source, e.type, e.id) >= (k.source, k.type, CAST(:id_low AS bigint))
      AND (e.source, e.type, e.id) < (k.source, k.type, least(CAST(:id_high AS bigint), CAST(:after AS bigint))){bounds}
    ORDER BY e.source DESC, e.type DESC, e.id DESC LIMIT :most) AS done"""
ONE_KIND = "SELECT CAST(:source AS text) AS source, CAST(:type AS text) AS type"
KINDS = "SELECT e.source, e.type FROM nottwice.kinds_done() AS e WHERE true{kind}"

KNOWN = 'nottwice.known_as(e.type, e.event_key) COLLATE "C"'
BEGUN = """FROM nottwice.events e
    WHERE e.state = '{state}' AND ({known}, e.id) > (:low{n}, CAST(:low_id{n} AS bigint)) AND {known} < :high{n}"""
BY_KEY = """SELECT e.id, e.known FROM (
    SELECT e.id, e.source, e.type, e.event_key, e.accepted_at, {known} AS known {begun}
    ORDER BY {known}, e.id LIMIT :looked_at) AS e
WHERE (starts_with(e.event_key, :text) OR starts_with(e.event_key, e.type || ' ' || :text)){kind}{bounds}
ORDER BY e.known, e.id LIMIT :most"""
BY_ID = """SELECT e.id, CAST('' AS text) COLLATE "C" AS known FROM nottwice.events e
WHERE e.id = :id AND e.state IN ({states}){kind}{bounds}"""
IN_ORDER_OF_KEYS = (
    "SELECT id, min(known) AS known FROM ({parts}) AS e GROUP BY id ORDER BY known, id LIMIT :most"
)
CUT = "SELECT count(*) AS n FROM (SELECT {begun} LIMIT :looked_at + 1) AS begun"
BETWEEN = "e.id >= :id_low AND e.id < least(CAST(:id_high AS bigint), CAST(:after AS bigint))"
SINCE, UNTIL = " AND e.accepted_at >= :since", " AND e.accepted_at < :until"


def found(tx: Transaction, wanted: Filter, after: Place | None, most: int, *, newest: str = NEWEST) -> Found:
    """The first `most` events behind a place: the newest first, or by key where one is looked for.

    `newest` empty: in no order, for who only counts.
    """
    values: dict[str, Any] = {"most": most, "source": wanted.source, "type": wanted.type}
    values |= {"after": after[1] if after else ID_MAX, "looked_at": KEYS_LOOKED_AT_MAX} | _times(tx, wanted)
    words = {"kind": _kind(wanted), "newest": newest, "between": BETWEEN}
    words["bounds"] = (SINCE if wanted.since else "") + (UNTIL if wanted.until else "")
    if wanted.text:
        parts = _by_key(wanted, words, first=after is None)
        return Found(IN_ORDER_OF_KEYS.format(parts=_all_of(parts)), values | _key_values(wanted.text, after))
    return Found(TOGETHER.format(parts=_all_of(_parts(wanted, words)), newest=newest), values)


def is_cut(tx: Transaction, looked: Found) -> bool:
    """Whether more ended events have a key that begins so than are looked at."""
    begun = BEGUN.format(state=EventState.COMPLETED.value, known=KNOWN, n=0)
    return bool(tx.one(CUT.format(begun=begun), **looked.values).n > KEYS_LOOKED_AT_MAX)


def _parts(wanted: Filter, words: dict[str, str]) -> list[str]:
    if not (wanted.state or wanted.source or wanted.type):
        return [ALL.format(**words)]
    kinds = ONE_KIND if wanted.source and wanted.type else KINDS.format(**words)
    return [
        DONE.format(kinds=kinds, **words)
        if state is EventState.COMPLETED
        else LIVING.format(state=state.value, **words)
        for state in _states(wanted)
    ]


def _by_key(wanted: Filter, words: dict[str, str], *, first: bool) -> list[str]:
    parts = [
        BY_KEY.format(begun=BEGUN.format(state=state.value, known=KNOWN, n=n), known=KNOWN, **words)
        for state in _states(wanted)
        for n, _ in enumerate(_beginnings(wanted.text))
    ]
    if first and _as_id(wanted.text) is not None:
        states = ", ".join(f"'{state.value}'" for state in _states(wanted))
        parts.append(BY_ID.format(states=states, **words))
    return parts


def _all_of(parts: list[str]) -> str:
    return " UNION ALL ".join(f"({part})" for part in parts)


def _states(wanted: Filter) -> list[EventState]:
    return [wanted.state] if wanted.state else list(EventState)


def _kind(wanted: Filter) -> str:
    source = " AND e.source = :source" if wanted.source else ""
    return source + (" AND e.type = :type" if wanted.type else "") + _handled(wanted)


def _handled(wanted: Filter) -> str:
    if wanted.handled is None or wanted.state is not EventState.PENDING:
        return ""
    return f" AND {'' if wanted.handled else 'NOT '}{HANDLED}"


def _times(tx: Transaction, wanted: Filter) -> dict[str, Any]:
    """Times as ids, which every index here ends with, and the times themselves for the seconds at the edges."""
    row = tx.one(
        """SELECT CASE WHEN CAST(:since AS timestamptz) IS NULL THEN 0 ELSE nottwice.first_event_from(:since) END AS id_low,
                  CASE WHEN CAST(:until AS timestamptz) IS NULL THEN :most ELSE nottwice.first_event_from(:until) END AS id_high""",
        since=wanted.since and wanted.since - RUN_AT_ONCE,
        until=wanted.until and wanted.until + RUN_AT_ONCE,
        most=ID_MAX,
    )
    return {"id_low": row.id_low, "id_high": row.id_high, "since": wanted.since, "until": wanted.until}


def _key_values(text: str, after: Place | None) -> dict[str, Any]:
    """Where in the index each beginning starts, or goes on behind a place, and where it ends."""
    values: dict[str, Any] = {"text": text, "id": _as_id(text)}
    for n, begins in enumerate(_beginnings(text)):
        low = after if after and after[0] >= begins else (begins, -1)
        values |= {f"low{n}": low[0], f"low_id{n}": low[1], f"high{n}": begins + LAST_CHARACTER}
    return values


def _beginnings(text: str) -> list[str]:
    """How the key that is looked for begins in the index: as it was typed, or without the type ahead of it."""
    _, blank, rest = text.partition(" ")
    return [begins[:KEY_CHARACTERS_INDEXED] for begins in ([text, rest] if blank and rest else [text])]


def _as_id(text: str) -> int | None:
    digits = text.removeprefix("#")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= ID_DIGITS_MAX else None
