"""Notices about mail to the recipient of an uncertain send, near in time, of a message that nobody knows: hints.

A hint settles nothing. It is shown to people, who may adopt it. While any send to the same recipient is under way at
the account, no hint is given: the message may be that one's, and its answer will say so. When it turns out whose
the message was, that is said at every other send that had it as a hint.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from ledger import judging
from ledger.actions import answers
from ledger.database import Transaction
from ledger.evidence.notices import What, origin
from ledger.evidence.rests import EARLY
from ledger.records import Evidence, PointsTo
from ledger.states import ActionState

BEFORE_S = 120.0  # the provider's clock may be behind ours
AFTER_S = 3600.0
MESSAGE_ID_SHOWN = 80  # characters, where a sentence names a message
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
# LIMIT and OFFSET keep each probe a probe, whatever the statistics say: joined freely, the planner walks the history.
FITTING = """
WITH desk AS MATERIALIZED (
    SELECT DISTINCT i.id, a.account, t.started_at, r.recipient
    FROM unnest(CAST(:ids AS bigint[])) AS i(id)
    CROSS JOIN LATERAL (SELECT account FROM nottwice.actions WHERE id = i.id LIMIT 1) AS a
    CROSS JOIN LATERAL (
        SELECT started_at FROM nottwice.action_attempts
        WHERE action_id = i.id AND (outcome IN ('unknown', 'in_flight') OR outcome IS NULL AND abandoned_at IS NOT NULL)
        ORDER BY number DESC LIMIT 50) AS t
    CROSS JOIN LATERAL (SELECT recipients FROM nottwice.action_contents WHERE action_id = i.id LIMIT 1) AS c
    CROSS JOIN LATERAL (SELECT nottwice.mailbox(one) AS recipient FROM unnest(c.recipients) AS one) AS r),
busy AS MATERIALIZED (
    SELECT s.account, nottwice.mailbox(one) AS recipient
    FROM nottwice.actions s CROSS JOIN LATERAL (SELECT recipients FROM nottwice.action_contents WHERE action_id = s.id LIMIT 1) AS c
    CROSS JOIN LATERAL unnest(c.recipients) AS one
    WHERE s.state = 'sending')
SELECT d.id AS action_id, d.account, n.message_id, n.what, n.occurred_at, n.event_id,
       bool_and(n.occurred_at < d.started_at) AS early
FROM desk d
CROSS JOIN LATERAL (
    SELECT message_id, what, occurred_at, event_id FROM nottwice.notices
    WHERE account = d.account AND recipient = d.recipient AND recipient <> ''
      AND occurred_at BETWEEN d.started_at - make_interval(secs => :before_s) AND d.started_at + make_interval(secs => :after_s)
    ORDER BY occurred_at LIMIT 100) AS n
CROSS JOIN LATERAL (
    SELECT action_id FROM nottwice.messages WHERE account = d.account AND message_id = n.message_id LIMIT 1) AS m
WHERE m.action_id IS NULL
  AND NOT EXISTS (SELECT FROM busy b WHERE b.account = d.account AND b.recipient = d.recipient)
  AND NOT EXISTS (SELECT FROM nottwice.evidence e WHERE e.action_id = d.id AND e.event_id = n.event_id OFFSET 0)
  AND NOT EXISTS (SELECT FROM nottwice.actions g
                  WHERE g.message_id IN (n.message_id, '<' || n.message_id || '>') AND g.account = d.account AND g.state = 'sent' OFFSET 0)
GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY n.occurred_at, d.id LIMIT :limit
"""

# Hints about a message that is known by now as another send's: by the provider's answer, or by the number a person gave.
MISTAKEN = """
WITH hint AS MATERIALIZED (
    SELECT DISTINCT i.id, a.account, e.message_id
    FROM unnest(CAST(:ids AS bigint[])) AS i(id)
    CROSS JOIN LATERAL (SELECT account FROM nottwice.actions WHERE id = i.id LIMIT 1) AS a
    CROSS JOIN LATERAL (
        SELECT message_id FROM nottwice.evidence
        WHERE action_id = i.id AND points_to = 'sent' AND NOT proof AND message_id IS NOT NULL LIMIT 100) AS e)
SELECT h.id AS action_id, h.message_id
FROM hint h
LEFT JOIN LATERAL (
    SELECT action_id FROM nottwice.messages WHERE account = h.account AND message_id = btrim(h.message_id, '<> ') LIMIT 1) AS m ON true
LEFT JOIN LATERAL (
    SELECT id FROM nottwice.actions
    WHERE message_id IN (h.message_id, '<' || h.message_id || '>') AND account = h.account AND state = 'sent' LIMIT 1) AS g ON true
WHERE coalesce(m.action_id, g.id) <> h.id
  AND NOT EXISTS (SELECT FROM nottwice.evidence w
                  WHERE w.action_id = h.id AND w.message_id = h.message_id AND w.points_to = 'neither' OFFSET 0)
ORDER BY h.id LIMIT :limit
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
    hint = _said(What(row.what), row.occurred_at, send.now) + (EARLY if row.early else "")
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
    which = row.message_id[:MESSAGE_ID_SHOWN]
    found = f"The message of that notice, {which}, is another send's; it says nothing about this one"
    said = Evidence("Our own records", found, PointsTo.NEITHER, False, send.now, row.message_id)
    answers.add_evidence(tx, row.action_id, said)


def _is_told(tx: Transaction, action_id: int, event_id: int) -> bool:
    sql = "SELECT FROM nottwice.evidence WHERE action_id = :id AND event_id = :event_id LIMIT 1"
    return tx.first(sql, id=action_id, event_id=event_id) is not None


def _is_taken_back(tx: Transaction, action_id: int, message_id: str) -> bool:
    sql = "SELECT FROM nottwice.evidence WHERE action_id = :id AND message_id = :message_id AND points_to = 'neither' LIMIT 1"
    return tx.first(sql, id=action_id, message_id=message_id) is not None
