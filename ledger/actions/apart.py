"""Each judged by itself: a row that cannot be judged goes to a person, and does not keep the others where they are."""

from __future__ import annotations

import sqlalchemy as sa

from ledger import judging
from ledger.database import Transaction
from ledger.records import Rescued
from ledger.states import ActionState

# What a row's own values bring about. All else (a lost connection, a deadlock) is nobody's fault here, and passes.
ITS_OWN = (ArithmeticError, ValueError, LookupError, TypeError, sa.exc.DataError, sa.exc.IntegrityError)
WHY = "What is written down of it cannot be judged ({error}): look at its times and windows. It was not tried again."


def judge(tx: Transaction, action_id: int, *, base_s: float = 2.0, counts: bool = False) -> Rescued:
    """Judge one of several inside a savepoint; where that fails by its own values, it is put on the desk, with why."""
    try:
        with tx.savepoint():
            row = judging.lock(tx, action_id)
            return Rescued(action_id, judging.judge(tx, row, base_s=base_s, counts=counts))
    except ITS_OWN as error:
        name = type(error).__name__
        judging.put_on_the_desk(tx, action_id, WHY.format(error=name))
        return Rescued(action_id, ActionState.NEEDS_REVIEW, name)
