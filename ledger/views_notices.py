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
from ledger.message_ids import meeting_key
from ledger.notices import What

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
    """A notice about a message that no send of ours is known to be: perhaps somebody else's mail on the account."""

    id: int
    account: str
    message_id: str
    recipient: str
    said: Said


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


def unmatched(tx: Transaction, *, before_id: int | None = None, most: int = 25) -> list[Unmatched]:
    """The newest notices of messages nobody knows, behind the last id of the page before."""
    rows = tx.all(
        """SELECT * FROM nottwice.noticed
            WHERE action_id IS NULL AND (CAST(:before AS bigint) IS NULL OR id < :before) ORDER BY id DESC LIMIT :most""",
        before=before_id,
        most=most,
    )
    return [Unmatched(r.id, r.account, r.message_id, r.recipient, _said(r)) for r in rows]


def _standings(rows: Sequence[sa.Row[Any]]) -> tuple[Standing, ...]:
    def place(row: sa.Row[Any]) -> tuple[Any, ...]:
        return row.recipient_id, row.occurred_at, LIFE[What(row.what)], row.id

    groups = [list(group) for _, group in groupby(sorted(rows, key=place), key=lambda row: row.recipient_id)]
    return tuple(Standing(g[0].message_id, g[0].recipient, tuple(map(_said, g))) for g in groups)


def _said(row: sa.Row[Any]) -> Said:
    return Said(What(row.what), row.occurred_at, row.noted_at, row.event_id, row.detail)
