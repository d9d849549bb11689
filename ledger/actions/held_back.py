"""What was proposed and may not go out at all: too late already, or more than its recipient gets. Part of `proposals.py`.

It is closed in the proposing transaction, with its reason in the audit, and has its key nevertheless: it was proposed.
"""

from __future__ import annotations

from ledger.actions import rates
from ledger.database import Transaction
from ledger.records import Proposal
from ledger.states import ActionState


def let_go_or_close(tx: Transaction, action_id: int, proposal: Proposal) -> ActionState:
    """Where a new action is. What is too late takes nothing of its recipients' rate."""
    if not (why := _too_late(tx, action_id, proposal) or rates.over(tx, action_id, proposal)):
        return ActionState.PROPOSED if proposal.rules.approval else ActionState.APPROVED
    tx.execute("SELECT nottwice.hold_back(:id, :why)", id=action_id, why=why)
    return ActionState.CLOSED


# Spelled as `judging.was_to_go` does, by the database: on an application's own connection a time is what it makes of it.
TOO_LATE = """
SELECT to_char(send_before AT TIME ZONE 'UTC', 'HH24:MI:SS "UTC on" FMDD Mon YYYY') AS at FROM nottwice.actions
WHERE id = :id AND send_before <= now()
"""


def _too_late(tx: Transaction, action_id: int, proposal: Proposal) -> str:
    """Why, in words; "": it is not."""
    if proposal.send_before is None and proposal.rules.send_before_s is None:
        return ""
    row = tx.first(TOO_LATE, id=action_id)
    return f"It was to go out before {row.at}, before it was proposed. Nothing went out." if row else ""
