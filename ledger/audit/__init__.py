"""Who did what, when and why: plain rows in the transaction that makes the change, before the change.

The database refuses a person's change without its row, and a row without its change (sql/0007). Afterwards
`seals.py` chains the rows, so that nobody can alter one unseen.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ledger.audit.seals import seal as seal
from ledger.audit.seals import unsealed as unsealed
from ledger.database import Transaction
from ledger.errors import AlreadyDecided
from ledger.records import Act, Role

Entity = Literal[
    "event",
    "action",
    "request",
    "conflict",
    "quarantine",
    "audit",
    "provider",
    "installation",
    "reprocess",
    "finding",
    "together",
]

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


def refused(
    tx: Transaction, act: Act, what: str, entity: Entity, entity_id: int, reason: str, known: str = ""
) -> int:
    """Note a try that the ledger refused. Goes into a transaction of its own: the refused one was rolled back.

    Both states of the row are the one it is in: nothing was changed. `known`: what is known of it by now, which may be
    more than what the person saw.
    """
    return _insert(
        tx,
        act,
        what,
        entity,
        entity_id,
        "refused",
        detail=reason,
        known=known,
        **_unchanged(tx, entity, entity_id),
    )


def failed(
    tx: Transaction, act: Act, what: str, entity: Entity, entity_id: int, reason: str, known: str = ""
) -> int:
    """Note a try that an error stopped; like `refused`, in a transaction of its own."""
    return _insert(
        tx,
        act,
        what,
        entity,
        entity_id,
        "failed",
        detail=reason,
        known=known,
        **_unchanged(tx, entity, entity_id),
    )


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


def entry_time(tx: Transaction, audit_id: int) -> datetime:
    """When an entry was made."""
    at: datetime = tx.one("SELECT at FROM nottwice.audit WHERE id = :id", id=audit_id).at
    return at


def _unchanged(tx: Transaction, entity: Entity, entity_id: int) -> dict[str, str | None]:
    sql = {
        "event": "SELECT state FROM nottwice.events WHERE id = :id",
        "action": "SELECT state FROM nottwice.actions WHERE id = :id",
        "conflict": "SELECT state FROM nottwice.conflicts WHERE id = :id",
        "reprocess": "SELECT state FROM nottwice.reprocess_runs WHERE id = :id",
        "together": "SELECT state FROM nottwice.together WHERE id = :id",
    }.get(entity)
    row = tx.first(sql, id=entity_id) if sql else None
    state = row.state if row else None
    return {"state_before": state, "state_after": state}


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
