"""The rows of a run: begun, ended with a result, or found to have ended without one.

A row's result is written by the very transaction that ends its event: `reprocess_results.record` when it is completed, the
ending itself (`endings.py`, `recovery.py`) when it failed. What ended in any other way, as what nobody handles any more, is
found by the next turn.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from ledger import audit
from ledger.database import Transaction
from ledger.events.recovery import NO_RESULT
from ledger.records import Act, Person, Role
from ledger.records.reprocess import RowState

CLOSE_ENDED = """
UPDATE nottwice.reprocess_rows w SET state = 'failed', ended_at = now(), reason = coalesce(
    (SELECT nullif(t.error, '') FROM nottwice.event_attempts t WHERE t.event_id = e.id AND t.claimed_at >= w.began_at
     ORDER BY t.id DESC LIMIT 1), :silent)
FROM nottwice.events e
WHERE {which} AND w.state = 'working' AND e.id = w.event_id AND (e.state IN ('completed', 'failed') OR e.run <> w.event_run)
"""
CLOSE_ENDED_OF_RUN, CLOSE_ENDED_OF_EVENT = (
    CLOSE_ENDED.format(which=f"w.{column} = :id") for column in ("run_id", "event_id")
)


def close_ended(tx: Transaction, run_id: int) -> int:
    """Note the rows of a run whose event has ended and that have no result; how many."""
    return tx.execute(CLOSE_ENDED_OF_RUN, id=run_id, silent=NO_RESULT).rowcount


def held_by(tx: Transaction, event_id: int) -> int | None:
    """The run that works this event now. The event is locked by the caller."""
    tx.execute(CLOSE_ENDED_OF_EVENT, id=event_id, silent=NO_RESULT)
    row = tx.first(
        "SELECT run_id FROM nottwice.reprocess_rows WHERE event_id = :id AND state = 'working'", id=event_id
    )
    return int(row.run_id) if row else None


def under_way(tx: Transaction, run_id: int) -> int:
    """How many rows of a run are being carried out."""
    sql = "SELECT count(*) AS n FROM nottwice.reprocess_rows WHERE run_id = :run_id AND state = 'working'"
    return int(tx.one(sql, run_id=run_id).n)


END = """
UPDATE nottwice.reprocess_rows SET state = :state, reason = :reason, ended_at = now(), made_action_id = :made,
       began_at = coalesce(began_at, CASE WHEN :state <> 'skipped' THEN now() END)
WHERE id = :id AND state IN ('waiting', 'working')
"""


def end(tx: Transaction, row_id: int, state: RowState, reason: str = "", made: int | None = None) -> None:
    """A row's result."""
    tx.execute(END, id=row_id, state=state.value, reason=reason, made=made)


def working(tx: Transaction, row_id: int) -> None:
    """A repeat is being carried out: only meanwhile may its generation be made (sql/0028)."""
    tx.execute(
        "UPDATE nottwice.reprocess_rows SET state = 'working', began_at = now() WHERE id = :id AND state = 'waiting'",
        id=row_id,
    )


def note(
    tx: Transaction,
    run: sa.Row[Any],
    what: str,
    entity: audit.Entity,
    entity_id: int,
    *,
    version: int | None,
    before: str | None,
    after: str,
) -> None:
    """What a run does to one row, in the record of that row: in the name of who asked for the run, with their reason."""
    role = Role(run.requested_role)
    asker = Person(run.requested_by, run.issuer, run.subject, run.name, run.email, role)
    audit.done(
        tx,
        Act(asker, uuid4(), run.why),
        what,
        entity,
        entity_id,
        version=version,
        before=before,
        after=after,
        detail=f"run {run.id}",
        further=True,
    )
