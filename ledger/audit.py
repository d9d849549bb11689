"""Who did what, when and why: rows in the changing transaction, sealed into a hash chain afterwards.

A chain inside the changing transaction would make everyone wait for the slowest; so rows are plain there, and a
sealer, one at a time, appends them to `audit_seals` in an order that no later commit can slip into.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa

from ledger.database import Database, Transaction
from ledger.errors import AlreadyDecided
from ledger.records import Act, Role

Entity = Literal["event", "action", "request", "conflict", "quarantine", "audit", "provider", "installation"]
GENESIS = bytes(32)

INSERT = """
INSERT INTO nottwice.audit (person_id, role, act, entity, entity_id, entity_version, outcome, why, looked_at, known,
                            state_before, state_after, detail, form_id)
VALUES (:person_id, :role, :act, :entity, :entity_id, :entity_version, :outcome, :why, CAST(:looked_at AS text[]), :known,
        :state_before, :state_after, :detail, :form_id)
RETURNING id
"""


def done(
    tx: Transaction,
    act: Act,
    what: str,
    entity: Entity,
    entity_id: int,
    *,
    version: int | None,
    before: str | None,
    after: str | None,
    known: str = "",
    detail: str = "",
    further: bool = False,
) -> int:
    """Note an act that this transaction carries out; call it before the change, which the database checks against it.

    `further`: one more row of the same act, without its form. Raises AlreadyDecided(same_form=True) when this form
    has acted before.
    """
    if not further:
        refuse_second_use(tx, act)
    return _insert(
        tx,
        act,
        what,
        entity,
        entity_id,
        "done",
        entity_version=version,
        state_before=before,
        state_after=after,
        known=known,
        detail=detail,
        form_id=None if further else act.form_id,
    )


def refused(tx: Transaction, act: Act, what: str, entity: Entity, entity_id: int, reason: str) -> int:
    """Note a try that the ledger refused. Goes into a transaction of its own: the refused one was rolled back."""
    return _insert(tx, act, what, entity, entity_id, "refused", detail=reason, form_id=None)


def failed(tx: Transaction, act: Act, what: str, entity: Entity, entity_id: int, reason: str) -> int:
    """Note a try that an error stopped."""
    return _insert(tx, act, what, entity, entity_id, "failed", detail=reason, form_id=None)


def by_policy(
    tx: Transaction, what: str, action_id: int, *, version: int, before: str, after: str, why: str
) -> int:
    """Note what configuration decided in nobody's name."""
    values = _values(what, "action", action_id, "done") | {
        "role": "policy",
        "entity_version": version,
        "state_before": before,
        "state_after": after,
        "why": why,
    }
    return int(tx.one(INSERT, **values).id)


def refuse_second_use(tx: Transaction, act: Act) -> None:
    """Raises AlreadyDecided when this one-time form has done its act; holds off a twin until this one commits."""
    tx.execute("SELECT pg_advisory_xact_lock(hashtextextended(:form, 0))", form=str(act.form_id))
    row = tx.first(
        """SELECT a.act, a.at, coalesce(p.name, a.role) AS who FROM nottwice.audit a
           LEFT JOIN nottwice.people p ON p.id = a.person_id WHERE a.form_id = :form AND a.outcome = 'done'""",
        form=act.form_id,
    )
    if row is not None:
        raise AlreadyDecided(
            f"Already done: this was decided at {row.at:%H:%M:%S} UTC. Nothing was done twice.",
            who=row.who,
            what=row.act,
            at=row.at,
            same_form=True,
        )


def reveal_action(db: Database, action_id: int, act: Act) -> bytes:
    """The stored content, behind an audit row that is committed before anything is shown."""
    role = act.person.role

    def note(tx: Transaction) -> int:
        return done(tx, act, "reveal", "action", action_id, version=None, before=None, after=None)

    audit_id = db.run(note, role=role)
    return db.run(
        lambda tx: bytes(tx.one("SELECT nottwice.reveal_action(:id) AS body", id=audit_id).body), role=role
    )


# ── Seals ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Verification:
    """`broken` names the first entry that does not fit, in words; None: the record is whole."""

    entries: int
    broken: str | None
    unsealed: int


UNSEALED = """
SELECT a.* FROM nottwice.audit a
WHERE NOT EXISTS (SELECT FROM nottwice.audit_seals s WHERE s.audit_id = a.id)
  AND a.transaction < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY a.transaction, a.id LIMIT :limit
"""


