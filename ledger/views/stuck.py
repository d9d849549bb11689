"""What is stuck, why nobody has taken it, and what would free it: all that the Stuck work page says, as facts.

Works under any person's database role; no body, no recipient and no token is read. Which rows: `stuck_found`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.accounts import pauses, restored
from ledger.database import Transaction
from ledger.database.rows import made
from ledger.views.stuck_found import SEGMENTS, Filter, Place, Segment, counts, found, values
from ledger.views.stuck_rows import (
    COUNTED_MAX,
    ByHand,
    Failure,
    Limits,
    Page,
    Row,
    Sizes,
    StuckEvent,
    StuckSend,
    Surroundings,
    Takers,
)

ERRORS_MAX = 20
EVERYTHING = Filter()


EVENT_ROWS = """
WITH found AS MATERIALIZED ({found})
SELECT e.id, e.version, e.state, e.mode, e.namespace, e.source, e.type, e.event_key, e.accepted_at, e.attempts, e.attempts_max, e.alone,
       e.claimed_at, e.lease_until, e.due_at, e.ended_at, coalesce(e.last_error, '') AS last_error, e.waits_behind,
       coalesce(ahead.event_key, '') AS ahead_key, coalesce(ahead.state, '') AS ahead_state,
       coalesce(w.name, '') AS worker, w.seen_at AS worker_seen_at, f.at, now() AS now
FROM found f JOIN nottwice.events e ON e.id = f.id
LEFT JOIN nottwice.workers w ON w.id = e.claimed_by
LEFT JOIN nottwice.events ahead ON ahead.id = e.waits_behind AND e.waits_behind <> 0
ORDER BY f.at, e.id
"""
SEND_ROWS = """
WITH found AS MATERIALIZED ({found})
SELECT a.id, a.version, a.state, a.kind, a.about, a.provider, a.account, a.event_id, a.content_digest, a.created_at, a.attempts,
       a.lease_until, a.due_at, a.retry_until, a.settled_at, coalesce(t.reason, '') AS last_error,
       t.id IS NOT NULL AND t.answered_at IS NULL AND t.abandoned_at IS NULL AS started,
       coalesce(w.name, '') AS worker, w.seen_at AS worker_seen_at, f.at, now() AS now
FROM found f JOIN nottwice.actions a ON a.id = f.id
LEFT JOIN nottwice.workers w ON w.id = a.claimed_by
LEFT JOIN LATERAL (SELECT s.id, s.reason, s.answered_at, s.abandoned_at FROM nottwice.action_attempts s
                   WHERE s.action_id = a.id ORDER BY s.id DESC LIMIT 1) AS t ON true
ORDER BY f.at, a.id
"""
# With the statistics of a table that was still empty, a planner would rather read it whole than ten thousand entries.
BY_INDEX = "SELECT set_config('enable_seqscan', 'off', true)"
ONE = "SELECT e.id, e.accepted_at AS at FROM nottwice.events e WHERE e.id = :id"
# Of those that are close to the end of their lease, how many have outlived it.
SIZES = """
SELECT {counts},
       (SELECT count(*) FROM (SELECT FROM nottwice.events WHERE state = 'processing' AND lease_until < now() LIMIT :most) AS e)
     + (SELECT count(*) FROM (SELECT FROM nottwice.actions WHERE state = 'sending' AND lease_until < now() LIMIT :most) AS s) AS expired
"""
TAKERS = """
SELECT h.pair, bool_or(w.stopped_at IS NULL AND w.seen_at > now() - make_interval(secs => :silent_s)) AS running,
       (array_agg(w.name ORDER BY coalesce(w.stopped_at, w.seen_at) DESC))[1] AS last, max(coalesce(w.stopped_at, w.seen_at)) AS last_at
FROM nottwice.workers w, unnest(w.handles) AS h(pair)
WHERE w.kind = 'worker' AND h.pair = ANY (CAST(:pairs AS text[])) GROUP BY h.pair
"""
AROUND = """
SELECT now() AS now, (SELECT resume_at FROM nottwice.maintenance WHERE duty = 'sweep') AS resume_at,
       (SELECT count(*) FROM nottwice.workers WHERE kind = 'worker' AND stopped_at IS NULL
          AND seen_at > now() - make_interval(secs => :silent_s)) AS running
