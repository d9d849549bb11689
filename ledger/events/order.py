"""Events with one ordering key, a lane, run one at a time in the order of their acceptance. Part of the event machine.

The claim (`claiming.py`) takes only the first of a lane, and lines up the others it meets, each behind the one ahead of
it. What is lined up is offered to nobody, so that a long lane costs a claim nothing; it is let go here, when the one
ahead of it has ended: done, set aside, or closed as unhandled. One that goes back to pending keeps its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ledger.database import Transaction

# Only behind one whose lock we hold and that still lives, so that it cannot end unseen meanwhile. The blocked ones are
# locked by the claim that met them.
LINE_UP = """
WITH ahead AS MATERIALIZED (
    SELECT e.id FROM nottwice.events e
    WHERE e.id = ANY (CAST(:behind AS bigint[])) AND e.state IN ('pending', 'processing')
    ORDER BY e.id FOR SHARE SKIP LOCKED)
UPDATE nottwice.events e SET waits_behind = b.behind
FROM unnest(CAST(:blocked AS bigint[]), CAST(:behind AS bigint[])) AS b(id, behind)
WHERE e.id = ANY (CAST(:blocked AS bigint[])) AND e.id = b.id AND b.behind IN (SELECT id FROM ahead)
"""


def line_up(tx: Transaction, blocked: Sequence[int], behind: Sequence[int]) -> int:
    """Offer the blocked ones no more until the one before each has ended; how many were lined up.

    In the transaction of the claim that met them. One whose predecessor is just ending is left as it is.
    """
    return tx.execute(LINE_UP, blocked=list(blocked), behind=list(behind)).rowcount if blocked else 0


# Only pending events are lined up, by a CHECK. The word `pending` here would let a planner without statistics walk them all.
LET_GO = """
UPDATE nottwice.events SET waits_behind = 0
WHERE waits_behind = ANY (CAST(:ended AS bigint[])) AND waits_behind <> 0
"""


def let_next_go(tx: Transaction, ended: Iterable[int]) -> None:
    """What was lined up behind these is offered again. In the transaction that ended them, as a statement after that.

    A statement of its own, because only then it sees who was lined up while the ending waited for the row's lock.
    """
    ids = list(ended)
    if ids:
        tx.execute(LET_GO, ended=ids)


# Somebody ahead whose kind has lost its last handler, or who is gone: an order kept by nobody must not hold up a lane.
FORGOTTEN = """
WITH looked AS MATERIALIZED (
    SELECT e.id, e.waits_behind FROM nottwice.events e
    WHERE e.waits_behind <> 0 AND e.waits_behind > :after ORDER BY e.waits_behind LIMIT :limit),
forgotten AS (
    SELECT l.id, l.waits_behind FROM looked l LEFT JOIN nottwice.events ahead ON ahead.id = l.waits_behind
    WHERE ahead.id IS NULL OR ahead.state IN ('completed', 'failed')
       OR (ahead.state = 'pending' AND NOT EXISTS (
               SELECT FROM nottwice.workers w
               WHERE w.kind = 'worker' AND ahead.source || ' ' || ahead.type = ANY (w.handles)))),
freed AS (
    UPDATE nottwice.events e SET waits_behind = 0 FROM forgotten f
    WHERE e.id = f.id AND e.waits_behind = f.waits_behind RETURNING e.id)
SELECT (SELECT max(waits_behind) FROM looked) AS last, (SELECT count(*) FROM looked) AS looked, (SELECT count(*) FROM freed) AS freed
"""


@dataclass(frozen=True, slots=True)
class Looked:
    """How many were looked at, how many of them let go, and where the next look begins."""

    looked: int
    freed: int
    last: int


def free_forgotten(tx: Transaction, *, after: int = 0, limit: int = 500) -> Looked:
    """Let go what waits behind an event that nobody will work: at most `limit` are looked at, from `after` on.

    Nothing is lost by letting go too much: the next claim that meets it lines it up again.
    """
    row = tx.one(FORGOTTEN, after=after, limit=limit)
    return Looked(row.looked, row.freed, row.last or 0)
