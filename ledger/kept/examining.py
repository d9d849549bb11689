"""What is in quarantine is examined again: a person asks, a receiver reads the kept bytes by the configuration of now.

What becomes an event by it leaves quarantine; what still is none stays, with the reason of now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ledger import audit
from ledger.database import Transaction
from ledger.errors import NotAllowed, NotNow
from ledger.kept.conflicts import MARKERS as ASKERS
from ledger.records import Act

EXAMINE = "examine again"
Result = Literal["event", "known", "conflict", "no_event"]

OPEN = """
SELECT q.id FROM nottwice.quarantine q JOIN nottwice.quarantine_sizes s ON s.id = q.id
WHERE q.id = ANY(CAST(:ids AS bigint[])) AND q.settled_at IS NULL AND s.bytes IS NOT NULL
  AND NOT EXISTS (SELECT FROM nottwice.examinations x WHERE x.quarantine_id = q.id AND x.done_at IS NULL)
ORDER BY q.id
"""


def ask(tx: Transaction, quarantine_ids: Sequence[int], act: Act) -> int:
    """Have these examined again, each on its own record; those asked for already are left out. Returns how many.

    Raises NotAllowed, AlreadyDecided, NotNow when there is none to examine.
    """
    if act.person.role not in ASKERS:
        raise NotAllowed("You can read this. Support, an engineer or admin has it examined again.")
    audit.refuse_second_use(tx, act)
    ids = [row.id for row in tx.all(OPEN, ids=list(quarantine_ids))]
    if not ids:
        raise NotNow(
            "There is nothing to examine: it is asked for already, settled, or its bytes are no longer kept."
        )
    for place, id_ in enumerate(ids):
        audit.done(
            tx, act, EXAMINE, "quarantine", id_, version=None, before=None, after=None, further=place > 0
        )
        tx.execute(
            """INSERT INTO nottwice.examinations (quarantine_id, asked_by) VALUES (:id, :person)
               ON CONFLICT (quarantine_id) WHERE done_at IS NULL DO NOTHING""",
            id=id_,
            person=act.person.id,
        )
    return len(ids)


# ── The receiver's side ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Asked:
    """One that waits to be examined. `body` is None when it is no longer kept."""

    id: int
    quarantine_id: int
    source: str
    body: bytes | None


def oldest(tx: Transaction) -> Asked | None:
    """The next one. Not locked: two that examine the same bytes store one event."""
    row = tx.first(
        """SELECT x.id, x.quarantine_id, q.source, q.body FROM nottwice.examinations x
           JOIN nottwice.quarantine q ON q.id = x.quarantine_id WHERE x.done_at IS NULL ORDER BY x.id LIMIT 1"""
    )
    return None if row is None else Asked(row.id, row.quarantine_id, row.source, row.body and bytes(row.body))


def finish(
    tx: Transaction, asked: Asked, result: Result, *, reason: str = "", event_id: int | None = None
) -> None:
    """Note what became of it, once; what is an event now is settled."""
    done = tx.execute(
        """UPDATE nottwice.examinations SET done_at = now(), result = :result, reason = :reason, event_id = :event_id
           WHERE id = :id AND done_at IS NULL""",
        id=asked.id,
        result=result,
        reason=reason[:500],
        event_id=event_id,
    )
    if done.rowcount and result != "no_event":
        sql = "UPDATE nottwice.quarantine SET settled_at = now() WHERE id = :id AND settled_at IS NULL"
        tx.execute(sql, id=asked.quarantine_id)