"""
BY_HAND = """
SELECT DISTINCT ON (a.entity_id) a.entity_id, a.act, a.at, a.why, a.entity_version, p.name
FROM nottwice.audit a JOIN nottwice.people p ON p.id = a.person_id
WHERE a.entity = 'event' AND a.entity_id = ANY (CAST(:ids AS bigint[])) AND a.outcome = 'done' AND a.entity_version IS NOT NULL
ORDER BY a.entity_id, a.id DESC
"""


def sizes(tx: Transaction, limits: Limits, wanted: Filter = EVERYTHING) -> Sizes:
    """How much is stuck, in one statement. Counts nothing beyond COUNTED_MAX."""
    tx.execute(BY_INDEX)
    told = values("event", wanted, None, COUNTED_MAX + 1, lease_s=limits.lease_s, waiting_s=limits.waiting_s)
    n = tx.one(SIZES.format(counts=counts(wanted)), **told)._asdict()
    both = {segment: n[f"event_{segment}"] + n.get(f"send_{segment}", 0) for segment in SEGMENTS}
    return Sizes(
        **{segment: min(COUNTED_MAX + 1, of_it) for segment, of_it in both.items()},
        expired=min(COUNTED_MAX + 1, n["expired"]),
        given_up=n["send_aside"],
    )


def page(
    tx: Transaction,
    segment: Segment,
    limits: Limits,
    wanted: Filter = EVERYTHING,
    *,
    after: Place | None = None,
    most: int = 25,
) -> Page:
    """The next rows of a segment, what has waited longest first."""
    tx.execute(BY_INDEX)
    rows: list[Row] = [*_events(tx, segment, wanted, after, most + 1, limits)]
    rows += _sends(tx, segment, wanted, after, most + 1, limits)
    ordered = sorted(rows, key=lambda row: (row.place.at, row.place.kind, row.id))
    return Page(tuple(ordered[:most]), len(ordered) > most, around(tx, limits))


def one_event(tx: Transaction, event_id: int, limits: Limits) -> tuple[StuckEvent, Surroundings] | None:
    """One event as it stands now, stuck or not."""
    rows = tx.all(EVENT_ROWS.format(found=ONE), id=event_id)
    told = _told(tx, rows, limits)
    return (told[0], around(tx, limits)) if told else None


def failures(tx: Transaction, event_id: int) -> list[Failure]:
    """Its tries, the newest first, at most ERRORS_MAX."""
    rows = tx.all(
        """SELECT a.attempt, a.ending, coalesce(w.name, '') AS worker, a.claimed_at, a.ended_at, coalesce(a.error, '') AS error
           FROM nottwice.event_attempts a LEFT JOIN nottwice.workers w ON w.id = a.worker
           WHERE a.event_id = :id ORDER BY a.id DESC LIMIT :most""",
        id=event_id,
        most=ERRORS_MAX,
    )
    return [made(Failure, row) for row in rows]


def around(tx: Transaction, limits: Limits) -> Surroundings:
    row = tx.one(AROUND, silent_s=limits.silent_s)
    held = {pause.account: pause for pause in pauses.standing(tx)}
    return Surroundings(row.now, row.running, row.resume_at, restored.why_held(tx), held)


def _events(
    tx: Transaction, segment: Segment, wanted: Filter, after: Place | None, most: int, limits: Limits
) -> list[StuckEvent]:
    told = values("event", wanted, after, most, lease_s=limits.lease_s, waiting_s=limits.waiting_s)
    return _told(tx, tx.all(EVENT_ROWS.format(found=found("event", segment, wanted)), **told), limits)


def _told(tx: Transaction, rows: Sequence[Any], limits: Limits) -> list[StuckEvent]:
    """With who would take each, and who set it aside."""
    takers = _takers(tx, {f"{row.source} {row.type}" for row in rows if row.state == "pending"}, limits)
    aside = [row.id for row in rows if row.state == "failed"]
    hands = {row.entity_id: row for row in tx.all(BY_HAND, ids=aside)} if aside else {}
    return [
        made(
            StuckEvent,
            row,
            place=Place(row.at, "event", row.id),
            takers=takers.get(f"{row.source} {row.type}"),
            by_hand=_by_hand(hands.get(row.id), row.version),
        )
        for row in rows
    ]


def _takers(tx: Transaction, pairs: set[str], limits: Limits) -> dict[str, Takers]:
    rows = tx.all(TAKERS, pairs=list(pairs), silent_s=limits.silent_s) if pairs else []
    return {row.pair: made(Takers, row) for row in rows}


def _by_hand(last: Any, version: int) -> ByHand | None:
    """A person's last act, where it is what brought the event here."""
    if last is None or last.act != "set aside" or last.entity_version != version:
        return None
    return ByHand(last.name, last.at, last.why)


def _sends(
    tx: Transaction, segment: Segment, wanted: Filter, after: Place | None, most: int, limits: Limits
) -> list[StuckSend]:
    sql = found("send", segment, wanted)
    told = values("send", wanted, after, most, lease_s=limits.lease_s, waiting_s=limits.waiting_s)
    rows = tx.all(SEND_ROWS.format(found=sql), **told) if sql else []
    return [
        made(StuckSend, row, place=Place(row.at, "send", row.id), content_digest=bytes(row.content_digest))
        for row in rows
    ]
