"""The list of a run before anybody asks for it: what is wanted, row by row, and why a row would be skipped.

Reading only, under the rights of whoever asks: recipients are for those who may see them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import sqlalchemy as sa

from ledger.database import Database, Transaction
from ledger.errors import NotNow
from ledger.records import Role
from ledger.records.reprocess import Listed, Plan, RunMode, Standing, Wanted
from ledger.reprocess.repeats import actions_to_repeat, findings_to_repeat

IDS_AT_ONCE = 20_000  # of one statement, so that no search through history takes long
ROWS_MAX = 50_000

Advance = Callable[[int, int | None], object]

EVENTS = """
SELECT e.id AS event_id, e.version, e.namespace, e.source || ' ' || e.type AS what, e.event_key AS key, e.state,
       coalesce(nottwice.why_not_worked_again(e.id), '') AS refusal
FROM nottwice.events e
WHERE e.id > :after AND e.id <= :last
  AND (cardinality(CAST(:ids AS bigint[])) = 0 OR e.id = ANY (CAST(:ids AS bigint[])))
  AND (:state = '' OR e.state = :state)
  AND (:namespace = '' OR e.namespace = :namespace) AND (:source = '' OR e.source = :source) AND (:type = '' OR e.type = :type)
  AND (CAST(:since AS timestamptz) IS NULL OR e.accepted_at >= CAST(:since AS timestamptz))
  AND (CAST(:until AS timestamptz) IS NULL OR e.accepted_at < CAST(:until AS timestamptz))
  AND (:error = '' OR position(lower(:error) IN lower(coalesce(e.last_error, ''))) > 0 OR EXISTS (
        SELECT FROM nottwice.event_attempts t
        WHERE t.event_id = e.id AND position(lower(:error) IN lower(coalesce(t.error, ''))) > 0))
ORDER BY e.id
"""
STANDING = """
SELECT kind, state, CAST(count(*) AS integer) AS actions FROM nottwice.actions
WHERE event_id = ANY (CAST(:ids AS bigint[])) GROUP BY kind, state ORDER BY kind, state
"""


def plan(
    database: Database,
    wanted: Wanted,
    role: Role,
    *,
    once_ever: Collection[str] = (),
    advance: Advance = lambda done, total: None,
) -> Plan:
    """What would be done, and to whom. Raises NotNow for a list that is longer than a run may be."""
    if wanted.mode is RunMode.REPEAT:
        return database.run(lambda tx: _repeats(tx, wanted, once_ever, role), role=role)
    rows = _events(database, wanted, role, advance)
    ids = [row.event_id for row in rows if not row.refusal]
    standing = database.run(lambda tx: tx.all(STANDING, ids=ids), role=role)
    return Plan(wanted, tuple(rows), tuple(Standing(one.kind, one.state, one.actions) for one in standing))


def _repeats(tx: Transaction, wanted: Wanted, once_ever: Collection[str], role: Role) -> Plan:
    kinds = () if wanted.even_once_ever else once_ever
    stored = actions_to_repeat(tx, wanted.action_ids, kinds, role)
    return Plan(wanted, (*stored, *findings_to_repeat(tx, wanted.finding_ids, kinds, role)))


def _events(database: Database, wanted: Wanted, role: Role, advance: Advance) -> list[Listed]:
    """Page by page over the numbers that can be meant; those that are asked for by number and missing say so."""
    found: list[Listed] = []
    first, last = _bounds(database, wanted, role)
    step = last - first + 1 if wanted.event_ids else IDS_AT_ONCE
    for after in range(first - 1, last, step):
        found += _page(database, wanted, role, after, min(after + step, last))
        advance(min(after + step, last), last)
        if len(found) > ROWS_MAX:
            raise NotNow(f"More than {ROWS_MAX:,} events: ask for a part of them. Nothing was done.")
    known = {row.event_id for row in found}
    return found + [_unknown(n) for n in wanted.event_ids if n not in known]


def _bounds(database: Database, wanted: Wanted, role: Role) -> tuple[int, int]:
    if wanted.event_ids:
        return min(wanted.event_ids), max(wanted.event_ids)
    sql = "SELECT coalesce(min(id), 1) AS first, coalesce(max(id), 0) AS last FROM nottwice.events"
    row = database.run(lambda tx: tx.one(sql), role=role)
    return row.first, row.last


def _page(database: Database, wanted: Wanted, role: Role, after: int, last: int) -> list[Listed]:
    values = {
        "ids": list(wanted.event_ids),
        "state": "" if wanted.event_ids else wanted.state,
        "namespace": wanted.namespace,
        "source": wanted.source,
        "type": wanted.type,
        "error": wanted.error,
        "since": wanted.since,
        "until": wanted.until,
    }
    rows: Sequence[sa.Row[Any]] = database.run(
        lambda tx: tx.all(EVENTS, **values, after=after, last=last), role=role
    )
    return [Listed(**row._asdict()) for row in rows]


def _unknown(event_id: int) -> Listed:
    return Listed(
        "It does not exist, or does not fit the rest of what was asked for.",
        0,
        event_id=event_id,
        exists=False,
    )
