"""What screens read. No body, no claim token, no provider key; each works under a person's own database role.

No query's cost grows with history: live rows are counted over partial indexes, finished ones through the counters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ledger import answers
from ledger.database import Transaction
from ledger.records import Attempt, Evidence
from ledger.verdict import Finding

WORKER_SILENT_S = 60.0
LEASES_MAX = 200


@dataclass(frozen=True, slots=True)
class Minute:
    at: datetime
    new: int
    duplicates: int
    done: int


@dataclass(frozen=True, slots=True)
class LeaseAge:
    worker: str
    age_s: float
    lease_s: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment, for everybody who looks. Ages are seconds, 0 when nothing waits."""

    at: datetime
    pending: int
    processing: int
    failed: int
    unhandled: int
    proposed: int
    approved: int
    sending: int
    needs_review: int
    oldest_review_s: float
    oldest_pending_s: float
    oldest_lease_s: float
    expired_leases: int
    workers: int
    silent_workers: tuple[tuple[str, float], ...]
    accepted_ever: int
    sent_today: int
    refused_today: int
    closed_today: int


SNAPSHOT = """
WITH handled AS (SELECT DISTINCT unnest(handles) AS pair FROM nottwice.workers WHERE kind = 'worker'),
pending AS (
    SELECT source || ' ' || type AS pair, count(*) AS n, min(due_at) AS due_at FROM nottwice.events WHERE state = 'pending'
    GROUP BY source, type),
actions AS (
    SELECT count(*) FILTER (WHERE state = 'proposed') AS proposed, count(*) FILTER (WHERE state = 'approved') AS approved,
           count(*) FILTER (WHERE state = 'sending') AS sending, count(*) FILTER (WHERE state = 'needs_review') AS needs_review,
           min(review_since) AS review_since
    FROM nottwice.actions WHERE state IN ('proposed', 'approved', 'sending', 'needs_review')),
today AS (
    SELECT count(*) FILTER (WHERE state = 'sent') AS sent, count(*) FILTER (WHERE state IN ('refused', 'failed')) AS refused,
           count(*) FILTER (WHERE state IN ('closed', 'declined')) AS closed
    FROM nottwice.actions WHERE settled_at IS NOT NULL AND settled_at >= date_trunc('day', now(), 'UTC')),
leases AS (
    SELECT count(*) AS n, count(*) FILTER (WHERE lease_until < now()) AS expired, min(claimed_at) AS claimed_at
    FROM nottwice.events WHERE state = 'processing')
SELECT now() AS at,
       CAST(coalesce((SELECT sum(n) FROM pending), 0) AS bigint) AS pending, leases.n AS processing,
       (SELECT count(*) FROM nottwice.events WHERE state = 'failed') AS failed,
       CAST(coalesce((SELECT sum(n) FROM pending WHERE pair NOT IN (SELECT pair FROM handled)), 0) AS bigint) AS unhandled,
       actions.proposed, actions.approved, actions.sending, actions.needs_review,
       CAST(coalesce(extract(epoch FROM now() - actions.review_since), 0) AS double precision) AS oldest_review_s,
       CAST(greatest(0, coalesce(extract(epoch FROM now() - (
           SELECT min(due_at) FROM pending WHERE pair IN (SELECT pair FROM handled))), 0)) AS double precision) AS oldest_pending_s,
       CAST(coalesce(extract(epoch FROM now() - leases.claimed_at), 0) AS double precision) AS oldest_lease_s,
       leases.expired AS expired_leases,
       (SELECT count(*) FROM nottwice.workers WHERE kind = 'worker' AND stopped_at IS NULL
                                              AND seen_at > now() - make_interval(secs => :silent_s)) AS workers,
       CAST(coalesce((SELECT sum(n) FROM nottwice.counters WHERE metric = 'accepted'), 0) AS bigint)
     + CAST(coalesce((SELECT sum(n) FROM nottwice.counters_hourly WHERE metric = 'accepted'), 0) AS bigint) AS accepted_ever,
       today.sent AS sent_today, today.refused AS refused_today, today.closed AS closed_today
FROM actions, today, leases
"""


def snapshot(tx: Transaction, *, silent_s: float = WORKER_SILENT_S) -> Snapshot:
    """Everything the Overview's figures say, of one moment."""
    silent = tx.all(
        """SELECT name, CAST(extract(epoch FROM now() - seen_at) AS double precision) AS age_s FROM nottwice.workers
           WHERE kind = 'worker' AND stopped_at IS NULL AND seen_at <= now() - make_interval(secs => :silent_s)
             AND seen_at > now() - interval '10 minutes' ORDER BY seen_at LIMIT 20""",
        silent_s=silent_s,
    )
    row = tx.one(SNAPSHOT, silent_s=silent_s)
    return Snapshot(silent_workers=tuple((s.name, s.age_s) for s in silent), **row._asdict())


