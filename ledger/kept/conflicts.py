"""A conflict is marked as seen: a person has looked at it and says that nothing more is to be done."""

from __future__ import annotations

from ledger import audit
from ledger.database import Transaction
from ledger.decisions.deciding import first
from ledger.errors import NotAllowed, NotNow, Stale
from ledger.records import Act, Role

MARKERS = frozenset({Role.SUPPORT, Role.ENGINEER, Role.ADMIN})
SEEN = "marked as seen"

MARK = """
UPDATE nottwice.conflicts SET acknowledged_at = now(), version = version + 1
WHERE id = :id AND version = :version AND acknowledged_at IS NULL
"""


def mark_seen(tx: Transaction, conflict_id: int, version: int, act: Act) -> int:
    """Nothing is done with either content. Returns the audit entry.

    Raises NotAllowed, NotNow for none, AlreadyDecided when this form or somebody was first, Stale.
    """
    if act.person.role not in MARKERS:
        raise NotAllowed("You can read this. Support, an engineer or admin marks it as seen.")
    audit.refuse_second_use(tx, act)
    row = tx.first(
        "SELECT version, acknowledged_at FROM nottwice.conflicts WHERE id = :id FOR NO KEY UPDATE",
        id=conflict_id,
    )
    if row is None:
        raise NotNow("There is nothing here, or you may not see it.")
    if row.acknowledged_at is not None:
        raise _seen_before(tx, conflict_id)
    if row.version != version:
        raise Stale("This conflict changed while you had it open. Nothing was done.")
    audit_id = audit.done(
        tx, act, SEEN, "conflict", conflict_id, version=version + 1, before="new", after="seen"
    )
    tx.execute(MARK, id=conflict_id, version=version)
    return audit_id


def _seen_before(tx: Transaction, conflict_id: int) -> Exception:
    by = tx.first(
        """SELECT p.name, a.act, a.at FROM nottwice.audit a JOIN nottwice.people p ON p.id = a.person_id
           WHERE a.entity = 'conflict' AND a.entity_id = :id AND a.outcome = 'done' AND a.act <> 'reveal'
           ORDER BY a.id DESC LIMIT 1""",
        id=conflict_id,
    )
    return first(by.name, by.act, by.at) if by else Stale("It is marked as seen already. Nothing was done.")
