"""Everything that is looked at, read once: what is found and what the Health page says come from the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger import accounts
from ledger.accounts import endpoints, pauses, restored
from ledger.audit import memory as audit_memory
from ledger.awake import as_viewer
from ledger.check import strain
from ledger.database import Transaction
from ledger.figures import refusals, samples
from ledger.retention import DUTY as PRUNING
from ledger.retention import walk as retention_walk
from ledger.settings import AlertSettings, Settings
from ledger.verdict import IN_FLIGHT_MAX
from ledger.views import status

SILENT_NAMED_S = 600.0  # a process that is silent for longer is history


@dataclass(frozen=True, slots=True)
class Process:
    kind: str
    name: str
    host: str
    silent_s: float
    refused_s: float | None  # since when it goes on with a configuration of before


@dataclass(frozen=True, slots=True)
class CatchUp:
    """One that is under way, was stopped or has ended: its source, what it did, and since when it did nothing more."""

    source: str
    counts: Mapping[str, int]
    saved_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """One moment. `unserved` and `overdue` are asked by a configuration; without one they are empty."""

    counts: Mapping[str, Any]
    waits: Mapping[str, float]
    held: restored.Held | None
    busy_keys: int
    busy_provider: str
    processes: Sequence[Process]
    pauses: Sequence[pauses.Pause]
    endpoints_off: Sequence[endpoints.Off]
    watched: Sequence[endpoints.Watched]
    refused: Sequence[refusals.Refused]
    last_check: audit_memory.Check | None
    pruned_at: datetime | None
    catch_ups: Sequence[CatchUp]  # that have not ended
    caught_up: CatchUp | None  # the last that has
    transaction: strain.OldestTransaction
    dead_rows: strain.DeadRows
    clock: strain.Clock | None
    growth: samples.Growth | None
    unserved: Sequence[accounts.Unserved] = ()
    overdue: retention_walk.Overdue | None = None


# Live rows alone, each over its partial index.
WAITS = """
WITH over AS (
    SELECT lease_until FROM nottwice.events WHERE state = 'processing' AND lease_until < now() - make_interval(secs => :lease_over_s)
    UNION ALL
    SELECT lease_until FROM nottwice.actions WHERE state = 'sending' AND lease_until < now() - make_interval(secs => :lease_over_s))
SELECT (SELECT count(*) FROM over) AS leases, nottwice.seconds_since((SELECT min(lease_until) FROM over)) AS lease_s,
       nottwice.seconds_since((SELECT min(due_at) FROM nottwice.actions WHERE state = 'approved')) AS send_s,
       nottwice.seconds_since((SELECT min(review_since) FROM nottwice.actions WHERE state = 'needs_review')) AS review_s,
       nottwice.seconds_since((SELECT min(created_at) FROM nottwice.actions WHERE state = 'proposed')) AS proposed_s,
       (SELECT count(*) FROM nottwice.reprocess_runs WHERE state = 'waiting' AND expires_at > now()) AS runs,
       nottwice.seconds_since(
           (SELECT min(requested_at) FROM nottwice.reprocess_runs WHERE state = 'waiting' AND expires_at > now())) AS runs_s,
       (SELECT count(*) FROM nottwice.audit_unsealed) AS unsealed,
       nottwice.seconds_since((SELECT min(since) FROM nottwice.audit_unsealed)) AS unsealed_s
"""
# One that was started again under its name is not missed, and one that ended in order is not either.
PROCESSES = """
SELECT w.kind, w.name, w.host, nottwice.seconds_since(w.seen_at) AS silent_s,
       CASE WHEN w.refused_at IS NOT NULL THEN nottwice.seconds_since(w.refused_at) END AS refused_s
FROM nottwice.workers w
WHERE w.kind IN ('worker', 'receiver') AND w.stopped_at IS NULL AND w.seen_at > now() - make_interval(secs => :named_s)
  AND NOT EXISTS (SELECT FROM nottwice.workers n
                  WHERE n.kind = w.kind AND n.name = w.name AND n.host = w.host AND n.started_at > w.started_at)
ORDER BY w.kind, w.seen_at
"""
# Of busy keys, so of no great number; then those among them that wait for people.
ALARMS = """
SELECT count(*) AS n, coalesce(min(a.provider), '') AS provider
FROM (SELECT action_id FROM nottwice.action_attempts WHERE outcome = 'in_flight' GROUP BY action_id
      HAVING count(*) >= :most OR bool_or(other_content)) AS busy
JOIN nottwice.actions a ON a.id = busy.action_id WHERE a.state = 'needs_review'
"""
CATCH_UPS = """
SELECT source, counts, nottwice.seconds_since(saved_at) AS saved_s FROM nottwice.catch_ups
WHERE ended_at IS NULL ORDER BY started_at LIMIT 20
"""
CAUGHT_UP = """
SELECT source, counts, nottwice.seconds_since(ended_at) AS saved_s FROM nottwice.catch_ups
WHERE ended_at IS NOT NULL ORDER BY id DESC LIMIT 1
"""


def see(
    tx: Transaction, limits: AlertSettings, settings: Settings | None = None, kinds: str | None = None
) -> Seen:
    """Reads with a viewer's rights from here on. With `settings`, also what only a configuration can be asked.

    `kinds` is what a snapshot has just counted of what waits, so that a great backlog is not counted twice.
    """
    as_viewer(tx)
    known = tx.all(PROCESSES, named_s=max(SILENT_NAMED_S, 10 * limits.worker_silent_s))
    alarms = tx.one(ALARMS, most=IN_FLIGHT_MAX)
    caught_up = tx.first(CAUGHT_UP)
    pruned = tx.first("SELECT last_at FROM nottwice.maintenance WHERE duty = :duty", duty=PRUNING)
    return Seen(
        counts=status.alive(tx, worker_silent_s=limits.worker_silent_s, kinds=kinds),
        waits=tx.one(WAITS, lease_over_s=limits.lease_over_s)._asdict(),
        held=restored.held(tx),
        busy_keys=alarms.n,
        busy_provider=alarms.provider,
        processes=[Process(**one._asdict()) for one in known],
        pauses=pauses.standing(tx),
        endpoints_off=endpoints.off(tx),
        watched=endpoints.watched(tx),
        refused=[one for one in refusals.lately(tx, minutes=60) if one.source],
        last_check=audit_memory.last_check(tx),
        pruned_at=pruned.last_at if pruned else None,
        catch_ups=[CatchUp(**one._asdict()) for one in tx.all(CATCH_UPS)],
        caught_up=CatchUp(**caught_up._asdict()) if caught_up else None,
        transaction=strain.oldest_transaction(tx),
        dead_rows=strain.dead_rows(tx),
        clock=strain.clocks(tx, limits.worker_silent_s),
        growth=samples.day(tx),
        unserved=_unserved(tx, settings),
        overdue=_overdue(tx, settings),  # last: it makes this transaction read in the order of indexes
    )


def _unserved(tx: Transaction, settings: Settings | None) -> Sequence[accounts.Unserved]:
    """By the configuration of whoever asks: workers with another one may serve them."""
    if settings is None:
        return ()
    return accounts.unserved(tx, [settings.account_of(name) for name in settings.providers])


def _overdue(tx: Transaction, settings: Settings | None) -> retention_walk.Overdue | None:
    if settings is None:
        return None
    return max(retention_walk.overdue(tx, settings.retention), key=lambda one: one.late_s, default=None)