def minutes(tx: Transaction, *, last: int = 60) -> list[Minute]:
    """New and duplicate deliveries, and completed events, of each of the last minutes; quiet ones included."""
    rows = tx.all(
        """SELECT m.minute AS at,
                  CAST(coalesce(sum(c.n) FILTER (WHERE c.metric = 'accepted'), 0) AS bigint) AS new,
                  CAST(coalesce(sum(c.n) FILTER (WHERE c.metric = 'duplicate'), 0) AS bigint) AS duplicates,
                  CAST(coalesce(sum(c.n) FILTER (WHERE c.metric = 'completed'), 0) AS bigint) AS done
           FROM generate_series(date_trunc('minute', now()) - make_interval(mins => :last - 1), date_trunc('minute', now()),
                                interval '1 minute') AS m(minute)
           LEFT JOIN nottwice.counters c ON c.minute = m.minute AND c.metric IN ('accepted', 'duplicate', 'completed')
           GROUP BY m.minute ORDER BY m.minute""",
        last=last,
    )
    return [Minute(**row._asdict()) for row in rows]


def leases(tx: Transaction) -> list[LeaseAge]:
    """The oldest claims in hand, by worker."""
    rows = tx.all(
        """SELECT coalesce(w.name, 'gone') AS worker, CAST(extract(epoch FROM now() - e.claimed_at) AS double precision) AS age_s,
                  CAST(extract(epoch FROM e.lease_until - e.claimed_at) AS double precision) AS lease_s
           FROM nottwice.events e LEFT JOIN nottwice.workers w ON w.id = e.claimed_by
           WHERE e.state = 'processing' ORDER BY e.claimed_at LIMIT :most""",
        most=LEASES_MAX,
    )
    return [LeaseAge(**row._asdict()) for row in rows]


# ── Review ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One send that waits for a person."""

    id: int
    kind: str
    about: str
    provider: str
    cost: str
    state: str
    verdict: str | None
    recipients: tuple[str, ...]
    waiting_s: float
    key_left_s: float | None
    looking_s: float
    requested_by: str | None


QUEUE = """
SELECT a.id, a.kind, a.about, a.provider, a.cost, a.state, a.verdict, r.recipients,
       CAST(extract(epoch FROM now() - coalesce(a.review_since, a.created_at)) AS double precision) AS waiting_s,
       CAST(extract(epoch FROM a.first_started_at + make_interval(secs => a.key_window_s - a.key_margin_s) - now())
            AS double precision) AS key_left_s,
       CAST(greatest(0, coalesce(extract(epoch FROM a.evidence_until - now()), 0)) AS double precision) AS looking_s,
       p.name AS requested_by
FROM nottwice.actions a
JOIN nottwice.recipients r ON r.action_id = a.id
LEFT JOIN nottwice.requests q ON q.action_id = a.id AND q.decision IS NULL AND q.expires_at > now()
LEFT JOIN nottwice.people p ON p.id = q.requested_by
WHERE a.state = :state AND (q.id IS NOT NULL) = :requested
ORDER BY (a.first_started_at + make_interval(secs => a.key_window_s - a.key_margin_s) < now() + interval '1 hour') DESC NULLS LAST,
         array_position(ARRAY['high', 'medium', 'low'], a.cost), coalesce(a.review_since, a.created_at), a.id
LIMIT :most
"""


def queue(tx: Transaction, segment: str, *, most: int = 200) -> list[QueueRow]:
    """Sends that wait: `uncertain`, `to_approve` or `second_person`. Keys that end soon first, then cost, then wait."""
    state = "proposed" if segment == "to_approve" else "needs_review"
    rows = tx.all(QUEUE, state=state, requested=segment == "second_person", most=most)
    return [QueueRow(**(row._asdict() | {"recipients": tuple(row.recipients)})) for row in rows]


def queue_sizes(tx: Transaction) -> dict[str, int]:
    """How many wait in each segment, and how many were decided today."""
    row = tx.one(
        """SELECT count(*) FILTER (WHERE a.state = 'needs_review' AND q.id IS NULL) AS uncertain,
                  count(*) FILTER (WHERE a.state = 'proposed') AS to_approve,
                  count(*) FILTER (WHERE a.state = 'needs_review' AND q.id IS NOT NULL) AS second_person,
                  (SELECT count(*) FROM nottwice.audit
                   WHERE at >= date_trunc('day', now(), 'UTC') AND entity = 'action' AND outcome = 'done' AND act <> 'reveal'
                     AND person_id IS NOT NULL) AS decided_today
           FROM nottwice.actions a
           LEFT JOIN nottwice.requests q ON q.action_id = a.id AND q.decision IS NULL AND q.expires_at > now()
           WHERE a.state IN ('needs_review', 'proposed')"""
    )
    return {name: int(n) for name, n in row._asdict().items()}


