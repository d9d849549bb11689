"""What a provider says became of a message, and what that proves.

A notice is kept whether or not its send is known. Where it meets the record of a sending (by the provider's message
id, else by our own mark sent back) it is proof: a message that was delivered, bounced or complained about had gone
out. A send is never matched by recipient and time alone; that is a hint, see `ledger/evidence/hints.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ledger.actions import answers
from ledger.database import Transaction
from ledger.evidence.message_ids import bare, mailbox, meeting_key
from ledger.payload import storable
from ledger.records import Evidence, PointsTo

RECIPIENT_CHARACTERS_MAX = 320  # RFC 5321, 4.5.3.1: 64, @, 255
RECIPIENTS_MAX = 1000  # of one notice; no provider of ours takes as many in one message
DETAIL_CHARACTERS_MAX = 500


class What(StrEnum):
    """What became of a message. The order is that of a message's life, for notices of one instant."""

    SENT = "sent"
    DELIVERED = "delivered"
    BOUNCED = "bounced"
    COMPLAINED = "complained"
    REJECTED = "rejected"


# What each proves, in words without anything from outside. Bounced is proof too: it was accepted, and came back.
PROOF = {
    What.SENT: "It went out",
    What.DELIVERED: "It was delivered",
    What.BOUNCED: "It went out and bounced",
    What.COMPLAINED: "It was delivered, and its recipient complained",
    What.REJECTED: "It was taken, then rejected, and did not go out",
}


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing a provider said about one message. No recipients: it holds for all of them.

    `reference` is our own mark where the provider sends it back; `occurred_at` is the provider's word.
    """

    account: str
    message_id: str
    what: What
    occurred_at: datetime
    recipients: tuple[str, ...] = ()
    detail: str = ""
    reference: str | None = None


def keep(tx: Transaction, notice: Notice, *, event_id: int) -> int | None:
    """Store a notice, once per event, and let it settle the send it is about; returns that send, or None.

    Raises ValueError for a message id without anything in it: it would match whatever else has none.
    """
    if not bare(notice.message_id):
        raise ValueError("A notice names its message.")
    key = meeting_key(storable(notice.message_id))
    action_id = answers.meet(tx, notice.account, key, None)
    if action_id is None and (marked := _marked(tx, notice)) is not None:
        action_id = answers.meet(tx, notice.account, key, marked)
    new = _store(tx, notice, key, event_id)
    if new:
        tx.execute(STANDS, account=notice.account, key=key)
    if new and action_id is not None and not _is_accepted(tx, action_id):
        answers.add_evidence(tx, action_id, _proof(tx, notice.what, key, event_id), event_id=event_id)
    return action_id


def origin(tx: Transaction, event_id: int) -> str:
    """Where a notice came from, as a person reads it."""
    event = tx.one("SELECT source FROM nottwice.events WHERE id = :id", id=event_id)
    return f"Notice from {event.source}"


def _store(tx: Transaction, notice: Notice, key: str, event_id: int) -> bool:
    """Whether it is new; an event that is worked again says nothing new."""
    found = sorted({mailbox(storable(r))[:RECIPIENT_CHARACTERS_MAX] for r in notice.recipients})[
        :RECIPIENTS_MAX
    ] or [""]
    stored = tx.execute(
        """INSERT INTO nottwice.notices (namespace, account, message_id, recipient, recipient_digest, what, detail, occurred_at, event_id)
           SELECT e.namespace, :account, :key, r.recipient, sha256(convert_to(r.recipient, 'UTF8')), :what, :detail, :occurred_at, e.id
           FROM unnest(CAST(:recipients AS text[])) AS r(recipient), nottwice.events e WHERE e.id = :event_id
           ON CONFLICT ON CONSTRAINT one_notice_per_event_and_recipient DO NOTHING""",
        account=notice.account,
        key=key,
        recipients=found,
        what=notice.what.value,
        detail=storable(notice.detail)[:DETAIL_CHARACTERS_MAX],
        occurred_at=notice.occurred_at,
        event_id=event_id,
    )
    return stored.rowcount > 0


# The message's row is locked by then, so that whoever is told last sees all that was told.
STANDS = """
UPDATE nottwice.messages m SET standing = nottwice.standing_of(m.account, m.message_id)
WHERE m.account = :account AND m.message_id = :key AND m.standing IS DISTINCT FROM nottwice.standing_of(m.account, m.message_id)
"""
MARKED = "SELECT id FROM nottwice.actions WHERE reference = :reference AND account = :account"


def _marked(tx: Transaction, notice: Notice) -> int | None:
    """The send that carries our mark; another installation's marks are not found here."""
    if not notice.reference:
        return None
    row = tx.first(MARKED, reference=storable(notice.reference), account=notice.account)
    return None if row is None else int(row.id)


def _is_accepted(tx: Transaction, action_id: int) -> bool:
    """Whether the provider's own answer settled it: then a notice tells of delivery, and proves nothing new."""
    sql = "SELECT FROM nottwice.action_attempts WHERE action_id = :id AND outcome = 'accepted' LIMIT 1"
    return tx.first(sql, id=action_id) is not None


def _proof(tx: Transaction, what: What, key: str, event_id: int) -> Evidence:
    """A rejection is no proof: it speaks of one message, and another try may have made another."""
    gone, now = what is not What.REJECTED, tx.one("SELECT now() AS at").at
    points_to = PointsTo.SENT if gone else PointsTo.NOT_SENT
    return Evidence(origin(tx, event_id), PROOF[what], points_to, gone, now, key)
