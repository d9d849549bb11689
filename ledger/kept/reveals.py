"""Bodies as people read them: nothing is shown before its audit row is committed.

The database holds it as well: `nottwice.reveal` gives a body only for an audit row of an earlier transaction, of the
same role (sql/0012).
"""

from __future__ import annotations

from typing import Literal

from ledger import audit
from ledger.database import Database, Transaction
from ledger.errors import Incomplete, NotAllowed, NotNow
from ledger.records import Act, Role

Readable = Literal["action", "event", "conflict", "quarantine", "finding"]
TABLES: dict[Readable, str] = {
    "action": "nottwice.actions",
    "event": "nottwice.events",
    "conflict": "nottwice.conflicts",
    "quarantine": "nottwice.quarantine",
    "finding": "nottwice.reprocess_findings",
}
REVEALERS = frozenset(Role) - {Role.VIEWER}
REVEAL_WITH_WHY = frozenset({Role.ENGINEER, Role.AUDITOR})


def reveal(db: Database, entity: Readable, entity_id: int, act: Act) -> bytes:
    """The stored bytes: of an action or a finding its rendered request, of all others exactly what was received.

    Raises NotAllowed for viewers, Incomplete when an engineer or auditor does not say why, NotNow when there is none
    (then nothing is noted) and when they are no longer kept.
    """
    must_be_allowed(act)

    def note(tx: Transaction) -> int:
        if tx.first(f"SELECT FROM {TABLES[entity]} WHERE id = :id", id=entity_id) is None:
            raise NotNow("There is nothing here, or you may not see it.")
        return audit.done(tx, act, "reveal", entity, entity_id, version=None, before=None, after=None)

    return _shown(db, db.run(note, role=act.person.role), act)


def reveal_both(db: Database, conflict_id: int, event_id: int, act: Act) -> tuple[bytes, bytes]:
    """The first content and the later one, two audit rows of one act. Raises like `reveal`."""
    must_be_allowed(act)

    def note(tx: Transaction) -> tuple[int, int]:
        later = audit.done(tx, act, "reveal", "conflict", conflict_id, version=None, before=None, after=None)
        first = audit.done(
            tx, act, "reveal", "event", event_id, version=None, before=None, after=None, further=True
        )
        return first, later

    first, later = db.run(note, role=act.person.role)
    return _shown(db, first, act), _shown(db, later, act)


def must_be_allowed(act: Act) -> None:
    """Raises NotAllowed or Incomplete."""
    if act.person.role not in REVEALERS:
        raise NotAllowed("The text is not shown to viewers.")
    if act.person.role in REVEAL_WITH_WHY and not act.reason.strip():
        raise Incomplete("Nothing was shown. Please say why you need to read it.")


def _shown(db: Database, audit_id: int, act: Act) -> bytes:
    row = db.run(lambda tx: tx.one("SELECT nottwice.reveal(:id) AS body", id=audit_id), role=act.person.role)
    if row.body is None:
        raise NotNow("The content is no longer kept. Its digest is.")
    return bytes(row.body)
