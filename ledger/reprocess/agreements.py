"""A second person agrees to a run or declines it; who may ask for it cancels it. One guarded statement and its audit row each.

The database holds it as well (sql/0028): nothing that needs a second person runs before one of the right role agreed, and who
agrees is never who asked.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ledger import audit
from ledger.database import Transaction
from ledger.decisions.deciding import first, must_be_somebody_else
from ledger.errors import AlreadyDecided, Incomplete, NotAllowed, NotNow, Stale
from ledger.records import Act, Role
from ledger.records.reprocess import RunMode, RunState
from ledger.reprocess.repeats import changed_since_listed
from ledger.reprocess.requests import ASKERS, EVENT_ASKERS, IN_WORDS, roles

AGREERS = {RunMode.REPEAT: frozenset({Role.SUPPORT, Role.ADMIN})}


def agree(tx: Transaction, run_id: int, act: Act) -> int:
    """The second person's word: the run begins. Returns the audit entry.

    Raises NotAllowed for who asked, and for who may not agree; Incomplete without a reason; AlreadyDecided when somebody was
    first, and NotNow when it is not waiting any more; Stale when what it would send has changed, went out meanwhile, or
    evidence came, since it was asked for: then it has to be asked for anew.
    """
    mode = _mode(tx, run_id)
    agreers = AGREERS.get(mode, EVENT_ASKERS)
    if act.person.role not in agreers:
        raise NotAllowed(f"You can read this. {roles(agreers)} agrees to it.")
    run = _held(tx, run_id, act)
    must_be_somebody_else(tx, run.requested_by, act)
    if not act.reason.strip():
        raise Incomplete("Nothing was begun. Please say why.")
    _must_wait(tx, run)
    if mode is RunMode.REPEAT and (changed := changed_since_listed(tx, run_id)):
        raise Stale(f"Not agreed: {changed} Ask for the others anew; this run is void.")
    return _move(tx, run, act, f"agreed: {IN_WORDS[mode]}", RunState.RUNNING, AGREE)


def decline(tx: Transaction, run_id: int, act: Act) -> int:
    """A second person does not agree; nothing on the list was done. Raises like `agree`."""
    mode = _mode(tx, run_id)
    if act.person.role not in AGREERS.get(mode, EVENT_ASKERS):
        raise NotAllowed("You can read this. Who may agree may decline.")
    run = _held(tx, run_id, act)
    _must_wait(tx, run)
    return _move(tx, run, act, f"did not agree: {IN_WORDS[mode]}", RunState.DECLINED, STOP)


def cancel(tx: Transaction, run_id: int, act: Act) -> int:
    """Stop before the next row: what is under way ends by itself, the rest is not begun. Raises NotAllowed, NotNow."""
    mode = _mode(tx, run_id)
    if act.person.role not in ASKERS.get(mode, EVENT_ASKERS):
        raise NotAllowed("You can read this. Who may ask for it may cancel it.")
    run = _held(tx, run_id, act)
    if run.state == RunState.DONE:
        raise NotNow(f"Run {run.id} is done already; there was nothing left to stop.")
    if run.state not in (RunState.WAITING, RunState.RUNNING):
        raise _over(tx, run)
    return _move(tx, run, act, f"cancelled: {IN_WORDS[mode]}", RunState.CANCELLED, STOP)


AGREE = """
UPDATE nottwice.reprocess_runs SET state = 'running', agreed_by = :person, agreed_at = now(), next_at = now(), begun_at = now(),
       version = version + 1
WHERE id = :id AND version = :version AND state = 'waiting' AND :target = 'running' RETURNING id
"""
STOP = """
UPDATE nottwice.reprocess_runs SET state = :target, stopped_by = :person, next_at = NULL, ended_at = now(), version = version + 1
WHERE id = :id AND version = :version AND state IN ('waiting', 'running') RETURNING id
"""


def _move(tx: Transaction, run: sa.Row[Any], act: Act, what: str, target: RunState, sql: str) -> int:
    """The audit row and the one guarded statement, in this order."""
    audit_id = audit.done(
        tx, act, what, "reprocess", run.id, version=run.version + 1, before=run.state, after=target.value
    )
    tx.one(sql, id=run.id, version=run.version, target=target.value, person=act.person.id)
    return audit_id


def _mode(tx: Transaction, run_id: int) -> RunMode:
    """It never changes, so it is read without a lock: those who may not do this may not lock the row either."""
    row = tx.first("SELECT mode FROM nottwice.reprocess_runs WHERE id = :id", id=run_id)
    if row is None:
        raise NotNow(f"There is no run {run_id}.")
    return RunMode(row.mode)


def _held(tx: Transaction, run_id: int, act: Act) -> sa.Row[Any]:
    audit.refuse_second_use(tx, act)
    return tx.one(
        """SELECT id, mode, state, version, requested_by, expires_at <= now() AS expired
           FROM nottwice.reprocess_runs WHERE id = :id FOR NO KEY UPDATE""",
        id=run_id,
    )


def _must_wait(tx: Transaction, run: sa.Row[Any]) -> None:
    if run.state != RunState.WAITING:
        raise _over(tx, run)
    if run.expired:
        raise NotNow(f"Run {run.id} was waited for too long. Ask for it anew; nothing was done.")


def _over(tx: Transaction, run: sa.Row[Any]) -> AlreadyDecided | NotNow:
    """Who was first is said by name."""
    last = tx.first(
        """SELECT a.act, a.at, p.name FROM nottwice.audit a JOIN nottwice.people p ON p.id = a.person_id
           WHERE a.entity = 'reprocess' AND a.entity_id = :id AND a.outcome = 'done' AND a.entity_version > 1
           ORDER BY a.id DESC LIMIT 1""",
        id=run.id,
    )
    if last is not None:
        return first(last.name, last.act, last.at)
    return NotNow(f"Run {run.id} is {run.state}. Nothing was done.")
