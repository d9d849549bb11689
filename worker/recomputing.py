"""An event that is worked again: its apply part runs as ever, creates no action, and its result is kept with its row.

In a preview all that the apply part did in the database is undone, and what it proposed is kept all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ledger.database import Transaction
from ledger.records import Mode
from ledger.records.reprocess import RunMode
from ledger.reprocess import results as reprocess_results
from worker.handlers import Handler
from worker.proposing import Propose


def carry_out(tx: Transaction, handler: Handler, prepared: Any, propose: Propose) -> None:
    """Run the apply part in the transaction that completes its event; of a further run, write the result too."""
    event = propose.event
    if event.run.mode is Mode.FIRST:
        handler.commit(tx, event, prepared, propose)
        return
    row = reprocess_results.working(tx, event.id)
    with _undone(tx, row is not None and row.mode is RunMode.PREVIEW):
        handler.commit(tx, event, prepared, propose)
    if row is not None:
        reprocess_results.record(tx, event.id, row, propose.held)


@contextmanager
def _undone(tx: Transaction, is_preview: bool) -> Iterator[None]:
    """A preview's changes meet their deferred constraints before they go, so that it fails where a recompute would."""
    if not is_preview:
        yield
        return
    tx.execute("SAVEPOINT preview")
    yield
    tx.execute("SET CONSTRAINTS ALL IMMEDIATE")
    tx.execute("ROLLBACK TO SAVEPOINT preview")
