"""Which send a message is known as: no two sends are one message. And whether it is known to anybody but who names it."""

from __future__ import annotations

from ledger.database import Transaction
from ledger.errors import Incomplete, NotNow

OTHER = "SELECT nottwice.known_as_other(:id, :account, :message_id) AS id"


def other_send(tx: Transaction, action_id: int, account: str, message_id: str) -> int | None:
    """The send, not this one, that a message of an account is known as, however it is spelled; None while there is none."""
    found: int | None = tx.one(OTHER, id=action_id, account=account, message_id=message_id).id
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


# On a notice, by a provider's answer, or in a look-up or a hint of a send of the account.
SEEN = """
SELECT EXISTS (SELECT FROM nottwice.messages m WHERE m.account = a.account AND m.message_id = g.key)
    OR EXISTS (SELECT FROM nottwice.evidence e WHERE e.action_id = a.id AND nottwice.meeting_key(e.message_id) = g.key)
    OR EXISTS (SELECT FROM nottwice.evidence e JOIN nottwice.actions o ON o.id = e.action_id
               WHERE e.points_to = 'sent' AND NOT e.proof AND e.message_id IS NOT NULL AND o.account = a.account
                 AND nottwice.meeting_key(e.message_id) = g.key) AS seen
FROM nottwice.actions a, LATERAL (SELECT nottwice.meeting_key(:message_id) AS key) AS g WHERE a.id = :id
"""
READ_IN = "on no notice of ours; read in: "  # how the audit says that a person's word is all there is
READ_IN_CHARACTERS_MAX = 300


def is_seen(tx: Transaction, action_id: int, message_id: str) -> bool:
    """Whether anything but a person's word names this message: a notice, a look-up, an answer, a hint."""
    return bool(tx.one(SEEN, id=action_id, message_id=message_id).seen)


def basis_of(tx: Transaction, action_id: int, message_id: str, read_in: str) -> str:
    """What a number rests on, for the audit. Raises Incomplete when it is on nothing of ours and nobody says where it is read.

    Providers publish no form of their numbers, so that what was typed by mistake can be told by this alone.
    """
    if is_seen(tx, action_id, message_id):
        return ""
    where = read_in.strip()[:READ_IN_CHARACTERS_MAX]
    if not where:
        raise Incomplete(
            "This number is on no notice and in no look-up of ours. Nothing was done. Compare it once more; if it is right, "
            "say where you read it."
        )
    return f"{READ_IN}{where}"
