"""Hints that a person may adopt: messages that may be an uncertain send's, and that no other send is known by.

Adopting one is that person's decision "It was sent", with the hint's message number; never a proof by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ledger.database import Transaction
from ledger.decisions import settle
from ledger.errors import NotNow
from ledger.evidence.known_messages import other_send
from ledger.evidence.message_ids import bare, meeting_key
from ledger.evidence.rests import is_early
from ledger.records import Act, Decision, Seen, Settled

LOOKED_AT = "A hint on this page"  # what an adopter looked at, for the audit


@dataclass(frozen=True, slots=True)
class Hint:
    """Something that points to a message without proving it. `source` and `found` are as the evidence has them.

    `others` counts the uncertain sends beside this one that have the same message as a hint; `rivals` are the first of them.
    """

    id: int
    source: str
    found: str
    message_id: str
    observed_at: datetime
    others: int = 0
    rivals: tuple[int, ...] = ()


HINTS = """
SELECT e.id, e.source, e.found, e.message_id, e.observed_at, a.account
FROM nottwice.evidence e JOIN nottwice.actions a ON a.id = e.action_id
WHERE e.action_id = :id AND e.points_to = 'sent' AND NOT e.proof AND e.message_id IS NOT NULL
ORDER BY e.id
"""

TAKEN_BACK = """
SELECT FROM nottwice.evidence WHERE action_id = :id AND points_to = 'neither'
AND message_id IN (:message_id, :bare, '<' || :bare || '>') LIMIT 1
"""


# Of what waits alone, so that it is asked of the desk and not of history.
OTHERS = """
SELECT count(*) AS n, coalesce((array_agg(o.id ORDER BY o.review_since, o.id))[1:3], '{}') AS first FROM nottwice.actions o
WHERE o.state = 'needs_review' AND o.account = :account AND o.id <> :id
  AND EXISTS (SELECT FROM nottwice.evidence e WHERE e.action_id = o.id AND e.points_to = 'sent' AND NOT e.proof
              AND e.message_id IN (:message_id, :bare, '<' || :bare || '>'))
  AND NOT EXISTS (SELECT FROM nottwice.evidence e WHERE e.action_id = o.id AND e.points_to = 'neither'
                  AND e.message_id IN (:message_id, :bare, '<' || :bare || '>'))
"""


def hints(tx: Transaction, action_id: int) -> tuple[Hint, ...]:
    """The hints that can be adopted, one a message however often it was seen: the oldest first, and behind all others
    those of what was there before our request left.
    """
    found: dict[str, Hint] = {}
    for row in tx.all(HINTS, id=action_id):
        key = meeting_key(row.message_id)
        if key not in found and not _is_elsewhere(tx, action_id, row):
            found[key] = Hint(row.id, row.source, row.found, row.message_id, row.observed_at)
    return tuple(sorted(found.values(), key=lambda hint: is_early(hint.found)))


def shared(tx: Transaction, action_id: int) -> tuple[Hint, ...]:
    """The hints, each with how many other uncertain sends may be the same message, and the first three of those."""
    account = tx.one("SELECT account FROM nottwice.actions WHERE id = :id", id=action_id).account

    def with_others(hint: Hint) -> Hint:
        spelled = {"message_id": hint.message_id, "bare": bare(hint.message_id)}
        found = tx.one(OTHERS, id=action_id, account=account, **spelled)
        return replace(hint, others=found.n, rivals=tuple(found.first))

    return tuple(with_others(hint) for hint in hints(tx, action_id))


def adopt(tx: Transaction, action_id: int, evidence_id: int, seen: Seen, act: Act) -> Settled:
    """Close a send as sent under the message of a hint: a person's decision like any other.

    Raises NotNow when there is no such hint, or its message is known as another send's; and as every decision.
    """
    hint = next((h for h in hints(tx, action_id) if h.id == evidence_id), None)
    basis = f"a hint: {hint.source}, evidence {hint.id}" if hint else ""
    message_id = hint.message_id if hint else ""
    decided = settle(tx, action_id, seen, Decision.WAS_SENT, act, message_id=message_id, basis=basis)
    if hint is None:  # said last: who was too late is told by whom
        raise NotNow(
            "That hint cannot be adopted: its message belongs to another send, or is not known here."
        )
    return decided


def _is_elsewhere(tx: Transaction, action_id: int, row: sa.Row[Any]) -> bool:
    """Known as another send's, or taken back at this one."""
    if other_send(tx, action_id, row.account, row.message_id) is not None:
        return True
    spelled = {"message_id": row.message_id, "bare": bare(row.message_id)}
    return tx.first(TAKEN_BACK, id=action_id, **spelled) is not None
