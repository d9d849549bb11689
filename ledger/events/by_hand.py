"""What a person does with an event that is stuck: set it aside, or take it out of a worker's hands. Part of the event machine.

Each act is one audit row and one guarded statement, in that order, in one transaction under the person's own database
role. Both fence: the claim token is gone, so the worker that had it can complete, renew and start nothing any more.
To try again what is set aside is `recovery.requeue`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ledger import audit
from ledger.database import Transaction
from ledger.errors import Incomplete, NotAllowed, NotNow, Stale
from ledger.events import recovery
from ledger.records import Act
from ledger.states import EventState

MAY_NOT_SET_ASIDE = "You can read this. Engineer or admin sets it aside."
MAY_NOT_HAND_BACK = "You can read this. Engineer or admin hands it back."
SET_ASIDE, HAND_BACK = "set aside", "hand back"  # as the audit has them
BY_HAND = "Set aside by a person, without an error of its own."

PUT_ASIDE = """
UPDATE nottwice.events SET
    state = 'failed', due_at = NULL, ended_at = now(), waits_behind = 0, last_error = coalesce(last_error, :by_hand),
    version = version + 1, claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL
WHERE id = :id AND version = :version AND state = :before
"""
# It was begun, so the attempt stays counted; one more is allowed where it was the last. A worker that went silent over it
# may have been killed by it: then it runs with nothing beside it.
TAKE_BACK = """
UPDATE nottwice.events SET
    state = 'pending', due_at = now(), attempts_max = greatest(attempts_max, attempts + 1), alone = alone OR lease_until < now(),
    version = version + 1, claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL
WHERE id = :id AND version = :version AND state = :before
"""
NOTE_CLAIM = "SELECT nottwice.note_claim_ended_by_hand(:id, :ending)"


def put_aside(tx: Transaction, event_id: int, version: int, act: Act, *, detail: str = "") -> int:
    """Nobody works on it until a person tries it again. Returns the audit entry.

    `version` is the row's as the person saw it. What waits behind it in its order is let go by the workers, within a
    minute. Raises NotAllowed, Incomplete without a reason, Stale, AlreadyDecided, and NotNow for what has ended and for
    what a person has asked to be worked again.
    """
    row = _held(tx, event_id, version, act, MAY_NOT_SET_ASIDE)
    _must_be_possible(SET_ASIDE, row)
    return _change(tx, row, act, SET_ASIDE, EventState.FAILED, detail, by_hand=BY_HAND)


def hand_back(tx: Transaction, event_id: int, version: int, act: Act, *, detail: str = "") -> int:
    """Out of its worker's hands and due at once, whether its lease has ended or not. Returns the audit entry.

    Raises NotAllowed, Incomplete without a reason, Stale, AlreadyDecided, and NotNow when no worker has it.
    """
    row = _held(tx, event_id, version, act, MAY_NOT_HAND_BACK)
    _must_be_possible(HAND_BACK, row)
    return _change(tx, row, act, HAND_BACK, EventState.PENDING, detail)


def why_not(deed: str, state: str, mode: str) -> str:
    """Why an event in this state cannot be set aside, or handed back; empty: it can."""
    if deed == HAND_BACK:
        return "" if state == EventState.PROCESSING else f"No worker has it: it is {_said(state)}."
    if state not in (EventState.PENDING, EventState.PROCESSING):
        return f"It is {_said(state)} already."
    if mode != "first":
        return "It is being worked again because a person asked for it. Cancel that run instead."
    return ""


def _must_be_possible(deed: str, row: sa.Row[Any]) -> None:
    if why := why_not(deed, row.state, row.mode):
        raise NotNow(f"{why} Nothing was done.")


def _held(tx: Transaction, event_id: int, version: int, act: Act, may_not: str) -> sa.Row[Any]:
    """The locked row, as this person saw it."""
    if act.person.role not in recovery.REQUEUERS:
        raise NotAllowed(may_not)
    if not act.reason.strip():
        raise Incomplete("Nothing was done. Please say why.")
    audit.refuse_second_use(tx, act)
    row = tx.first(
        "SELECT id, state, mode, version FROM nottwice.events WHERE id = :id FOR NO KEY UPDATE", id=event_id
    )
    if row is None:
        raise NotNow("There is nothing here, or you may not see it.")
    if row.version != version:
        raise recovery.somebody_first(tx, event_id, version) or _moved_on(row.state)
    return row


def _change(
    tx: Transaction, row: sa.Row[Any], act: Act, what: str, target: EventState, detail: str, **values: str
) -> int:
    """The audit row, the claim's end where there was one, and the one guarded statement."""
    version, sql = row.version + 1, PUT_ASIDE if target is EventState.FAILED else TAKE_BACK
    audit_id = audit.done(
        tx, act, what, "event", row.id, version=version, before=row.state, after=target.value, detail=detail
    )
    tx.execute(NOTE_CLAIM, id=row.id, ending="put_aside" if target is EventState.FAILED else "taken_back")
    tx.execute(sql, id=row.id, version=row.version, before=row.state, **values)
    return audit_id


def _moved_on(state: str) -> Stale:
    return Stale(f"It moved on while you had it open: it is {_said(state)} now. Nothing was done.")


def _said(state: str) -> str:
    return {"processing": "in hand", "failed": "set aside"}.get(state, state)
