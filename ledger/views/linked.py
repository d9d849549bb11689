"""Which events tell of the same occurrence, by people's words (`ledger/kept/linked.py`)."""

from __future__ import annotations

from typing import NamedTuple

from ledger.database import Transaction

OTHERS_MAX = 50
OF = """
WITH RECURSIVE up AS (
    SELECT CAST(:id AS bigint) AS id
    UNION
    SELECT s.first_id FROM up JOIN nottwice.same_occurrence s ON s.event_id = up.id AND s.is_same),
down AS (
    SELECT min(id) AS id FROM up
    UNION
    SELECT s.event_id FROM down JOIN nottwice.same_occurrence s ON s.first_id = down.id AND s.is_same)
SELECT id FROM down WHERE id <> :id ORDER BY id LIMIT :most
"""
LATER = "SELECT first_id FROM nottwice.same_occurrence WHERE event_id = :id AND is_same"


class Linked(NamedTuple):
    """The others, the earliest first, OTHERS_MAX at most; and the one that this was said to be the same as, if it came later."""

    others: tuple[int, ...]
    same_as: int | None


def of_event(tx: Transaction, event_id: int) -> Linked:
    others = tuple(row.id for row in tx.all(OF, id=event_id, most=OTHERS_MAX))
    own = tx.first(LATER, id=event_id) if others else None
    return Linked(others, own.first_id if own else None)
