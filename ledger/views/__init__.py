"""What the Overview reads. Works under any person's database role; no recipient, no body, no token in it.

No query's cost grows with history: live rows are counted over partial indexes, finished ones through the counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ledger.accounts import endpoints, pauses, restored
from ledger.database import Transaction
from ledger.figures import refusals
from ledger.figures.refusals import Refused
from ledger.views.kept import COUNTED_MAX

LEASES_MAX = 200
UNKNOWN_S = 3600.0
SILENT_NAMED_S = 600.0  # a worker that is silent for longer is history


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment, for everybody who looks. Ages are seconds, 0 when nothing waits.

    `conflicts` that nobody has seen and what is `quarantined` are counted up to COUNTED_MAX + 1; `done_lately` is what
    was completed in this minute and the one before.
    `silent` names workers that gave no sign and were not started again, with their silence in seconds;
    `last_sign_s` is None when no worker was ever here. `held` says why nothing at all is sent. `kinds` is what `pending`
    was counted from, for `status.alive`: of a great backlog the count is most of what a reading costs.
    """

    at: datetime
    any_event: bool
    pending: int
    processing: int
    failed: int
    unhandled: int
    conflicts: int
    quarantined: int
    done_lately: int
    oldest_pending_s: float
    oldest_claim_s: float
    expired_leases: int
    proposed: int
    approved: int
    sending: int
    needs_review: int
    oldest_review_s: float
    workers: int
    last_sign_s: float | None
    silent: tuple[tuple[str, float], ...] = ()
    endpoints_off: tuple[endpoints.Off, ...] = ()
    endpoints_unknown: tuple[endpoints.Watched, ...] = ()
    paused: tuple[pauses.Pause, ...] = ()
    held: str = ""
    kinds: str | None = None

    @property
    def stuck(self) -> int:
        """Pieces of work that no worker will finish without something changing."""
        return self.failed + self.unhandled + self.expired_leases

    @property
    def moving(self) -> bool:
        """Something was done a moment ago, or somebody is at it."""
        return bool(self.done_lately or self.sending or self.processing > self.expired_leases)

    @property
    def for_people(self) -> int:
        """Sends that wait for a person: uncertain ones and those to approve."""
        return self.needs_review + self.proposed


