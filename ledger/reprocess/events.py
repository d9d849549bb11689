"""completed ──recompute──▶ pending: an event is given to its handler once more, under a claim of its own as ever.

Attempts are not rewound: the limit is put as far above them as a person's retry puts it. How the event stood is kept with
the row: a recompute that fails as often as it may puts it back exactly so (`endings.py`, `recovery.py`), because what the
first run left stands.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ledger.database import Transaction
from ledger.events.recovery import MORE_ATTEMPTS
from ledger.records import Mode
from ledger.records.reprocess import RowState, RunMode
from ledger.reprocess import stages as reprocess_stages

# What its handler is told: what a preview leaves behind is what may be chosen to go out once more.
MODES = {RunMode.RECOMPUTE: Mode.RECOMPUTE, RunMode.PREVIEW: Mode.REPEAT}
HELD_BY_ANOTHER = "Run {run} works it now."

LOCKED = """
SELECT id, version, ending, ended_at, nottwice.why_not_worked_again(id) AS refusal FROM nottwice.events WHERE id = :id
"""
BEGIN = """
UPDATE nottwice.reprocess_rows SET state = 'working', began_at = now(), before_ending = :ending, before_ended_at = :ended_at,
       event_run = (SELECT e.run + 1 FROM nottwice.events e WHERE e.id = :event_id)
WHERE id = :id AND state = 'waiting'
"""
# Its content cannot go meanwhile: whoever strips it takes the row's lock first, and leaves what is pending.
RECOMPUTE = """
UPDATE nottwice.events SET state = 'pending', due_at = now(), ended_at = NULL, ending = NULL, mode = :mode, run = run + 1,
       attempts_max = attempts + :more, version = version + 1
WHERE id = :id AND version = :version AND state = 'completed' AND content_digest IS NOT NULL
RETURNING id
"""


def begin(tx: Transaction, run: sa.Row[Any], row: sa.Row[Any]) -> bool:
    """Put one event of a list back to pending, or skip its row with the reason; whether it was begun."""
    tx.execute("SELECT FROM nottwice.events WHERE id = :id FOR NO KEY UPDATE", id=row.event_id)
    held, event = reprocess_stages.held_by(tx, row.event_id), tx.one(LOCKED, id=row.event_id)
    if refusal := HELD_BY_ANOTHER.format(run=held) if held else event.refusal:
        reprocess_stages.end(tx, row.id, RowState.SKIPPED, refusal)
        return False
    reprocess_stages.note(
        tx, run, run.mode, "event", event.id, version=event.version + 1, before="completed", after="pending"
    )
    tx.execute(BEGIN, id=row.id, event_id=event.id, ending=event.ending, ended_at=event.ended_at)
    mode = MODES[RunMode(run.mode)].value
    tx.one(RECOMPUTE, id=event.id, version=event.version, mode=mode, more=MORE_ATTEMPTS)
    return True
