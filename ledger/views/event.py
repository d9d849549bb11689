"""One event's whole story, as its page reads it: what arrived, who worked on it, what went out, who decided what.

Each part is found by the event's id. The longest of them are cut, and say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger.database import Transaction
from ledger.database.rows import made
from ledger.inbox.unhandled import HANDLED

PARTS_MAX = 200


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that ended in anything but completion."""

    attempt: int
    worker: str
    claimed_at: datetime
    ended_at: datetime
    ending: str
    error: str | None


@dataclass(frozen=True, slots=True)
class SendOf:
    """An action that this event led to, with its recipients as the role may see them."""

    id: int
    kind: str
    about: str
    provider: str
    state: str
    generation: int
    recipients: tuple[str, ...]
    content_kept: bool
    created_at: datetime
    settled_at: datetime | None


@dataclass(frozen=True, slots=True)
class TryOf:
    """One try of one of its sends."""

    action_id: int
    number: int
    worker: str
    started_at: datetime
    answered_at: datetime | None
    abandoned_at: datetime | None
    outcome: str | None
    reason: str
    code: str


@dataclass(frozen=True, slots=True)
class Word:
    """What a person, or a policy in nobody's name, decided about the event or one of its sends."""

    audit_id: int
    at: datetime
    who: str | None
    act: str
    outcome: str
    why: str
    entity: str
    entity_id: int


@dataclass(frozen=True, slots=True)
class Seen:
    """Evidence about one of its sends."""

    action_id: int
    source: str
    found: str
    points_to: str
    proof: bool
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class OtherContent:
    """The same key came with another content."""

    id: int
    deliveries: int
    first_seen_at: datetime
    last_seen_at: datetime
    acknowledged_at: datetime | None


@dataclass(frozen=True, slots=True)
class Story:
    """One event. `body_bytes` is None when its content is no longer kept; `not_compared` are those of its `duplicates` that
    may have said something else: the first content was gone. A key that is not `key_kept` makes a new event.
    `about_sends` are sends it tells about.
    `handled`: some worker has a handler for its kind, or none ever came.
    `waits_behind`: an event with the same ordering key goes first; 0: none. The marks are those of `ledger.records.Event`.

    `cut`: it has more parts of some sort than are read.
    """

    id: int
    namespace: str
    source: str
    type: str
    event_key: str
    key_rule: int
    key_kept: bool
    delivery_id: str
    occurred_at: datetime | None
    accepted_at: datetime
    state: str
    ending: str | None
    mode: str
    run: int
    due_at: datetime | None
    attempts: int
    attempts_max: int
    worker: str | None
    claimed_at: datetime | None
    lease_until: datetime | None
    last_error: str | None
    ended_at: datetime | None
    handled: bool
    waits_behind: int
    passed_over: int | None
    overtaken_by: int | None
    version: int
    now: datetime
    duplicates: int
    not_compared: int
    first_again_at: datetime | None
    last_again_at: datetime | None
    content_type: str
    body_bytes: int | None
    claims: tuple[Claim, ...]
    sends: tuple[SendOf, ...]
    tries: tuple[TryOf, ...]
    evidence: tuple[Seen, ...]
    words: tuple[Word, ...]
    conflicts: tuple[OtherContent, ...]
    about_sends: tuple[int, ...]

    @property
    def is_over(self) -> bool:
        """Completed, and so are its sends: only then its content and its key are given up."""
        return self.state == "completed" and all(send.settled_at for send in self.sends)

    @property
    def cut(self) -> bool:
        parts = (self.claims, self.sends, self.tries, self.evidence, self.words, self.conflicts)
        return any(len(part) >= PARTS_MAX for part in parts)