# While no worker ever came, every type counts as handled: that work waits for the first worker. One that was killed
# and started again under its name is one worker, not two: the old row gave no sign after the new one's start.
SNAPSHOT = """
WITH handled AS (SELECT DISTINCT unnest(handles) AS pair FROM nottwice.workers WHERE kind = 'worker'),
pending AS (
    SELECT source, type, n, due_at, NOT EXISTS (SELECT FROM nottwice.workers WHERE kind = 'worker')
           OR EXISTS (SELECT FROM handled h WHERE h.pair = p.source || ' ' || p.type) AS handled
    FROM nottwice.pending_kinds() AS p),
claims AS (
    SELECT count(*) AS n, count(*) FILTER (WHERE lease_until < now()) AS expired, min(claimed_at) AS oldest
    FROM nottwice.events WHERE state = 'processing'),
actions AS (
    SELECT (SELECT count(*) FROM nottwice.actions WHERE state = 'proposed') AS proposed,
           (SELECT count(*) FROM nottwice.actions WHERE state = 'approved') AS approved,
           (SELECT count(*) FROM nottwice.actions WHERE state = 'sending') AS sending,
           (SELECT count(*) FROM nottwice.actions WHERE state = 'needs_review') AS needs_review,
           least((SELECT min(review_since) FROM nottwice.actions WHERE state = 'needs_review'),
                 (SELECT min(created_at) FROM nottwice.actions WHERE state = 'proposed')) AS oldest),
workers AS (
    SELECT count(*) FILTER (WHERE stopped_at IS NULL AND seen_at > now() - make_interval(secs => :silent_s)
                            AND NOT EXISTS (SELECT FROM nottwice.workers n
                                            WHERE n.name = w.name AND n.host = w.host AND n.started_at > w.seen_at)) AS alive,
           max(seen_at) AS last_sign
    FROM nottwice.workers w WHERE kind = 'worker')
SELECT now() AS at, EXISTS (SELECT FROM nottwice.events) AS any_event,
       CAST(coalesce((SELECT sum(n) FROM pending), 0) AS bigint) AS pending, claims.n AS processing,
       CAST((SELECT coalesce(json_agg(p), '[]') FROM pending p) AS text) AS kinds,
       (SELECT count(*) FROM nottwice.events WHERE state = 'failed') AS failed,
       CAST(coalesce((SELECT sum(n) FROM pending WHERE NOT handled), 0) AS bigint) AS unhandled,
       (SELECT count(*) FROM (SELECT FROM nottwice.conflicts WHERE acknowledged_at IS NULL LIMIT :most) AS c) AS conflicts,
       (SELECT count(*) FROM (SELECT FROM nottwice.quarantine WHERE settled_at IS NULL LIMIT :most) AS q) AS quarantined,
       (SELECT CAST(coalesce(sum(n), 0) AS bigint) FROM nottwice.counters
        WHERE metric = 'completed' AND minute >= date_trunc('minute', now()) - interval '1 minute') AS done_lately,
       nottwice.seconds_since((SELECT min(due_at) FROM pending WHERE handled)) AS oldest_pending_s,
       nottwice.seconds_since(claims.oldest) AS oldest_claim_s, claims.expired AS expired_leases,
       actions.proposed, actions.approved, actions.sending, actions.needs_review,
       nottwice.seconds_since(actions.oldest) AS oldest_review_s, workers.alive AS workers,
       CASE WHEN workers.last_sign IS NOT NULL THEN nottwice.seconds_since(workers.last_sign) END AS last_sign_s
FROM claims, actions, workers
"""


def snapshot(tx: Transaction, *, silent_s: float, unknown_s: float = UNKNOWN_S) -> Snapshot:
    """Everything the figures say. A worker without a sign for `silent_s` counts as silent, and of a provider that has
    not said for `unknown_s` whether our endpoints are on, it is not known.
    """
    silent = tx.all(
        """SELECT w.name, nottwice.seconds_since(w.seen_at) AS silent_s FROM nottwice.workers w
           WHERE w.kind = 'worker' AND w.stopped_at IS NULL AND w.seen_at <= now() - make_interval(secs => :silent_s)
             AND w.seen_at > now() - make_interval(secs => :named_s)
             AND NOT EXISTS (SELECT FROM nottwice.workers n
                             WHERE n.name = w.name AND n.host = w.host AND n.started_at > w.seen_at)
           ORDER BY w.seen_at LIMIT 20""",
        silent_s=silent_s,
        named_s=max(SILENT_NAMED_S, 10 * silent_s),
    )
    row = tx.one(SNAPSHOT, silent_s=silent_s, most=COUNTED_MAX + 1)
    return Snapshot(
        **row._asdict(),
        silent=tuple((s.name, s.silent_s) for s in silent),
        endpoints_off=endpoints.off(tx),
        paused=tuple(pauses.standing(tx)),
        held=restored.why_held(tx),
        endpoints_unknown=tuple(one for one in endpoints.watched(tx) if one.silent_s > unknown_s),
    )


@dataclass(frozen=True, slots=True)
class Minute:
    at: datetime
    new: int
    duplicates: int
    done: int


@dataclass(frozen=True, slots=True)
class LeaseAge:
    """A claim in hand, and how long ago it was made or renewed. Past the lease another worker takes over."""

    worker: str
    age_s: float


@dataclass(frozen=True, slots=True)
class Hour:
    """What the charts draw: the last minutes, and what became of the sends that providers took today.

    Of those accepted today: said to be delivered, bounced or rejected since, or `no_word` of either yet. `turned_away` is what the front
    door refused of configured sources in these minutes, the most frequent first.
    """

    minutes: tuple[Minute, ...]
    delivered_today: int
    no_word_today: int
    bounced_today: int
    refused_today: int
    turned_away: tuple[Refused, ...]


