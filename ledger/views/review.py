"""What the review desk reads: how much waits, and one send whole. The queue is in `queue`, what was decided in `decided`.

Each works as the person's database role, which decides how recipients look. A body is never in here: it is shown by
`reveals.reveal` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, TypeVar, cast

import sqlalchemy as sa

from ledger.actions import answers
from ledger.database import Transaction
from ledger.records import Attempt, Evidence, Policy, Role
from ledger.settings.providers import LABELS
from ledger.verdict import Finding, verdict
from ledger.views import decided
from ledger.views.decided import Decided

T = TypeVar("T")
SEES_HEADS = frozenset({Role.SUPPORT, Role.AUDITOR, Role.ADMIN})


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many sends wait in each segment, what people decided since midnight UTC, and what was contradicted of late.

    `runs` are runs in Reprocess for which a second person is waited.
    """

    uncertain: int
    to_approve: int
    second_person: int
    runs: int
    decided_today: int
    contradicted: int


# Each state over its own small index: asked for together, they would be looked for among all that was ever sent.
SIZES = """
SELECT (SELECT count(*) FROM nottwice.actions WHERE state = 'needs_review') - asked.n AS uncertain,
       (SELECT count(*) FROM nottwice.actions WHERE state = 'proposed') AS to_approve, asked.n AS second_person,
       (SELECT count(*) FROM nottwice.reprocess_runs WHERE state = 'waiting' AND expires_at > now()) AS runs
FROM (SELECT count(*) AS n FROM nottwice.requests q JOIN nottwice.actions a ON a.id = q.action_id
      WHERE q.decision IS NULL AND q.expires_at > now() AND a.state = 'needs_review') AS asked
"""


def sizes(tx: Transaction) -> Sizes:
    return Sizes(
        **tx.one(SIZES)._asdict(),
        decided_today=decided.many_today(tx),
        contradicted=decided.many_contradicted(tx),
    )


@dataclass(frozen=True, slots=True)
class Request:
    """A second person is asked to agree to a new key. `found_then`: how many findings there were when it was asked."""

    id: int
    requested_by: int
    name: str
    why: str
    looked_at: tuple[str, ...]
    requested_at: datetime
    expires_at: datetime
    found_then: int


# ── One send ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Send:
    """One action whole, without its body. `version` and `content_digest` travel with every decision about it.

    `head` is what an e-mail's head says and how long its parts are; empty for roles that see no recipients. `closed_why`
    says why configuration closed it, in our words. `asked_before` counts the requests ever made about it; `successor` is
    its next generation, `predecessor` the one in whose place it stands; of an unknown one nobody knows whether it
    went, and `earlier_went` after all when one before it was closed and proven since. What is over its time in
    `[retention]` is not `kept` any more.
    """

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
    key_margin_s: float
    retry_until: datetime
    send_before: datetime | None
    due_at: datetime | None
    decided_send: bool
    message_id: str | None
    settled_at: datetime | None
    content_kept: bool
    key_kept: bool
    closed_why: str
    asked_before: int
    successor: int | None
    predecessor: int | None
    predecessor_unknown: bool
    earlier_went: bool
    now: datetime
    finding: Finding
    attempts: tuple[Attempt, ...]
    evidence: tuple[Evidence, ...]
    request: Request | None
    decided: Decided | None
    head: Mapping[str, Any]

    @property
    def is_too_late(self) -> bool:
        """Nobody sends it any more."""
        return self.send_before is not None and self.now >= self.send_before


ONE = """
SELECT a.id, a.version, a.content_digest, a.kind, a.about, a.namespace, a.provider, a.account, a.policy, a.cost, a.cost_reason,
       a.state, a.generation, a.key_window_s, a.key_margin_s, a.retry_until, a.send_before, a.decided_send, a.event_id, a.created_at,
       a.evidence_until, a.due_at, a.message_id, a.settled_at, NOT a.content_gone AS content_kept, a.key_digest IS NOT NULL AS key_kept,
       nottwice.has_moved(a.provider, a.account, a.place) AS moved, nottwice.place_of(a.provider) AS place_now,
       coalesce(r.recipients, '{}') AS recipients, coalesce(r.subject, '') AS subject, now() AS now,
       nottwice.seconds_since(coalesce(a.review_since, a.created_at)) AS waiting_s,
       coalesce((SELECT CASE WHEN u.role = 'policy' THEN u.why END FROM nottwice.audit u
                 WHERE u.entity = 'action' AND u.entity_id = a.id AND u.state_after = 'closed' AND u.outcome = 'done' AND a.state = 'closed'
                 ORDER BY u.id DESC LIMIT 1), '') AS closed_why,
       (SELECT count(*) FROM nottwice.requests q WHERE q.action_id = a.id) AS asked_before,
       (SELECT id FROM nottwice.actions n WHERE n.namespace = a.namespace AND n.key_digest = a.key_digest
                                          AND n.generation = a.generation + 1) AS successor,
       o.id AS predecessor,
       coalesce(o.verdict IN ('nobody_knows', 'safe_to_try_again') AND o.contradicted_at IS NULL, false) AS predecessor_unknown,
       EXISTS (SELECT FROM nottwice.actions e WHERE e.namespace = a.namespace AND e.key_digest = a.key_digest AND e.state = 'closed'
                                              AND e.generation < a.generation AND e.contradicted_at IS NOT NULL) AS earlier_went
FROM nottwice.actions a LEFT JOIN nottwice.recipients r ON r.action_id = a.id
LEFT JOIN nottwice.actions o ON o.namespace = a.namespace AND o.key_digest = a.key_digest AND o.generation = a.generation - 1
WHERE a.id = :id
"""


