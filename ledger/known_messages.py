"""Which send a message is known as: no two sends are one message."""

from __future__ import annotations

from ledger.database import Transaction
from ledger.errors import NotNow
from ledger.message_ids import bare, meeting_key

# By its provider's record, or by the number that a person closed one with; however either is spelled.
OTHER = """
SELECT coalesce(
    (SELECT m.action_id FROM nottwice.messages m
     WHERE m.account = :account AND m.message_id = :key AND m.action_id <> :id),
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

    Held until the transaction ends against whoever gives the same number to another send at the same moment.
    """
    key = f"message {account} {meeting_key(message_id)}"
    tx.execute("SELECT pg_advisory_xact_lock(hashtextextended(:key, 42))", key=key)
    other = other_send(tx, action_id, account, message_id)
    if other is not None:
        raise NotNow(
            f"That message is known as send {other}'s, and no two sends are one message. Nothing was done. "
            f"Compare the two: if send {other} has it wrongly, open that one again first."
        )