def seal(tx: Transaction, limit: int = 500) -> int:
    """Append finished audit rows to the chain; returns how many. Only one sealer at a time, the others return 0.

    Only rows of transactions older than every running one are taken, so that none can appear before them later.
    """
    if tx.first("SELECT FROM nottwice.maintenance WHERE duty = 'seal' FOR UPDATE SKIP LOCKED") is None:
        tx.execute("INSERT INTO nottwice.maintenance (duty) VALUES ('seal') ON CONFLICT DO NOTHING")
        if tx.first("SELECT FROM nottwice.maintenance WHERE duty = 'seal' FOR UPDATE SKIP LOCKED") is None:
            return 0
    last = tx.first("SELECT sequence, hash FROM nottwice.audit_seals ORDER BY sequence DESC LIMIT 1")
    sequence, previous = (last.sequence, bytes(last.hash)) if last else (0, GENESIS)
    seals = []
    for row in tx.all(UNSEALED, limit=limit):
        sequence, link = sequence + 1, _link(previous, row)
        seals.append({"sequence": sequence, "audit_id": row.id, "previous": previous, "hash": link})
        previous = link
    tx.many(
        """INSERT INTO nottwice.audit_seals (sequence, audit_id, previous_hash, hash)
           VALUES (:sequence, :audit_id, :previous, :hash)""",
        seals,
    )
    return len(seals)


def verify(tx: Transaction, progress: Callable[[int], None] = lambda _: None) -> Verification:
    """Walk the chain from its beginning; `progress` is told the number of entries checked so far."""
    previous, checked, expected = GENESIS, 0, 1
    rows = tx.execute(
        sa.text(
            """SELECT s.sequence, s.audit_id, s.previous_hash, s.hash AS seal, a.*
               FROM nottwice.audit_seals s LEFT JOIN nottwice.audit a ON a.id = s.audit_id ORDER BY s.sequence"""
        ).execution_options(yield_per=1000)
    )
    broken = None
    for row in rows:
        broken = _what_is_wrong(row, expected, previous)
        if broken:
            break
        previous, checked, expected = bytes(row.seal), checked + 1, expected + 1
        progress(checked)
    return Verification(checked, broken, unsealed(tx))


def unsealed(tx: Transaction, older_than_s: float = 60.0) -> int:
    """Audit rows that waited longer than this for their seal: something is wrong with the sealer."""
    return int(
        tx.one(
            """SELECT count(*) AS n FROM nottwice.audit a WHERE a.at < now() - make_interval(secs => :s)
               AND NOT EXISTS (SELECT FROM nottwice.audit_seals s WHERE s.audit_id = a.id)""",
            s=older_than_s,
        ).n
    )


def _what_is_wrong(row: sa.Row[Any], expected: int, previous: bytes) -> str | None:
    if row.sequence != expected:
        return f"Entry {expected} is missing."
    if row.id is None:
        return f"Entry {row.sequence} names audit row {row.audit_id}, which is missing."
    if bytes(row.previous_hash) != previous or bytes(row.seal) != _link(previous, row):
        return f"Entry {row.sequence} (audit row {row.audit_id}) does not fit the one before it."
    return None


SEALED = (
    *("id", "at", "person_id", "role", "act", "entity", "entity_id", "entity_version", "outcome", "why"),
    *("looked_at", "known", "state_before", "state_after", "detail", "form_id", "transaction"),
)


def _link(previous: bytes, row: sa.Row[Any]) -> bytes:
    whole = hashlib.sha256(previous)
    for name in SEALED:
        value = getattr(row, name)
        if isinstance(value, datetime):  # the same instant, whatever zone the session is in
            value = value.astimezone(UTC).isoformat()
        text = repr(value).encode("utf-8", "backslashreplace")
        whole.update(len(text).to_bytes(8, "big") + text)
    return whole.digest()


def _values(what: str, entity: Entity, entity_id: int, outcome: str) -> dict[str, Any]:
    return {
        "person_id": None,
        "role": "",
        "act": what,
        "entity": entity,
        "entity_id": entity_id,
        "outcome": outcome,
        "entity_version": None,
        "why": "",
        "looked_at": [],
        "known": "",
        "state_before": None,
        "state_after": None,
        "detail": "",
        "form_id": None,
    }


def _insert(
    tx: Transaction, act: Act, what: str, entity: Entity, entity_id: int, outcome: str, **more: Any
) -> int:
    values = _values(what, entity, entity_id, outcome) | {
        "person_id": act.person.id,
        "role": Role(act.person.role).value,
        "why": act.reason,
        "looked_at": list(act.looked_at),
    }
    return int(tx.one(INSERT, **(values | more)).id)
