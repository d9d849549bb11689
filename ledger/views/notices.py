"""What became of messages, recipient by recipient, for the Review and Events pages. Accepted is not delivered: what the
provider's answer said stands with the attempts, and nothing here repeats it.

Works as the person's database role, which decides whether a recipient is shown whole or masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from ledger.database import Transaction
from ledger.evidence.message_ids import meeting_key
from ledger.evidence.notices import What

LIFE = {what: place for place, what in enumerate(What)}


@dataclass(frozen=True, slots=True)
class Said:
    """One notice. `occurred_at` is the provider's word, `noted_at` when we worked it; `detail` is from outside."""

    what: What
    occurred_at: datetime
    noted_at: datetime
    event_id: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """All that was said about one message and one recipient ("": all of them), in the order in which it happened."""

    message_id: str
    recipient: str
    said: tuple[Said, ...]

    @property
    def now(self) -> Said:
        """The last that happened, however late the others arrived."""
        return self.said[-1]


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A message that no send of ours is known to be: perhaps somebody else's mail on the account. `what` was last."""

    account: str
    message_id: str
    seen_at: datetime
    what: What
    notices: int


# A person's word that a message is this send's counts for what is shown, but never as proof.
OF_ACTION = """
SELECT * FROM nottwice.noticed WHERE action_id = :id
UNION SELECT * FROM nottwice.noticed WHERE account = :account AND message_id = :key
"""


def of_action(tx: Transaction, action_id: int) -> tuple[Standing, ...]:
    """What became of a send, recipient by recipient; two copies of it stand apart."""
    send = tx.first("SELECT account, message_id FROM nottwice.actions WHERE id = :id", id=action_id)
    if send is None:
        return ()
    key = meeting_key(send.message_id or "")
    return _standings(tx.all(OF_ACTION, id=action_id, account=send.account, key=key))


def of_event(tx: Transaction, event_id: int) -> tuple[tuple[Standing, ...], int | None]:
    """What one event said, and the send it is known to be about."""
    rows = tx.all("SELECT * FROM nottwice.noticed WHERE event_id = :id", id=event_id)
    return _standings(rows), next((row.action_id for row in rows if row.action_id is not None), None)


# Messages that a person's word ties to a send are here too: their word is no record.
UNMATCHED = """
SELECT m.account, m.message_id, m.seen_at, told.what, told.notices
FROM nottwice.messages m
CROSS JOIN LATERAL (
    SELECT (array_agg(n.what ORDER BY n.occurred_at DESC, nottwice.place_in_life(n.what) DESC, n.event_id DESC))[1] AS what,
           count(*) AS notices
    FROM nottwice.noticed n WHERE n.account = m.account AND n.message_id = m.message_id) AS told
WHERE m.action_id IS NULL AND told.notices > 0
  AND (CAST(:seen_at AS timestamptz) IS NULL
       OR (m.seen_at, m.account, m.message_id) < (CAST(:seen_at AS timestamptz), :account, :message_id))
ORDER BY m.seen_at DESC, m.account DESC, m.message_id DESC LIMIT :most
"""


def unmatched(tx: Transaction, *, before: Unmatched | None = None, most: int = 25) -> list[Unmatched]:
    """The messages that somebody told of and nobody knows, the newest first, behind the last of the page before."""
    place = (before.seen_at, before.account, before.message_id) if before else (None, "", "")
    rows = tx.all(UNMATCHED, **dict(zip(("seen_at", "account", "message_id"), place, strict=True)), most=most)
    return [Unmatched(r.account, r.message_id, r.seen_at, What(r.what), r.notices) for r in rows]


def _standings(rows: Sequence[sa.Row[Any]]) -> tuple[Standing, ...]:
    """By message and recipient; of each, what was said by when it happened, then a message's life, then the event. In which
    order it was worked changes nothing.
    """

    def place(row: sa.Row[Any]) -> tuple[Any, ...]:
        return row.recipient_id, row.occurred_at, LIFE[What(row.what)], row.event_id

    groups = [list(group) for _, group in groupby(sorted(rows, key=place), key=lambda row: row.recipient_id)]
    standings = (Standing(g[0].message_id, g[0].recipient, tuple(map(_said, g))) for g in groups)
    return tuple(sorted(standings, key=lambda one: (one.message_id, one.recipient)))


def _said(row: sa.Row[Any]) -> Said:
    return Said(What(row.what), row.occurred_at, row.noted_at, row.event_id, row.detail)
