"""What every decision about an action checks first, and the one statement that carries it out.

The order is the database's: the audit row, then the change that it describes (sql/0007 refuses either alone).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ledger import audit, judging
from ledger.database import Transaction
from ledger.errors import AlreadyDecided, Incomplete, NotAllowed, NotNow, Stale
from ledger.evidence import rests
from ledger.records import Act, Decision, Role, Seen, Settled
from ledger.states import FINAL_ACTIONS, ActionState
from ledger.verdict import Finding, VerdictWord

DECIDERS = frozenset({Role.SUPPORT, Role.ADMIN})
DECIDED_TRIES_S = 3600.0  # how long a send that a person decided is tried, when its time was over already
FOLLOWS_A_PROOF = {  # such a choice needs no words of its own
    (VerdictWord.WAS_SENT, Decision.WAS_SENT),
    (VerdictWord.WAS_NOT_SENT, Decision.DO_NOT_SEND),
    (VerdictWord.WAS_NOT_SENT, Decision.RESEND_SAME_KEY),
}

CHANGE = """
UPDATE nottwice.actions SET
    -- Back on the desk it has waited since it came there first: when the time for evidence began.
    state = :state, version = version + 1, verdict = :verdict,
    due_at = CASE WHEN :state = 'approved' THEN now() + make_interval(secs => :wait_s) END,
    decided_send = (:state = 'approved'),
    retry_until = CASE WHEN :state = 'approved' THEN greatest(retry_until, now() + make_interval(secs => :wait_s + :tries_s))
                       ELSE retry_until END,
    failures = 0,
    review_since = CASE WHEN :state = 'needs_review'
                        THEN least(now(), evidence_until - make_interval(secs => least(evidence_s, 3153600000))) END,
    message_id = CASE WHEN :opened THEN NULL ELSE coalesce(:message_id, message_id) END,
    settled_at = CASE WHEN :final THEN now() END,
    contradicted_at = NULL
WHERE id = :id AND version = :version AND state = :before
RETURNING due_at
"""


def before(
    tx: Transaction, action_id: int, act: Act, seen: Seen, expected: ActionState
) -> tuple[sa.Row[Any], Finding]:
    """The locked row and what is known of it, when the person may decide and saw exactly this.

    Raises NotAllowed, AlreadyDecided (this form, or somebody, was first), Stale, NotNow.
    """
    row, found = held(tx, action_id, act)
    if row.version != seen.version:
        raise changed(tx, action_id, seen)
    if row.state != expected:
        raise NotNow(f"This send is {row.state.replace('_', ' ')}. Nothing was done.")
    if bytes(row.content_digest) != seen.content_digest:
        raise Stale("The content is not the one you looked at. Nothing was done.")
    return row, found


def held(tx: Transaction, action_id: int, act: Act) -> tuple[sa.Row[Any], Finding]:
    """The locked row and what is known of it, for an act that does not depend on what was on the page."""
    may_decide(act)
    audit.refuse_second_use(tx, act)
    if tx.first("SELECT FROM nottwice.actions WHERE id = :id", id=action_id) is None:
        raise NotNow("There is nothing here, or you may not see it.")
    row = judging.lock(tx, action_id)
    return row, judging.finding(tx, row)


def may_decide(act: Act) -> None:
    if act.person.role not in DECIDERS:
        raise NotAllowed("You can read this. Support or admin decides.")


def must_be_somebody_else(tx: Transaction, asked_by: int, act: Act) -> None:
    """Raises NotAllowed for who asked, also where they signed in another way since: the same address is the same person."""
    if asked_by == act.person.id:
        raise NotAllowed("You asked for this yourself. Somebody else must agree.")
    if tx.one("SELECT nottwice.same_human(:one, :other) AS same", one=asked_by, other=act.person.id).same:
        raise NotAllowed(
            "You asked for this yourself, signed in another way with the same e-mail address. Somebody else must agree."
        )


def must_be_complete(act: Act, found: Finding | None = None, decision: Decision | None = None) -> None:
    """What was looked at is always said; why, unless the choice follows a proof."""
    missing = [] if act.looked_at else ["what you looked at"]
    follows = found is not None and (found.verdict, decision) in FOLLOWS_A_PROOF
    if not follows and not act.reason.strip():
        missing.append("why")
    if missing:
        raise Incomplete(f"Nothing was done. Please say {' and '.join(missing)}.")


def must_be_in_time(row: sa.Row[Any]) -> None:
    """Raises NotNow for a send that would come too late to be worth anything; nobody may send it any more."""
    if row.send_before is not None and row.now >= row.send_before:
        raise NotNow(f"{judging.was_to_go(row.send_before)}. It is not sent after that; nothing was done.")


def evidence_must_be_in(row: sa.Row[Any]) -> None:
    if row.evidence_until is not None and row.now < row.evidence_until:
        raise NotNow(f"We are still looking for evidence until {row.evidence_until:%H:%M:%S} UTC.")


def change(
    tx: Transaction,
    row: sa.Row[Any],
    act: Act,
    what: str,
    target: ActionState,
    found: Finding,
    *,
    message_id: str | None = None,
    basis: str = "",
    wait_s: float = 0.0,
    known: str = "",
    further: bool = False,
) -> Settled:
    """Write the audit row and make the change; `wait_s` is how long a decided send can be taken back.

    `known`: what was known, where it was read already. `further`: one more row of an act that is on record already, without its form.
    """
    audit_id = audit.done(
        tx,
        act,
        what,
        "action",
        row.id,
        version=row.version + 1,
        before=row.state,
        after=target.value,
        known=known or rests.known_of(tx, row, found),
        detail="; ".join(
            filter(None, (_content(row, target), f"message {message_id}" if message_id else "", basis))
        ),
        further=further,
    )
    changed = tx.one(
        CHANGE,
        id=row.id,
        version=row.version,
        before=row.state,
        state=target.value,
        verdict=found.verdict.value,
        wait_s=wait_s,
        tries_s=DECIDED_TRIES_S,
        message_id=message_id,
        opened=row.state in FINAL_ACTIONS,  # the number was that decision's; the audit keeps it
        final=target in FINAL_ACTIONS,
    )
    return Settled(row.id, target, audit_id, row.now, changed.due_at)


def _content(row: sa.Row[Any], target: ActionState) -> str:
    """Who lets something go names it: nottwice.was_let_go looks for this, right before the call."""
    return f"content {bytes(row.content_digest).hex()}" if target is ActionState.APPROVED else ""


def first(who: str, what: str, at: datetime) -> AlreadyDecided:
    """What the loser of a race is told."""
    return AlreadyDecided(
        f"Not done. {who} was first: {what}, at {at:%H:%M:%S} UTC. Nothing of yours was carried out.",
        who=who,
        what=what,
        at=at,
    )


def changed(tx: Transaction, action_id: int, seen: Seen) -> AlreadyDecided | Stale:
    """Why a row is not the one that was seen: somebody decided since, or something came in."""
    last = tx.first(
        """SELECT a.act, a.at, p.name FROM nottwice.audit a JOIN nottwice.people p ON p.id = a.person_id
           WHERE a.entity = 'action' AND a.entity_id = :id AND a.outcome = 'done' AND a.entity_version > :version
           ORDER BY a.id LIMIT 1""",
        id=action_id,
        version=seen.version,
    )
    if last is not None:
        return first(last.name, last.act, last.at)
    return Stale("This send changed while you had it open. Nothing was done; look at it as it is now.")
