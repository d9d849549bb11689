"""What one send's page says of its look-ups: how often its provider was asked, what came of it, what is open."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ledger.database import Transaction


@dataclass(frozen=True, slots=True)
class Looks:
    """`words` are of the last one that is done, and may hold the provider's own. `asked_at`: a person waits for the
    open one; `in_hand`: a worker asks now. `held_until`: the account is paused, and a look-up waits for it."""

    done: int
    last_at: datetime | None
    outcome: str | None
    words: str
    open_id: int | None
    asked_at: datetime | None
    asked_by: str | None
    due_at: datetime | None
    in_hand: bool
    held_until: datetime | None
    now: datetime


LOOKS = """
SELECT (SELECT count(*) FROM nottwice.lookups l WHERE l.action_id = a.id AND l.done_at IS NOT NULL) AS done,
       last.done_at AS last_at, last.outcome, coalesce(last.words, '') AS words,
       open.id AS open_id, open.asked_at, p.name AS asked_by, open.due_at,
       coalesce(open.lease_until > now(), false) AS in_hand,
       (SELECT h.paused_until FROM nottwice.provider_pauses h WHERE h.account = a.account AND h.paused_until > now()) AS held_until,
       now() AS now
FROM nottwice.actions a
LEFT JOIN nottwice.lookups open ON open.action_id = a.id AND open.done_at IS NULL
LEFT JOIN nottwice.people p ON p.id = open.asked_by
LEFT JOIN LATERAL (SELECT * FROM (SELECT l.id, l.done_at, l.outcome, l.words FROM nottwice.lookups l
                                  WHERE l.action_id = a.id AND l.done_at IS NOT NULL) AS ended ORDER BY id DESC LIMIT 1) AS last ON true
WHERE a.id = :id
"""


def looks(tx: Transaction, action_id: int) -> Looks:
    """Where the look-ups of an action stand."""
    return Looks(**tx.one(LOOKS, id=action_id)._asdict())