def send(tx: Transaction, role: Role, action_id: int) -> Send | None:
    """One action with its attempts, evidence and verdict; None when there is none."""
    row = tx.first(ONE, id=action_id)
    if row is None:
        return None
    attempts, evidence = answers.history(tx, action_id)
    return _made(
        Send,
        row,
        recipients=tuple(row.recipients),
        content_digest=bytes(row.content_digest),
        finding=_finding(row, attempts, evidence),
        attempts=_with_workers(tx, attempts),
        evidence=tuple(evidence),
        request=_request(tx, action_id),
        decided=decided.last(tx, action_id),
        head=_head(tx, role, action_id),
    )


def version(tx: Transaction, action_id: int) -> int | None:
    """The version of the row now: whether what a person has before their eyes still stands."""
    row = tx.first("SELECT version FROM nottwice.actions WHERE id = :id", id=action_id)
    return None if row is None else int(row.version)


def provider_name(name: str) -> str:
    return LABELS.get(name, name)


@dataclass(frozen=True, slots=True)
class Behind:
    """The event that led to a send."""

    id: int
    source: str
    type: str
    event_key: str
    state: str
    accepted_at: datetime
    deliveries: int
    last_error: str | None


def event_behind(tx: Transaction, event_id: int) -> Behind | None:
    row = tx.first(
        """SELECT e.id, e.source, e.type, e.event_key, e.state, e.accepted_at, e.last_error,
                  1 + CAST(coalesce((SELECT sum(deliveries) FROM nottwice.duplicates d WHERE d.event_id = e.id), 0)
                           AS bigint) AS deliveries
           FROM nottwice.events e WHERE e.id = :id""",
        id=event_id,
    )
    return _made(Behind, row) if row else None


def _finding(row: sa.Row[Any], attempts: list[Attempt], evidence: list[Evidence]) -> Finding:
    name, policy = provider_name(row.provider), Policy(row.policy)
    return verdict(attempts, evidence, answers.window_of(row), row.now, policy=policy, provider=name)


def _with_workers(tx: Transaction, attempts: list[Attempt]) -> tuple[Attempt, ...]:
    """Workers by name; one that is forgotten by the beginning of its id."""
    ids = [a.worker for a in attempts]
    rows = tx.all("SELECT id, name FROM nottwice.workers WHERE id = ANY(CAST(:ids AS uuid[]))", ids=ids)
    names = {str(row.id): row.name for row in rows}
    return tuple(replace(a, worker=names.get(a.worker, a.worker[:8])) for a in attempts)


def _request(tx: Transaction, action_id: int) -> Request | None:
    row = tx.first(
        """SELECT q.id, q.requested_by, p.name, q.why, q.looked_at, q.requested_at, q.expires_at,
                  (SELECT count(*) FROM nottwice.evidence e WHERE e.action_id = q.action_id AND e.id <= q.last_evidence) AS found_then
           FROM nottwice.requests q JOIN nottwice.people p ON p.id = q.requested_by
           WHERE q.action_id = :id AND q.decision IS NULL AND q.expires_at > now()""",
        id=action_id,
    )
    return _made(Request, row, looked_at=tuple(row.looked_at)) if row else None


def _head(tx: Transaction, role: Role, action_id: int) -> Mapping[str, Any]:
    if role not in SEES_HEADS:
        return {}
    return dict(tx.one("SELECT nottwice.action_head(:id) AS head", id=action_id).head or {})


def _made(kind: type[T], row: sa.Row[Any], **more: Any) -> T:
    """A frozen record from the columns of the same names; `more` wins."""
    columns, members = row._asdict() | more, fields(cast(Any, kind))
    return kind(**{m.name: columns[m.name] for m in members if m.name in columns})


def now(tx: Transaction) -> datetime:
    """The database's clock, for what is said about a try that was refused."""
    at: datetime = tx.one("SELECT clock_timestamp() AS at").at
    return at
