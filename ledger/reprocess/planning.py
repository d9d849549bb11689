"""The list of a run before anybody asks for it: what is wanted, row by row, and why a row would be skipped.

Reading only, under the rights of whoever asks: recipients are for those who may see them. `plan` walks the whole ledger,
page by page; `planned` is one transaction about what was found before, for who looks and then asks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
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
WHERE {which}
  AND (:state = '' OR e.state = :state)
  AND (:namespace = '' OR e.namespace = :namespace) AND (:source = '' OR e.source = :source) AND (:type = '' OR e.type = :type)
  AND (CAST(:since AS timestamptz) IS NULL OR e.accepted_at >= CAST(:since AS timestamptz))
  AND (CAST(:until AS timestamptz) IS NULL OR e.accepted_at < CAST(:until AS timestamptz))
  AND (:error = '' OR position(lower(:error) IN lower(coalesce(e.last_error, ''))) > 0 OR EXISTS (
        SELECT FROM nottwice.event_attempts t
        WHERE t.event_id = e.id AND position(lower(:error) IN lower(coalesce(t.error, ''))) > 0))
ORDER BY e.id
"""
BETWEEN, THESE = "e.id > :after AND e.id <= :last", "e.id = ANY (CAST(:ids AS bigint[]))"
CHANGED = "It changed since it was looked at."
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
    return database.run(lambda tx: _of_events(tx, wanted, rows), role=role)


def planned(
    tx: Transaction,
    wanted: Wanted,
    role: Role,
    *,
    once_ever: Collection[str] = (),
    among: Sequence[int] | None = None,
) -> Plan:
    """As `plan`, in this transaction; of events only those `among` which whoever asks has found to fit already."""
    if wanted.mode is RunMode.REPEAT:
        return _repeats(tx, wanted, once_ever, role)
    rows = _these(tx, wanted, wanted.event_ids if among is None else among)
    return _of_events(tx, wanted, rows)


def as_seen(seen: Plan, now: Plan) -> Plan:
    """The list that was looked at, as it would be frozen now: what changed in between is left out, and says so."""
    found = {row.name: row for row in now.rows}
    return replace(now, rows=tuple(_as_seen(row, found.get(row.name)) for row in seen.rows))


def _as_seen(seen: Listed, now: Listed | None) -> Listed:
    if now is None:
        return replace(seen, refusal=seen.refusal or CHANGED)
    same = (now.version, now.evidence, now.content_digest) == (
        seen.version,
        seen.evidence,
        seen.content_digest,
    )
    return now if same or now.refusal else replace(now, refusal=CHANGED)


def _repeats(tx: Transaction, wanted: Wanted, once_ever: Collection[str], role: Role) -> Plan:
    kinds = () if wanted.even_once_ever else once_ever
    stored = actions_to_repeat(tx, wanted.action_ids, kinds, role)
    return Plan(wanted, (*stored, *findings_to_repeat(tx, wanted.finding_ids, kinds, role)))


def _of_events(tx: Transaction, wanted: Wanted, rows: Sequence[Listed]) -> Plan:
    """With what stands of the events that go."""
    standing = tx.all(STANDING, ids=[row.event_id for row in rows if not row.refusal])
    return Plan(wanted, tuple(rows), tuple(Standing(one.kind, one.state, one.actions) for one in standing))


def _events(database: Database, wanted: Wanted, role: Role, advance: Advance) -> list[Listed]:
    """Those asked for by number, or page by page whatever fits."""
    if wanted.event_ids:
        return database.run(lambda tx: _these(tx, wanted, wanted.event_ids), role=role)
    found: list[Listed] = []
    first, last = _bounds(database, role)
    for after in range(first - 1, last, IDS_AT_ONCE):
        up_to = min(after + IDS_AT_ONCE, last)
        found += database.run(lambda tx: _page(tx, wanted, after, up_to), role=role)  # noqa: B023 - called at once
        advance(up_to, last)
        if len(found) > ROWS_MAX:
            raise NotNow(f"More than {ROWS_MAX:,} events: ask for a part of them. Nothing was done.")
    return found


def _bounds(database: Database, role: Role) -> tuple[int, int]:
    sql = "SELECT coalesce(min(id), 1) AS first, coalesce(max(id), 0) AS last FROM nottwice.events"
    row = database.run(lambda tx: tx.one(sql), role=role)
    return row.first, row.last


def _page(tx: Transaction, wanted: Wanted, after: int, last: int) -> list[Listed]:
    return _listed(tx.all(EVENTS.format(which=BETWEEN), **_values(wanted), after=after, last=last))


def _these(tx: Transaction, wanted: Wanted, ids: Sequence[int]) -> list[Listed]:
    """By their numbers; those that are asked for so and missing say so."""
    found = _listed(tx.all(EVENTS.format(which=THESE), **_values(wanted), ids=list(ids)))
    known = {row.event_id for row in found}
    return found + [_unknown(n) for n in wanted.event_ids if n not in known]


def _values(wanted: Wanted) -> dict[str, Any]:
    return {
        "state": "" if wanted.event_ids else wanted.state,
        "namespace": wanted.namespace,
        "source": wanted.source,
        "type": wanted.type,
        "error": wanted.error,
        "since": wanted.since,
        "until": wanted.until,
    }


def _listed(rows: Sequence[sa.Row[Any]]) -> list[Listed]:
    return [Listed(**row._asdict()) for row in rows]


def _unknown(event_id: int) -> Listed:
    return Listed(
        "It does not exist, or does not fit the rest of what was asked for.",
        0,
        event_id=event_id,
        exists=False,
    )
