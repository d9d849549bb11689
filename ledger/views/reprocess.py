"""What screens and the command line read of runs: which there are, how far each is, and what became of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ledger.database import Transaction
from ledger.database.rows import made
from ledger.records import Role
from ledger.records.reprocess import Found, RowState, RunMode, RunState
from ledger.reprocess.repeats import SEES_RECIPIENTS, changed_since_listed

PAGE = 500


@dataclass(frozen=True, slots=True)
class Run:
    """A run in a list. `rows` counts all on its list, those skipped from the first included."""

    id: int
    mode: RunMode
    state: RunState
    version: int
    selection: str
    why: str
    asked_by: str
    asker_id: int
    asked_at: datetime
    second: bool
    agreed_by: str
    stopped_by: str
    expires_at: datetime | None
    has_expired: bool
    ended_at: datetime | None
    pace_per_s: float
    list_digest: str
    now: datetime
    rows: int
    waiting: int
    working: int
    done: int
    skipped: int
    failed: int

    @property
    def over(self) -> int:
        """How many rows have their result."""
        return self.done + self.skipped + self.failed

    @property
    def is_open(self) -> bool:
        return self.state is RunState.RUNNING or (self.state is RunState.WAITING and not self.has_expired)


@dataclass(frozen=True, slots=True)
class Row:
    """A row with its result. `what` and `key` are words of strangers. `recipients` None: not for this reader.

    `sent` is where the repeat stands that it made.
    """

    id: int
    event_id: int | None
    action_id: int | None
    finding_id: int | None
    state: RowState
    reason: str
    what: str
    key: str
    recipients: tuple[str, ...] | None
    found_same: int
    found_new: int
    found_differs: int
    made_action_id: int | None
    sent: str | None
    began_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a handler proposed when it ran again, where that is not what stands."""

    id: int
    event_id: int
    found: Found
    kind: str
    action_key: str
    action_id: int | None
    recipients: tuple[str, ...] | None
    content_gone: bool


# A run that is done has its results with it; what is open, or was stopped, is counted.
RUNS = """
SELECT r.id, r.mode, r.state, r.version, r.selection, r.why, asker.name AS asked_by, r.requested_by AS asker_id,
       r.requested_at AS asked_at, r.needs_second AS second,
       coalesce(agreer.name, '') AS agreed_by, coalesce(stopper.name, '') AS stopped_by, r.expires_at,
       coalesce(r.state = 'waiting' AND r.expires_at <= now(), false) AS has_expired, r.ended_at, r.pace_per_s,
       encode(r.list_digest, 'hex') AS list_digest, now() AS now,
       coalesce(r.rows_done + r.rows_skipped + r.rows_failed, n.rows) AS rows, n.waiting, n.working, coalesce(r.rows_done, n.done) AS done,
       coalesce(r.rows_skipped, n.skipped) AS skipped, coalesce(r.rows_failed, n.failed) AS failed
FROM nottwice.reprocess_runs r JOIN nottwice.people asker ON asker.id = r.requested_by
LEFT JOIN nottwice.people agreer ON agreer.id = r.agreed_by LEFT JOIN nottwice.people stopper ON stopper.id = r.stopped_by
CROSS JOIN LATERAL (
    SELECT CAST(count(*) AS integer) AS rows, CAST(count(*) FILTER (WHERE w.state = 'waiting') AS integer) AS waiting,
           CAST(count(*) FILTER (WHERE w.state = 'working') AS integer) AS working,
           CAST(count(*) FILTER (WHERE w.state = 'done') AS integer) AS done,
           CAST(count(*) FILTER (WHERE w.state = 'skipped') AS integer) AS skipped,
           CAST(count(*) FILTER (WHERE w.state = 'failed') AS integer) AS failed
    FROM nottwice.reprocess_rows w WHERE w.run_id = r.id AND r.rows_done IS NULL) AS n
WHERE {which} ORDER BY r.id DESC LIMIT :limit
"""
NEWEST, ONE = "r.id < coalesce(CAST(:before AS bigint), 9223372036854775807)", "r.id = :id"
WAITING = "r.state = 'waiting' AND r.expires_at > now()"
OPEN = """
SELECT CAST((SELECT count(*) FROM nottwice.reprocess_runs WHERE state = 'running') AS integer) AS running,
       CAST((SELECT count(*) FROM nottwice.reprocess_runs r WHERE {waiting}) AS integer) AS waiting
""".replace("{waiting}", WAITING)
ROWS = """
SELECT w.id, w.event_id, w.action_id, w.finding_id, w.state, w.reason, coalesce(e.source || ' ' || e.type, f.kind, a.kind, '') AS what,
       coalesce(e.event_key, f.action_key, a.action_key, '') AS key, {recipients} AS recipients,
       w.found_same, w.found_new, w.found_differs, w.made_action_id, m.state AS sent, w.began_at, w.ended_at
FROM nottwice.reprocess_rows w LEFT JOIN nottwice.events e ON e.id = w.event_id LEFT JOIN nottwice.actions a ON a.id = w.action_id
LEFT JOIN nottwice.reprocess_findings f ON f.id = w.finding_id LEFT JOIN nottwice.actions m ON m.id = w.made_action_id
WHERE w.run_id = :run_id AND w.id > :after ORDER BY w.id LIMIT :limit
"""
FINDINGS = """
SELECT f.id, f.event_id, f.found, f.kind, f.action_key, f.action_id, {recipients} AS recipients, f.content_gone
FROM nottwice.reprocess_rows w JOIN nottwice.reprocess_findings f ON f.row_id = w.id
WHERE w.run_id = :run_id AND f.id > :after ORDER BY f.id LIMIT :limit
"""
NOBODY = "CAST(NULL AS text[])"
STORED = "coalesce(f.recipients, (SELECT c.recipients FROM nottwice.action_contents c WHERE c.action_id = w.action_id))"