ONE = """
SELECT e.id, e.namespace, e.source, e.type, e.event_key, e.key_rule, e.delivery_id, e.occurred_at, e.accepted_at, e.state, e.ending, e.mode,
       e.run, e.key_digest IS NOT NULL AS key_kept, e.due_at, e.attempts, e.attempts_max, e.claimed_at, e.lease_until, e.last_error,
       e.ended_at, {handled} AS handled, e.waits_behind, e.passed_over, e.overtaken_by,
       e.version, now() AS now, coalesce(w.name, left(CAST(e.claimed_by AS text), 8)) AS worker,
       d.duplicates, d.not_compared, d.first_again_at, d.last_again_at, coalesce(s.content_type, '') AS content_type, s.bytes AS body_bytes
FROM nottwice.events e
LEFT JOIN nottwice.workers w ON w.id = e.claimed_by
LEFT JOIN nottwice.event_sizes s ON s.event_id = e.id,
LATERAL (SELECT CAST(coalesce(sum(deliveries), 0) AS bigint) AS duplicates,
                CAST(coalesce(sum(not_compared), 0) AS bigint) AS not_compared, min(first_seen_at) AS first_again_at,
                max(last_seen_at) AS last_again_at FROM nottwice.duplicates WHERE event_id = e.id) AS d
WHERE e.id = :id
""".replace("{handled}", HANDLED)
CLAIMS = """
SELECT a.attempt, coalesce(w.name, left(CAST(a.worker AS text), 8)) AS worker, a.claimed_at, a.ended_at, a.ending, a.error
FROM nottwice.event_attempts a LEFT JOIN nottwice.workers w ON w.id = a.worker
WHERE a.event_id = :id ORDER BY a.id DESC LIMIT :most
"""
SENDS = """
SELECT a.id, a.kind, a.about, a.provider, a.state, a.generation, r.recipients, NOT a.content_gone AS content_kept,
       a.created_at, a.settled_at
FROM nottwice.actions a LEFT JOIN nottwice.recipients r ON r.action_id = a.id
WHERE a.event_id = :id ORDER BY a.id LIMIT :most
"""
TRIES = """
SELECT t.action_id, t.number, coalesce(w.name, left(CAST(t.worker AS text), 8)) AS worker, t.started_at, t.answered_at,
       t.abandoned_at, t.outcome, t.reason, t.code
FROM nottwice.action_attempts t LEFT JOIN nottwice.workers w ON w.id = t.worker
WHERE t.action_id = ANY(CAST(:sends AS bigint[])) ORDER BY t.id DESC LIMIT :most
"""
EVIDENCE = """
SELECT action_id, source, found, points_to, proof, observed_at FROM nottwice.evidence
WHERE action_id = ANY(CAST(:sends AS bigint[])) ORDER BY id DESC LIMIT :most
"""
# Each subject through its own index: asked for together, a busy record is walked from its end.
WORDS = """
WITH about (entity, entity_id) AS (
    VALUES ('event', CAST(:id AS bigint))
    UNION ALL SELECT 'action', unnest(CAST(:sends AS bigint[]))
    UNION ALL SELECT 'conflict', unnest(CAST(:conflicts AS bigint[])))
SELECT u.id AS audit_id, u.at, p.name AS who, u.act, u.outcome, u.why, u.entity, u.entity_id
FROM about s
CROSS JOIN LATERAL (SELECT * FROM nottwice.audit a WHERE a.entity = s.entity AND a.entity_id = s.entity_id AND a.act <> 'reveal'
                    ORDER BY a.id DESC LIMIT :most) AS u
LEFT JOIN nottwice.people p ON p.id = u.person_id
ORDER BY u.id DESC LIMIT :most
"""
CONFLICTS = """
SELECT id, deliveries, first_seen_at, last_seen_at, acknowledged_at FROM nottwice.conflicts
WHERE event_id = :id ORDER BY id LIMIT :most
"""
ABOUT = """
SELECT action_id FROM nottwice.evidence WHERE event_id = :id
UNION SELECT action_id FROM nottwice.noticed WHERE event_id = :id AND action_id IS NOT NULL
ORDER BY action_id LIMIT :most
"""
PARTS = (CLAIMS, SENDS, TRIES, EVIDENCE, WORDS, CONFLICTS, ABOUT)


def story(tx: Transaction, event_id: int) -> Story | None:
    """One event with all that is known of it, as the person's role may see it; None when there is none."""
    row = tx.first(ONE, id=event_id)
    if row is None:
        return None
    ids: dict[str, Any] = {"id": event_id, "most": PARTS_MAX}
    sends = tuple(
        made(SendOf, send, recipients=tuple(send.recipients or ())) for send in tx.all(SENDS, **ids)
    )
    conflicts = tuple(made(OtherContent, other) for other in tx.all(CONFLICTS, **ids))
    ids |= {"sends": [send.id for send in sends], "conflicts": [other.id for other in conflicts]}
    return made(
        Story,
        row,
        claims=tuple(made(Claim, claim) for claim in tx.all(CLAIMS, **ids)),
        sends=sends,
        tries=tuple(made(TryOf, one) for one in tx.all(TRIES, **ids)),
        evidence=tuple(made(Seen, one) for one in tx.all(EVIDENCE, **ids)),
        words=tuple(made(Word, word) for word in tx.all(WORDS, **ids)),
        conflicts=conflicts,
        about_sends=tuple(about.action_id for about in tx.all(ABOUT, **ids)),
    )
