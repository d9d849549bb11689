"""What monitoring asks: `nottwice status --json`. The contract of the members is in the reference.

One statement, so that the numbers are of one moment. Nothing in it grows with history but the count of settled
actions, which reads one small index: live states are counted over partial indexes, completed events are what was
accepted less what still lives.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ledger.accounts import pauses, restored
from ledger.awake import as_viewer, visit
from ledger.database import Transaction
from ledger.evidence.notices import What
from ledger.retention import walk as retention_walk
from ledger.settings import Settings
from ledger.states import ActionState, EventState

WORKER_SILENT_S = 60.0


def read(settings: Settings) -> dict[str, Any]:
    """Of the database that `settings` name, under the login they give. An embedded server that slept sleeps again.

    Raises Unavailable, or Misconfigured when there is no ledger or this login may not read it.
    """
    with visit(settings) as database, database.transaction() as tx:
        as_viewer(tx)
        found = status(tx, worker_silent_s=settings.alerts.worker_silent_s)
        held = restored.held(tx)
        found |= {"held": held.why if held else None, "paused": [one.account for one in pauses.standing(tx)]}
        return found | {"unpruned_s": round(retention_walk.late_s(tx, settings.retention), 3)}


def status(tx: Transaction, *, worker_silent_s: float = WORKER_SILENT_S) -> dict[str, Any]:
    """The numbers of this moment. Durations are seconds; 0 when nothing waits. `refused` is of the last hour, by reason.

    An action that is *sent* was accepted by its provider; what became of it since is in `messages`, by where each stands.
    """
    row = tx.one(SQL, silent=worker_silent_s)
    events = {name: getattr(row, name) for name in ("pending", "processing", "failed")}
    events["completed"] = row.accepted - sum(events.values())
    return _alive(row) | {
        "events": {state.value: events[state] for state in EventState},
        "actions": _by_state(row),
        "duplicates": row.duplicates,
        "refused": row.refused or {},
        "messages": dict.fromkeys((what.value for what in What), 0) | (row.messages or {}),
        "endpoints": {
            "on": row.endpoints_on,
            "off": row.endpoints_off,
            "unanswered": row.endpoints_unanswered,
        },
    }


def alive(
    tx: Transaction, *, worker_silent_s: float = WORKER_SILENT_S, kinds: str | None = None
) -> dict[str, Any]:
    """Those of `status` that do not grow with history: what waits, is in hand or needs somebody, and who works.

    Under `events` and `actions` stand live states alone. `kinds` is what a snapshot has just counted of what waits.
    """
    row = (
        tx.one(ALIVE, silent=worker_silent_s)
        if kinds is None
        else tx.one(COUNTED, silent=worker_silent_s, kinds=kinds)
    )
    events = {name: getattr(row, name) for name in ("pending", "processing", "failed")}
    return _alive(row) | {"events": events, "actions": _by_state(row)}


def _by_state(row: sa.Row[Any]) -> dict[str, int]:
    return dict.fromkeys((state.value for state in ActionState), 0) | (row.actions or {})


def _alive(row: sa.Row[Any]) -> dict[str, Any]:
    """Keys in the order in which `nottwice status --json` has them; `status` fills what is still None."""
    return {
        "events": None,
        "actions": None,
        "oldest_pending_s": round(row.oldest_pending_s, 3),
        "expired_leases": row.expired_leases,
        "unhandled": row.unhandled,
        "duplicates": None,
        "conflicts": row.conflicts,
        "quarantined": row.quarantined,
        "workers": row.workers,
        "receivers": row.receivers,
    }


# The types that some worker has (or had) a handler for; while no worker ever came, every type counts as handled, so
# that work which waits for the first worker is seen to wait. Pending rows are counted by namespace, source and type
# through events_pending.
WITH_ALIVE = """
WITH handled AS (
    SELECT DISTINCT unnest(handles) AS pair FROM nottwice.workers WHERE kind = 'worker'
), pending AS (
    SELECT source || ' ' || type AS pair, n, due_at FROM {pending}
), judged AS (
    SELECT n, due_at, NOT EXISTS (SELECT FROM nottwice.workers WHERE kind = 'worker')
           OR EXISTS (SELECT FROM handled h WHERE h.pair = p.pair) AS handled
    FROM pending p
), alive AS (  -- one that was killed and started again is one
    SELECT kind, count(*) AS n FROM nottwice.workers w
    WHERE stopped_at IS NULL AND seen_at > now() - make_interval(secs => :silent)
      AND NOT EXISTS (SELECT FROM nottwice.workers n WHERE n.kind = w.kind AND n.name = w.name AND n.host = w.host
                                                       AND n.started_at > w.seen_at)
    GROUP BY kind
), live_states AS (
    SELECT 'proposed' AS state, count(*) AS n FROM nottwice.actions WHERE state = 'proposed'
    UNION ALL SELECT 'approved', count(*) FROM nottwice.actions WHERE state = 'approved'
    UNION ALL SELECT 'sending', count(*) FROM nottwice.actions WHERE state = 'sending'
    UNION ALL SELECT 'needs_review', count(*) FROM nottwice.actions WHERE state = 'needs_review'
)"""
OF_THE_LIVING = """
    coalesce((SELECT sum(n) FROM judged), 0)::bigint AS pending,
    (SELECT count(*) FROM nottwice.events WHERE state = 'processing') AS processing,
    (SELECT count(*) FROM nottwice.events WHERE state = 'failed') AS failed,
    (SELECT json_object_agg(state, n) FROM states) AS actions,
    coalesce(greatest(extract(epoch FROM now() - (SELECT min(due_at) FROM judged WHERE handled)), 0), 0)::float8
        AS oldest_pending_s,
    (SELECT count(*) FROM nottwice.events WHERE state = 'processing' AND lease_until < now())
        + (SELECT count(*) FROM nottwice.actions WHERE state = 'sending' AND lease_until < now()) AS expired_leases,
    coalesce((SELECT sum(n) FROM judged WHERE NOT handled), 0)::bigint AS unhandled,
    (SELECT count(*) FROM nottwice.conflicts WHERE acknowledged_at IS NULL) AS conflicts,
    (SELECT count(*) FROM nottwice.quarantine WHERE settled_at IS NULL) AS quarantined,
    coalesce((SELECT n FROM alive WHERE kind = 'worker'), 0) AS workers,
    coalesce((SELECT n FROM alive WHERE kind = 'receiver'), 0) AS receivers"""
ONLY_ALIVE = "{alive}, states AS (SELECT * FROM live_states)\nSELECT {of_the_living}"
ALL = """
{alive}, minutes AS (
    SELECT metric, sum(n) AS n FROM nottwice.counters WHERE metric IN ('accepted', 'duplicate') GROUP BY metric
    UNION ALL
    SELECT metric, sum(n) FROM nottwice.counters_hourly WHERE metric IN ('accepted', 'duplicate') GROUP BY metric
), states AS (
    SELECT state, count(*) AS n FROM nottwice.actions WHERE settled_at IS NOT NULL GROUP BY state
    UNION ALL SELECT * FROM live_states
)
SELECT {of_the_living},
    coalesce((SELECT sum(n) FROM minutes WHERE metric = 'accepted'), 0)::bigint AS accepted,
    coalesce((SELECT sum(n) FROM minutes WHERE metric = 'duplicate'), 0)::bigint AS duplicates,
    (SELECT json_object_agg(standing, n) FROM (SELECT standing, count(*) AS n FROM nottwice.messages
                                               WHERE standing IS NOT NULL AND action_id IS NOT NULL GROUP BY standing) AS m) AS messages,
    (SELECT count(*) FROM nottwice.endpoints WHERE state = 'enabled') AS endpoints_on,
    (SELECT count(*) FROM nottwice.endpoints WHERE state <> 'enabled') AS endpoints_off,
    (SELECT count(*) FROM nottwice.endpoint_polls WHERE unanswered_since IS NOT NULL) AS endpoints_unanswered,
    (SELECT json_object_agg(reason, n) FROM (SELECT reason, sum(n) AS n FROM nottwice.refusals
                                             WHERE minute > now() - interval '1 hour' GROUP BY reason) AS r) AS refused
"""
PENDING = "nottwice.pending_kinds()"
GIVEN = "json_to_recordset(CAST(:kinds AS json)) AS k(source text, type text, n bigint, due_at timestamptz)"
ALIVE, COUNTED, SQL = (
    sql.format(alive=WITH_ALIVE.format(pending=pending), of_the_living=OF_THE_LIVING)
    for sql, pending in ((ONLY_ALIVE, PENDING), (ONLY_ALIVE, GIVEN), (ALL, PENDING))
)
