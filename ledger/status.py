"""What monitoring asks: `nottwice status --json`. The contract of the members is in the reference.

One statement, so that the numbers are of one moment. Nothing in it grows with history but the count of settled
actions, which reads one small index: live states are counted over partial indexes, completed events are what was
accepted less what still lives.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy.exc import ProgrammingError

from ledger.database import Transaction, sqlstate
from ledger.embedded import Cluster
from ledger.errors import Misconfigured, Unavailable, WrongSchema
from ledger.schema import MISSING
from ledger.settings import Settings
from ledger.states import ActionState, EventState

WORKER_SILENT_S = 60.0
NOT_ALLOWED = "42501"


def read(settings: Settings) -> dict[str, Any]:
    """Of the database that `settings` name, under the login they give. An embedded server that slept sleeps again.

    Raises Unavailable, or Misconfigured when there is no ledger or this login may not read it.
    """
    with _awake(settings), closing(settings.open_database("console", pool_size=1)) as database:
        try:
            with database.transaction() as tx:
                if tx.one("SELECT pg_has_role('nottwice_viewer', 'MEMBER')")[0]:
                    tx.execute("SET LOCAL ROLE nottwice_viewer")
                return status(tx, worker_silent_s=settings.alerts.worker_silent_s)
        except ProgrammingError as error:
            if sqlstate(error) in MISSING:
                raise WrongSchema(
                    "There is no ledger in the database yet. Run `nottwice migrate` as its owner."
                ) from None
            if sqlstate(error) == NOT_ALLOWED:
                raise Misconfigured(
                    "This DATABASE_URL's login may not read the ledger. Use the worker's, the console's or the owner's."
                ) from None
            raise


@contextmanager
def _awake(settings: Settings) -> Iterator[None]:
    """Stops an embedded server that only we woke, unless somebody else came meanwhile."""
    cluster = None if settings.database_url else Cluster(settings.home)
    before = cluster.status if cluster else "running"
    if before == "absent":
        raise Unavailable(f"There is no ledger in {settings.home} yet. Start one with `nottwice up`.")
    try:
        yield
    finally:
        if cluster and before == "stopped" and not _others(settings):
            cluster.stop()


def _others(settings: Settings) -> int:
    with closing(settings.open_database("owner", pool_size=1)) as database, database.transaction() as tx:
        found = tx.one(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
    return int(found[0])


def status(tx: Transaction, *, worker_silent_s: float = WORKER_SILENT_S) -> dict[str, Any]:
    """The numbers of this moment. Durations are seconds; 0 when nothing waits."""
    row = tx.one(SQL, silent=worker_silent_s)
    live = {
        EventState.PENDING: row.pending,
        EventState.PROCESSING: row.processing,
        EventState.FAILED: row.failed,
    }
    events = live | {EventState.COMPLETED: row.accepted - sum(live.values())}
    actions = dict.fromkeys(ActionState, 0) | {
        ActionState(state): n for state, n in (row.actions or {}).items()
    }
    return {
        "events": {state.value: events[state] for state in EventState},
        "actions": {state.value: n for state, n in actions.items()},
        "oldest_pending_s": round(row.oldest_pending_s, 3),
        "expired_leases": row.expired_leases,
        "unhandled": row.unhandled,
        "duplicates": row.duplicates,
        "conflicts": row.conflicts,
        "quarantined": row.quarantined,
        "workers": row.workers,
    }


# The types that some worker has (or had) a handler for; while no worker ever came, every type counts as handled, so
# that work which waits for the first worker is seen to wait. Pending rows are counted by namespace, source and type
# through events_pending.
SQL = """
WITH handled AS (
    SELECT DISTINCT unnest(handles) AS pair FROM nottwice.workers WHERE kind = 'worker'
), pending AS (
    SELECT source || ' ' || type AS pair, count(*) AS n, min(due_at) AS due_at
    FROM nottwice.events WHERE state = 'pending' GROUP BY source, type
), judged AS (
    SELECT n, due_at, NOT EXISTS (SELECT FROM handled) OR EXISTS (SELECT FROM handled h WHERE h.pair = p.pair) AS handled
    FROM pending p
), minutes AS (
    SELECT metric, sum(n) AS n FROM nottwice.counters WHERE metric IN ('accepted', 'duplicate') GROUP BY metric
    UNION ALL
    SELECT metric, sum(n) FROM nottwice.counters_hourly WHERE metric IN ('accepted', 'duplicate') GROUP BY metric
), states AS (
    SELECT state, count(*) AS n FROM nottwice.actions WHERE settled_at IS NOT NULL GROUP BY state
    UNION ALL SELECT 'proposed', count(*) FROM nottwice.actions WHERE state = 'proposed'
    UNION ALL SELECT 'approved', count(*) FROM nottwice.actions WHERE state = 'approved'
    UNION ALL SELECT 'sending', count(*) FROM nottwice.actions WHERE state = 'sending'
    UNION ALL SELECT 'needs_review', count(*) FROM nottwice.actions WHERE state = 'needs_review'
)
SELECT
    coalesce((SELECT sum(n) FROM judged), 0)::bigint AS pending,
    (SELECT count(*) FROM nottwice.events WHERE state = 'processing') AS processing,
    (SELECT count(*) FROM nottwice.events WHERE state = 'failed') AS failed,
    coalesce((SELECT sum(n) FROM minutes WHERE metric = 'accepted'), 0)::bigint AS accepted,
    coalesce((SELECT sum(n) FROM minutes WHERE metric = 'duplicate'), 0)::bigint AS duplicates,
    (SELECT json_object_agg(state, n) FROM states) AS actions,
    coalesce(greatest(extract(epoch FROM now() - (SELECT min(due_at) FROM judged WHERE handled)), 0), 0)::float8
        AS oldest_pending_s,
    (SELECT count(*) FROM nottwice.events WHERE state = 'processing' AND lease_until < now())
        + (SELECT count(*) FROM nottwice.actions WHERE state = 'sending' AND lease_until < now()) AS expired_leases,
    coalesce((SELECT sum(n) FROM judged WHERE NOT handled), 0)::bigint AS unhandled,
    (SELECT count(*) FROM nottwice.conflicts WHERE acknowledged_at IS NULL) AS conflicts,
    (SELECT count(*) FROM nottwice.quarantine WHERE settled_at IS NULL) AS quarantined,
    (SELECT count(*) FROM nottwice.workers
     WHERE kind = 'worker' AND stopped_at IS NULL AND seen_at > now() - make_interval(secs => :silent)) AS workers
"""
