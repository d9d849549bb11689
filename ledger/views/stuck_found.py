"""Which work is stuck, as statements that yield its ids in order: four segments, of events and of sends.

Each goes through a small index of what lives, from where the last page ended. What has ended is never looked at, except
events that were set aside and, for a week, sends that were given up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from ledger.inbox.unhandled import HANDLED

Kind = Literal["event", "send"]
Segment = Literal["past", "aside", "unhandled", "waiting"]
SEGMENTS: tuple[Segment, ...] = ("past", "aside", "unhandled", "waiting")
AGEING = 1 / 3  # of a lease is left: the worker should have given a sign by then
GIVEN_UP_LISTED_S = 7 * 86_400.0
ID_MAX = 2**63 - 1
LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page ends: the time by which its segment is ordered, and what stands there. Events come before sends."""

    at: datetime
    kind: Kind
    id: int


@dataclass(frozen=True, slots=True)
class Filter:
    """Empty members let everything pass. A send's source is its provider, its type its kind."""

    source: str = ""
    type: str = ""


# The kinds of what is pending that some worker takes; all of them while no worker ever came.
TAKEN = "(SELECT * FROM nottwice.kinds_pending() EXCEPT SELECT * FROM nottwice.kinds_unhandled())"
# Each yields id and at. {of} is the filter, {after} the place.
EVENTS: dict[Segment, str] = {
    "past": """
SELECT e.id, e.lease_until AS at FROM nottwice.events e
WHERE e.state = 'processing' AND e.lease_until < now() + make_interval(secs => :ageing_s){of} AND (e.lease_until, e.id) > {after}
ORDER BY e.lease_until, e.id LIMIT :most""",
    "aside": """
SELECT e.id, e.ended_at AS at FROM nottwice.events e
WHERE e.state = 'failed'{of} AND (e.ended_at, e.id) > {after}
ORDER BY e.ended_at, e.id LIMIT :most""",
    "unhandled": """
SELECT p.id, p.at FROM nottwice.kinds_unhandled() AS k CROSS JOIN LATERAL (
    SELECT e.id, e.due_at AS at FROM nottwice.events e
    WHERE e.state = 'pending' AND e.namespace = k.namespace AND e.source = k.source AND e.type = k.type AND e.waits_behind = 0{of}
      AND (e.due_at, e.id) > {after}
    ORDER BY e.due_at, e.id LIMIT :most) AS p
ORDER BY p.at, p.id LIMIT :most""",
    # Due and not taken; due later, after a try, though accepted long ago; lined up behind another one of its order.
    "waiting": """
SELECT w.id, w.at FROM (
    (SELECT p.id, p.at FROM {taken} AS k CROSS JOIN LATERAL (
        SELECT e.id, e.due_at AS at FROM nottwice.events e
        WHERE e.state = 'pending' AND e.namespace = k.namespace AND e.source = k.source AND e.type = k.type AND e.waits_behind = 0{of}
          AND e.due_at < now() - make_interval(secs => :waiting_s) AND (e.due_at, e.id) > {after}
        ORDER BY e.due_at, e.id LIMIT :most) AS p)
    UNION ALL
    (SELECT e.id, e.due_at FROM nottwice.events e
     WHERE e.state = 'pending' AND e.last_error IS NOT NULL AND e.waits_behind = 0{of} AND {handled}
       AND e.due_at > now() AND e.accepted_at < now() - make_interval(secs => :waiting_s)
       AND (e.due_at, e.id) > {after}
     ORDER BY e.due_at, e.id LIMIT :most)
    UNION ALL
    (SELECT e.id, e.due_at FROM nottwice.events e
     WHERE e.waits_behind <> 0{of} AND e.due_at < now() - make_interval(secs => :waiting_s) AND (e.due_at, e.id) > {after}
     ORDER BY e.due_at, e.id LIMIT :most)) AS w(id, at)
ORDER BY w.at, w.id LIMIT :most""",
}
SENDS: dict[Segment, str] = {
    "past": """
SELECT a.id, a.lease_until AS at FROM nottwice.actions a
WHERE a.state = 'sending' AND a.lease_until < now() + make_interval(secs => :ageing_s){of} AND (a.lease_until, a.id) > {after}
ORDER BY a.lease_until, a.id LIMIT :most""",
    "aside": """
SELECT a.id, a.settled_at AS at FROM nottwice.actions a
WHERE a.state = 'failed' AND a.settled_at > now() - make_interval(secs => :given_up_s){of} AND (a.settled_at, a.id) > {after}
ORDER BY a.settled_at, a.id LIMIT :most""",
    "waiting": """
SELECT p.id, p.at FROM nottwice.accounts_that_wait() AS k(account) CROSS JOIN LATERAL (
    SELECT a.id, a.due_at AS at FROM nottwice.actions a
    WHERE a.state = 'approved' AND a.account = k.account{of}
      AND a.due_at < now() - make_interval(secs => :waiting_s) AND (a.due_at, a.id) > {after}
    ORDER BY a.due_at, a.id LIMIT :most) AS p
ORDER BY p.at, p.id LIMIT :most""",
}
OF: dict[Kind, tuple[str, str]] = {"event": ("e.source", "e.type"), "send": ("a.provider", "a.kind")}
AFTER = "(CAST(:at AS timestamptz), CAST(:id AS bigint))"
COUNTED = "(SELECT count(*) FROM ({}) AS f) AS {}_{}"
ORDER = re.compile(r"ORDER BY \S+, \S+ ")


def found(kind: Kind, segment: Segment, wanted: Filter) -> str:
    """The statement of one segment; "" where nothing of the kind is in it."""
    sql = (EVENTS if kind == "event" else SENDS).get(segment, "")
    source, type_ = OF[kind]
    of = f" AND {source} = :source" if wanted.source else ""
    return sql.format(
        handled=HANDLED, taken=TAKEN, of=of + (f" AND {type_} = :type" if wanted.type else ""), after=AFTER
    )


def counts(wanted: Filter) -> str:
    """How many are in each segment, as columns `event_past`, `send_aside` …; none beyond `:most`.

    Without an order, so that counting ends there: for the first of a union in order, all of it is read up to `:most` each.
    """
    each = ((kind, segment, found(kind, segment, wanted)) for kind in OF for segment in SEGMENTS)
    return ",\n".join(COUNTED.format(ORDER.sub("", sql), kind, segment) for kind, segment, sql in each if sql)


def values(
    kind: Kind, wanted: Filter, after: Place | None, most: int, *, lease_s: float, waiting_s: float
) -> dict[str, Any]:
    """What the statement is told. A place is a row of one kind; of the other kind all of that instant come before, or after."""
    at, id_ = (after.at, after.id) if after else (LONG_AGO, 0)
    if after and after.kind != kind:
        id_ = ID_MAX if kind == "event" else 0
    return {
        "at": at,
        "id": id_,
        "most": most,
        "source": wanted.source,
        "type": wanted.type,
        "ageing_s": lease_s * AGEING,
        "waiting_s": waiting_s,
        "given_up_s": GIVEN_UP_LISTED_S,
    }
