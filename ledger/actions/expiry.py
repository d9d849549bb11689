"""What ran out, as the sweep finds it: claims of actions, and the time in which one may be tried. Part of `actions.py`."""

from __future__ import annotations

from uuid import UUID

from ledger.actions import apart
from ledger.database import Transaction
from ledger.records import Rescued
from ledger.states import ActionState


def rescue(tx: Transaction, *, limit: int = 100, base_s: float = 2.0) -> list[Rescued]:
    """Take back expired claims. Without a started attempt the holder can no longer start: it goes back to its place.

    With one, nobody knows what came of it: the attempt is marked abandoned, and the history is judged.
    """
    rows = tx.all(
        """SELECT id, claim_token FROM nottwice.actions WHERE state = 'sending' AND lease_until < now()
           ORDER BY lease_until, id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED""",
        limit=limit,
    )
    return [_rescue_one(tx, row.id, row.claim_token, base_s) for row in rows]


# Not in the order of ids: that would invite a walk through all that was ever sent. What waits is a small index.
EXPIRED = """
SELECT id FROM nottwice.actions
WHERE state = 'approved' AND NOT decided_send
  AND (retry_until <= now() OR nottwice.key_ends(first_started_at, key_window_s, key_margin_s) <= now())
ORDER BY retry_until, id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
"""


# Whoever decided it, and approved or not.
TOO_LATE = """
SELECT id FROM nottwice.actions
WHERE state IN ('proposed', 'approved') AND send_before <= now()
ORDER BY send_before, id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
"""


def expire(tx: Transaction, *, limit: int = 100) -> list[Rescued]:
    """Judge the actions that still wait though their time, or their key's, is over; returns those that moved.

    Their account may be paused, nobody may have approved them, or no worker may have been there to claim them.
    """
    rows = tx.all(TOO_LATE, limit=limit) or tx.all(EXPIRED, limit=limit)
    moved = [apart.judge(tx, r.id) for r in rows]
    return [m for m in moved if m.state is not ActionState.APPROVED]


def _rescue_one(tx: Transaction, action_id: int, token: UUID, base_s: float) -> Rescued:
    started = tx.execute(
        """UPDATE nottwice.action_attempts SET abandoned_at = now()
           WHERE action_id = :id AND token = :token AND answered_at IS NULL""",
        id=action_id,
        token=token,
    )
    return apart.judge(tx, action_id, base_s=base_s, counts=started.rowcount > 0)
