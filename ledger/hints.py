"""Notices about mail to the recipient of an uncertain send, near in time, of a message that nobody knows: hints.

A hint settles nothing. It is shown to people, who may adopt it. While any send to the same recipient is under way at
the account, no hint is given: the message may be that one's, and its answer will say so. When it turns out whose
the message was, that is said at every other send that had it as a hint.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from ledger import answers, judging
from ledger.database import Transaction
from ledger.notices import What, origin
from ledger.records import Evidence, PointsTo
from ledger.states import ActionState

BEFORE_S = 120.0  # the provider's clock may be behind ours
AFTER_S = 3600.0
SENDS_MAX = 2000  # the newest on the desk; what waits longer has had its look
SINCE_S = 172_800.0  # a webhook is tried again for 27.6 h (docs.svix.com, retries)

FOUND = {
    What.SENT: "went out",
    What.DELIVERED: "was delivered",
    What.BOUNCED: "went out and bounced",
    What.COMPLAINED: "was delivered, and its recipient complained",
    What.REJECTED: "was taken and then rejected",
}

ON_THE_DESK = """
SELECT id FROM nottwice.actions
WHERE state = 'needs_review' AND review_since > now() - make_interval(secs => :since_s)
ORDER BY review_since DESC, id DESC LIMIT :most
"""

# Every notice near an uncertain try, to one of its recipients, of a message nobody knows, that was not told there yet.
FITTING = """
SELECT DISTINCT d.id AS action_id, n.account, n.message_id, n.what, n.occurred_at, n.event_id
FROM nottwice.actions d
JOIN nottwice.action_attempts t ON t.action_id = d.id
    AND (t.outcome IN ('unknown', 'in_flight') OR t.outcome IS NULL AND t.abandoned_at IS NOT NULL)
JOIN nottwice.action_contents c ON c.action_id = d.id
CROSS JOIN LATERAL unnest(c.recipients) AS r(recipient)
JOIN nottwice.notices n ON n.account = d.account AND n.recipient = nottwice.mailbox(r.recipient) AND n.recipient <> ''
    AND n.occurred_at BETWEEN t.started_at - make_interval(secs => :before_s) AND t.started_at + make_interval(secs => :after_s)
JOIN nottwice.messages m ON m.account = n.account AND m.message_id = n.message_id AND m.action_id IS NULL
WHERE d.id = ANY (CAST(:ids AS bigint[]))
  AND NOT EXISTS (SELECT FROM nottwice.evidence e WHERE e.action_id = d.id AND e.event_id = n.event_id)
  AND NOT EXISTS (SELECT FROM nottwice.actions s JOIN nottwice.action_contents o ON o.action_id = s.id
                  WHERE s.state = 'sending' AND s.account = d.account
                    AND EXISTS (SELECT FROM unnest(o.recipients) AS x(recipient) WHERE nottwice.mailbox(x.recipient) = n.recipient))
  AND NOT EXISTS (SELECT FROM nottwice.actions g
                  WHERE g.message_id IN (n.message_id, '<' || n.message_id || '>') AND g.account = n.account AND g.state = 'sent')
ORDER BY n.occurred_at, d.id LIMIT :limit
"""

# Hints about a message that is known by now as another send's: by the provider's answer, or by the number a person gave.
MISTAKEN = """
SELECT DISTINCT d.id AS action_id, e.message_id
FROM nottwice.actions d JOIN nottwice.evidence e ON e.action_id = d.id AND e.points_to = 'sent'
    AND NOT e.proof AND e.message_id IS NOT NULL
LEFT JOIN nottwice.messages m ON m.account = d.account AND m.message_id = btrim(e.message_id, '<> ')
LEFT JOIN nottwice.actions g ON g.message_id IN (e.message_id, '<' || e.message_id || '>')
    AND g.account = d.account AND g.state = 'sent'
WHERE d.id = ANY (CAST(:ids AS bigint[])) AND coalesce(m.action_id, g.id) <> d.id
  AND NOT EXISTS (SELECT FROM nottwice.evidence w
                  WHERE w.action_id = d.id AND w.message_id = e.message_id AND w.points_to = 'neither')
ORDER BY d.id LIMIT :limit
"""


def give(tx: Transaction, *, limit: int = 100) -> int:
    """Tell uncertain sends of the notices that may be theirs, and take back what was not; returns how many were told.

    Called again and again: it does not matter whether the notice or the doubt came first.
    """
    ids = [row.id for row in tx.all(ON_THE_DESK, since_s=SINCE_S, most=SENDS_MAX)]
    if not ids:
        return 0
    fitting = tx.all(FITTING, ids=ids, limit=limit, before_s=BEFORE_S, after_s=AFTER_S)
    told = sum(_hint(tx, row) for row in fitting)
    for row in tx.all(MISTAKEN, ids=ids, limit=limit):
        _take_back(tx, row)
    return told


def _hint(tx: Transaction, row: sa.Row[Any]) -> bool:
    """Looks once more behind the locks: somebody else may have been here, or the answer may have come."""
    if answers.meet(tx, row.account, row.message_id, None) is not None:
        return False
    send = judging.lock(tx, row.action_id)
    if send.state != ActionState.NEEDS_REVIEW or _is_told(tx, row.action_id, row.event_id):
        return False
    hint = _said(What(row.what), row.occurred_at, send.now)
    points_to = PointsTo.NOT_SENT if row.what == What.REJECTED else PointsTo.SENT
    evidence = Evidence(origin(tx, row.event_id), hint, points_to, False, send.now, row.message_id)
    answers.add_evidence(tx, row.action_id, evidence, event_id=row.event_id)
    return True


def _said(what: What, at: datetime, now: datetime) -> str:
    at = at.astimezone(UTC)
    day = "" if at.date() == now.astimezone(UTC).date() else f"{at.day} {at:%b} at "
    return f"A message to the same recipient {FOUND[what]} at {day}{at:%H:%M:%S} UTC"


def _take_back(tx: Transaction, row: sa.Row[Any]) -> None:
    send = judging.lock(tx, row.action_id)
    if send.state != ActionState.NEEDS_REVIEW or _is_taken_back(tx, row.action_id, row.message_id):
        return
    found = "The message of that notice is another send's; it says nothing about this one"
    said = Evidence("Our own records", found, PointsTo.NEITHER, False, send.now, row.message_id)
    answers.add_evidence(tx, row.action_id, said)


def _is_told(tx: Transaction, action_id: int, event_id: int) -> bool:
    sql = "SELECT FROM nottwice.evidence WHERE action_id = :id AND event_id = :event_id LIMIT 1"
    return tx.first(sql, id=action_id, event_id=event_id) is not None


def _is_taken_back(tx: Transaction, action_id: int, message_id: str) -> bool:
    sql = "SELECT FROM nottwice.evidence WHERE action_id = :id AND message_id = :message_id AND points_to = 'neither' LIMIT 1"
    return tx.first(sql, id=action_id, message_id=message_id) is not None
