"""Which send a message is known as: no two sends are one message."""

from __future__ import annotations

from ledger.database import Transaction
from ledger.errors import NotNow
from ledger.evidence.message_ids import bare, meeting_key

# By its provider's record, or by the number that a person closed one with; however either is spelled.
OTHER = """
SELECT coalesce(
    (SELECT m.action_id FROM nottwice.messages m
     WHERE m.account = :account AND m.message_id = :key AND m.action_id <> :id),
    (SELECT g.id FROM nottwice.actions g WHERE g.account = :account AND nottwice.meeting_key(g.message_id) = :key
     AND g.state = 'sent' AND g.verdict <> 'was_sent' AND g.message_id IS NOT NULL AND g.id <> :id),
    (SELECT min(g.id) FROM nottwice.actions g WHERE g.message_id IN (:message_id, :bare, '<' || :bare || '>')
     AND g.account = :account AND g.state = 'sent' AND g.id <> :id)) AS id
"""


def other_send(tx: Transaction, action_id: int, account: str, message_id: str) -> int | None:
    """The send, not this one, that a message of an account is known as; None while there is none."""
    spelled = {"message_id": message_id, "bare": bare(message_id), "key": meeting_key(message_id)}
    found: int | None = tx.one(OTHER, id=action_id, account=account, **spelled).id
    return found


def must_be_no_others(tx: Transaction, action_id: int, account: str, message_id: str) -> None:
    """Raises NotNow, with that send's number, when the message is known as another send's.

    Of two that give one number at the same moment the database refuses the second (sql/0047); its transaction is begun
    again, and meets the first one here.
    """
    other = other_send(tx, action_id, account, message_id)
    if other is not None:
        raise NotNow(
            f"That message is known as send {other}'s, and no two sends are one message. Nothing was done. "
            f"Compare the two: if send {other} has it wrongly, open that one again first."
        )