def newest(tx: Transaction, limit: int = 20, *, before: int | None = None) -> list[Run]:
    """The last runs, the newest first; those asked for before another one."""
    return [_run(row) for row in tx.all(RUNS.format(which=NEWEST), before=before, limit=limit)]


def waiting(tx: Transaction, limit: int = 20) -> list[Run]:
    """Those that a second person could agree to now, the newest first."""
    return [_run(row) for row in tx.all(RUNS.format(which=WAITING), limit=limit)]


def open_runs(tx: Transaction) -> tuple[int, int]:
    """How many are under way, and how many wait for a second person."""
    row = tx.one(OPEN)
    return row.running, row.waiting


def asked_with(tx: Transaction, form: UUID) -> int | None:
    """The run that was asked for with this one-time form."""
    sql = """SELECT entity_id FROM nottwice.audit
             WHERE form_id = :form AND outcome = 'done' AND entity = 'reprocess' AND entity_version = 1"""
    row = tx.first(sql, form=form)
    return int(row.entity_id) if row else None


def run(tx: Transaction, run_id: int) -> Run | None:
    found = tx.all(RUNS.format(which=ONE), id=run_id, limit=1)
    return _run(found[0]) if found else None


def rows(tx: Transaction, run_id: int, role: Role, *, after: int = 0, limit: int = PAGE) -> list[Row]:
    """A page of a run's list with its results, in the list's order."""
    sql = ROWS.format(recipients=STORED if role in SEES_RECIPIENTS else NOBODY)
    found = tx.all(sql, run_id=run_id, after=after, limit=limit)
    return [made(Row, row, state=RowState(row.state), recipients=_tuple(row.recipients)) for row in found]


def findings(tx: Transaction, run_id: int, role: Role, *, after: int = 0, limit: int = PAGE) -> list[Finding]:
    """A page of what was found in a run."""
    sql = FINDINGS.format(recipients="f.recipients" if role in SEES_RECIPIENTS else NOBODY)
    found = tx.all(sql, run_id=run_id, after=after, limit=limit)
    return [made(Finding, row, found=Found(row.found), recipients=_tuple(row.recipients)) for row in found]


def has_found(tx: Transaction, run_id: int, finding_id: int) -> bool:
    """Whether this finding is one of this run's."""
    sql = """SELECT FROM nottwice.reprocess_findings f JOIN nottwice.reprocess_rows w ON w.id = f.row_id
             WHERE f.id = :finding_id AND w.run_id = :run_id"""
    return tx.first(sql, run_id=run_id, finding_id=finding_id) is not None


def void_because(tx: Transaction, run_id: int) -> str:
    """Why nobody can agree to a waiting repeat any more; empty: somebody can."""
    return changed_since_listed(tx, run_id)


def _run(row: sa.Row[Any]) -> Run:
    return made(Run, row, mode=RunMode(row.mode), state=RunState(row.state))


def _tuple(texts: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if texts is None else tuple(texts)
