"""Which events a person chose by a filter, for what is done with all of them: their numbers, up to a limit."""

from __future__ import annotations

from ledger.database import Transaction
from ledger.views.events import COUNTED_MAX
from ledger.views.found import Filter, found

CHOSEN = "SELECT id FROM ({found}) AS found ORDER BY id"


def chosen(tx: Transaction, wanted: Filter, *, most: int = COUNTED_MAX) -> list[int]:
    """Their ids in order, counted exactly; one more than `most` stands for more than that. Call it `within` a limit of time."""
    looked = found(tx, wanted, None, most + 1, newest="")
    return [row.id for row in tx.all(CHOSEN.format(found=looked.sql), **looked.values)]