def hour(tx: Transaction, *, minutes: int = 60) -> Hour:
    """Days begin at midnight UTC."""
    turned_away = tuple(one for one in refusals.lately(tx, minutes=minutes) if one.source)
    return Hour(_minutes(tx, minutes), **_today(tx), turned_away=turned_away)


def _minutes(tx: Transaction, minutes: int) -> tuple[Minute, ...]:
    """Quiet minutes included; the last one is still filling."""
    rows = tx.all(
        """SELECT m.minute AS at, CAST(coalesce(sum(c.n) FILTER (WHERE c.metric = 'accepted'), 0) AS bigint) AS new,
                  CAST(coalesce(sum(c.n) FILTER (WHERE c.metric = 'duplicate'), 0) AS bigint) AS duplicates,
                  CAST(coalesce(sum(c.n) FILTER (WHERE c.metric = 'completed'), 0) AS bigint) AS done
           FROM generate_series(date_trunc('minute', now()) - make_interval(mins => :minutes - 1),
                                date_trunc('minute', now()), interval '1 minute') AS m(minute)
           LEFT JOIN nottwice.counters c ON c.minute = m.minute AND c.metric IN ('accepted', 'duplicate', 'completed')
           GROUP BY m.minute ORDER BY m.minute""",
        minutes=minutes,
    )
    return tuple(Minute(**row._asdict()) for row in rows)


def oldest_leases(tx: Transaction, *, lease_s: float) -> tuple[LeaseAge, ...]:
    """At most LEASES_MAX. `lease_s` is what workers are given, to tell a lease's age from its end."""
    rows = tx.all(
        """SELECT coalesce(w.name, 'gone') AS worker,
                  CAST(extract(epoch FROM e.lease_until - now()) AS double precision) AS left_s
           FROM nottwice.events e LEFT JOIN nottwice.workers w ON w.id = e.claimed_by
           WHERE e.state = 'processing' ORDER BY e.lease_until LIMIT :most""",
        most=LEASES_MAX,
    )
    return tuple(LeaseAge(row.worker, max(0.0, lease_s - row.left_s)) for row in rows)


def _today(tx: Transaction) -> dict[str, int]:
    """A notice may come before the answer is counted: then there is no word of none, never of fewer."""
    answered, became = tx.one(ANSWERED_TODAY), tx.one(BECAME_TODAY)
    return {
        "delivered_today": became.delivered,
        "no_word_today": max(0, answered.accepted - became.delivered - became.bounced),
        "bounced_today": became.bounced,
        "refused_today": answered.refused,
    }


ANSWERED_TODAY = """
SELECT CAST(coalesce(sum(n) FILTER (WHERE metric = 'sent'), 0) AS bigint) AS accepted,
       CAST(coalesce(sum(n) FILTER (WHERE metric = 'refused'), 0) AS bigint) AS refused
FROM (SELECT metric, n FROM nottwice.counters WHERE minute >= date_trunc('day', now(), 'UTC') AND metric IN ('sent', 'refused')
      UNION ALL
      SELECT metric, n FROM nottwice.counters_hourly WHERE hour >= date_trunc('day', now(), 'UTC') AND metric IN ('sent', 'refused')) AS c
"""
# Of messages that met their send today: their standing, not how often it was told.
BECAME_TODAY = """
SELECT (SELECT count(*) FROM nottwice.messages WHERE standing IN ('delivered', 'complained') AND action_id IS NOT NULL
                                                 AND seen_at >= date_trunc('day', now(), 'UTC')) AS delivered,
       (SELECT count(*) FROM nottwice.messages WHERE standing IN ('bounced', 'rejected') AND action_id IS NOT NULL
                                                 AND seen_at >= date_trunc('day', now(), 'UTC')) AS bounced
"""