@dataclass(frozen=True, slots=True)
class Request:
    """A second person is asked to agree."""

    id: int
    requested_by: int
    name: str
    why: str
    looked_at: tuple[str, ...]
    requested_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Send:
    """One action whole, without its body. `version` and `content_digest` travel with every decision about it."""

    id: int
    version: int
    content_digest: bytes
    kind: str
    about: str
    namespace: str
    provider: str
    cost: str
    cost_reason: str
    state: str
    generation: int
    recipients: tuple[str, ...]
    subject: str
    event_id: int | None
    created_at: datetime
    waiting_s: float
    evidence_until: datetime | None
    key_window_s: float | None
    due_at: datetime | None
    decided_send: bool
    now: datetime
    finding: Finding
    attempts: tuple[Attempt, ...]
    evidence: tuple[Evidence, ...]
    request: Request | None


ONE = """
SELECT a.id, a.version, a.content_digest, a.kind, a.about, a.namespace, a.provider, a.account, a.policy, a.cost, a.cost_reason, a.state,
       a.generation, a.key_window_s, a.key_margin_s, a.retry_until, a.decided_send, a.event_id, a.created_at, a.evidence_until,
       a.due_at, now() AS now, r.recipients, r.subject,
       CAST(extract(epoch FROM now() - coalesce(a.review_since, a.created_at)) AS double precision) AS waiting_s
FROM nottwice.actions a JOIN nottwice.recipients r ON r.action_id = a.id WHERE a.id = :id
"""


def send(tx: Transaction, action_id: int) -> Send | None:
    """One action, its attempts, evidence and verdict; None when there is none."""
    row = tx.first(ONE, id=action_id)
    if row is None:
        return None
    attempts, evidence = answers.history(tx, action_id)
    names = {str(w.id): w.name for w in tx.all("SELECT id, name FROM nottwice.workers")}
    named = (_with_worker(attempt, names) for attempt in attempts)
    shared = {name: getattr(row, name) for name in Send.__slots__ if hasattr(row, name)}
    return Send(
        **(shared | {"recipients": tuple(row.recipients), "content_digest": bytes(row.content_digest)}),
        finding=answers.finding(tx, row),
        attempts=tuple(named),
        evidence=tuple(evidence),
        request=_request(tx, action_id),
    )


def _with_worker(attempt: Attempt, names: dict[str, str]) -> Attempt:
    return replace(attempt, worker=names.get(attempt.worker, attempt.worker[:8]))


def _request(tx: Transaction, action_id: int) -> Request | None:
    row = tx.first(
        """SELECT q.id, q.requested_by, p.name, q.why, q.looked_at, q.requested_at, q.expires_at
           FROM nottwice.requests q JOIN nottwice.people p ON p.id = q.requested_by
           WHERE q.action_id = :id AND q.decision IS NULL AND q.expires_at > now()""",
        id=action_id,
    )
    return Request(**(row._asdict() | {"looked_at": tuple(row.looked_at)})) if row else None


@dataclass(frozen=True, slots=True)
class Decided:
    """One act of a person."""

    audit_id: int
    at: datetime
    who: str
    act: str
    action_id: int
    about: str
    why: str
    state: str


def decided_today(tx: Transaction, *, most: int = 100) -> Sequence[Decided]:
    """What people decided since midnight UTC, newest first."""
    rows = tx.all(
        """SELECT u.id AS audit_id, u.at, p.name AS who, u.act, a.id AS action_id, a.about, u.why, a.state
           FROM nottwice.audit u JOIN nottwice.people p ON p.id = u.person_id JOIN nottwice.actions a ON a.id = u.entity_id
           WHERE u.entity = 'action' AND u.outcome = 'done' AND u.act <> 'reveal' AND u.at >= date_trunc('day', now(), 'UTC')
           ORDER BY u.id DESC LIMIT :most""",
        most=most,
    )
    return [Decided(**row._asdict()) for row in rows]


def last_decision(tx: Transaction, action_id: int) -> Decided | None:
    """The newest act about one action."""
    return next((d for d in decided_today(tx, most=1000) if d.action_id == action_id), None)
