"""What people decide about actions. Each act is one audit row and one guarded statement, in that order, in one
transaction under the person's own database role; the database refuses either without the other.

Every decision says what the person had before their eyes (`Seen`). All refusals are of the `Declined` family and
leave nothing changed; the caller notes them in the audit in a transaction of their own.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ledger import answers, audit
from ledger.database import Transaction
from ledger.errors import AlreadyDecided, Incomplete, NotAllowed, NotNow, Stale
from ledger.records import Act, Decision, Role, Seen, Settled
from ledger.states import ActionState
from ledger.verdict import Finding, VerdictWord

DECIDERS = frozenset({Role.SUPPORT, Role.ADMIN})
WORDS = {
    Decision.WAS_SENT: "closed as sent",
    Decision.RESEND_SAME_KEY: "send again with the same key",
    Decision.DO_NOT_SEND: "closed without sending",
    Decision.RESEND_NEW_KEY: "send again with a new key",
}
AGREES = {  # a choice that follows a proof on the page needs no reason of its own
    (VerdictWord.WAS_SENT, Decision.WAS_SENT),
    (VerdictWord.SAFE_TO_TRY_AGAIN, Decision.RESEND_SAME_KEY),
    (VerdictWord.WAS_NOT_SENT, Decision.DO_NOT_SEND),
}
REASON_CHARACTERS_MIN = 4

CHANGE = """
UPDATE nottwice.actions SET
    state = :state, version = version + 1, verdict = :verdict,
    due_at = CASE WHEN :state = 'approved' THEN now() + make_interval(secs => :wait_s) END,
    decided_send = (:state = 'approved'),
    retry_until = CASE WHEN :state = 'approved' THEN greatest(retry_until, now() + make_interval(secs => :wait_s + 3600))
                       ELSE retry_until END,
    failures = 0,
    review_since = CASE WHEN :state = 'needs_review' THEN now() END,
    message_id = coalesce(:message_id, message_id),
    settled_at = CASE WHEN :state IN ('sent', 'closed', 'declined') THEN now() END
WHERE id = :id AND version = :version AND state = :before
RETURNING due_at
"""


def settle(
    tx: Transaction,
    action_id: int,
    seen: Seen,
    decision: Decision,
    act: Act,
    *,
    message_id: str = "",
    wait_s: float = 15.0,
) -> Settled:
    """Decide an uncertain send: it was sent, the same key again, or no sending at all.

    A send waits `wait_s` seconds and can be taken back; it passes `start()` like any other. A new key needs a
    second person: `ask_new_key`.
    """
    row, found = _before(tx, action_id, seen, act, ActionState.NEEDS_REVIEW)
    _complete(act, found, decision)
    if decision is Decision.RESEND_NEW_KEY:
        raise NotNow("A new key needs a second person who agrees. Ask for one; nothing was sent.")
    if decision is Decision.RESEND_SAME_KEY:
        _key_must_protect(row, found)
    _no_open_request(tx, action_id)
    target = {Decision.WAS_SENT: ActionState.SENT, Decision.RESEND_SAME_KEY: ActionState.APPROVED}
    return _change(
        tx,
        row,
        act,
        WORDS[decision],
        target.get(decision, ActionState.CLOSED),
        found,
        message_id=message_id.strip() or None,
        wait_s=wait_s,
    )


def approve(tx: Transaction, action_id: int, seen: Seen, act: Act, *, wait_s: float = 15.0) -> Settled:
    """Let exactly this content go out; `seen.content_digest` is what the worker compares with what it sends."""
    row, found = _before(tx, action_id, seen, act, ActionState.PROPOSED)
    return _change(tx, row, act, "approved", ActionState.APPROVED, found, wait_s=wait_s)


def decline(tx: Transaction, action_id: int, seen: Seen, act: Act) -> Settled:
    """Nothing goes out under this key, now or later."""
    row, found = _before(tx, action_id, seen, act, ActionState.PROPOSED)
    return _change(tx, row, act, "declined", ActionState.DECLINED, found)


def take_back(tx: Transaction, action_id: int, act: Act) -> Settled:
    """Stop a decided send before its time is up. Raises NotNow when it has gone."""
    _may_decide(act)
    audit.refuse_second_use(tx, act)
    row = answers.lock(tx, action_id)
    if row.state != ActionState.APPROVED or not row.decided_send:
        raise NotNow("It has gone, or was never on its way by a decision; it cannot be taken back.")
    target = _place_before_sending(tx, action_id)
    return _change(tx, row, act, "taken back", target, answers.finding(tx, row))


def reopen(tx: Transaction, action_id: int, act: Act) -> Settled:
    """Put a closing made by a person back on the desk. The audit keeps both steps."""
    _may_decide(act)
    audit.refuse_second_use(tx, act)
    row = answers.lock(tx, action_id)
    found = answers.finding(tx, row)
    if row.state not in (ActionState.SENT, ActionState.CLOSED) or found.state is ActionState.SENT:
        raise NotNow(
            "Only what a person closed can be opened again. This is settled by proof, or not closed."
        )
    if tx.first(
        """SELECT FROM nottwice.actions a JOIN nottwice.actions b USING (namespace, key_digest)
           WHERE a.id = :id AND b.generation > a.generation""",
        id=action_id,
    ):
        raise NotNow("It was sent again with a new key; that one is open in its place.")
    return _change(tx, row, act, "opened again", ActionState.NEEDS_REVIEW, found)


def requeue(tx: Transaction, action_id: int, seen: Seen, act: Act, *, wait_s: float = 15.0) -> Settled:
    """Try an action again whose time was over; no attempt of it can have gone out."""
    row, found = _before(tx, action_id, seen, act, ActionState.FAILED)
    return _change(tx, row, act, "try again", ActionState.APPROVED, found, wait_s=wait_s)


# ── A second person ───────────────────────────────────────────────────────────────────────────────────


def ask_new_key(tx: Transaction, action_id: int, seen: Seen, act: Act, *, expires_s: float = 14_400.0) -> int:
    """Ask a second person to agree to a send with a new key. Nothing goes out; returns the request's id."""
    row, found = _before(tx, action_id, seen, act, ActionState.NEEDS_REVIEW)
    _complete(act, found, Decision.RESEND_NEW_KEY)
    _evidence_is_in(row)
    _no_open_request(tx, action_id)
    request_id = tx.one(
        """INSERT INTO nottwice.requests (action_id, action_version, content_digest, wish, requested_by, expires_at, why, looked_at)
           VALUES (:action_id, :version, :digest, 'resend_new_key', :person, now() + make_interval(secs => :s), :why,
                   CAST(:looked_at AS text[])) RETURNING id""",
        action_id=action_id,
        version=row.version,
        digest=seen.content_digest,
        person=act.person.id,
        s=expires_s,
        why=act.reason,
        looked_at=list(act.looked_at),
    ).id
    what = "asked a second person: send again with a new key"
    audit.done(
        tx,
        act,
        what,
        "action",
        action_id,
        version=None,
        before=row.state,
        after=row.state,
        known=found.verdict,
    )
    return int(request_id)


def agree(tx: Transaction, request_id: int, act: Act, *, wait_s: float = 15.0) -> Settled:
    """The second person's word: a new generation with the same content goes out in `wait_s`; the old one is closed."""
    request = _open_request(tx, request_id, act)
    if request.requested_by == act.person.id:
        raise NotAllowed("You asked for this yourself. Somebody else must agree.")
    seen = Seen(request.action_version, bytes(request.content_digest))
    row, found = _before(tx, request.action_id, seen, act, ActionState.NEEDS_REVIEW)
    if len(act.reason.strip()) < REASON_CHARACTERS_MIN or not act.looked_at:
        raise Incomplete("Nothing was done. Please say what you looked at and why.")
    _decide_request(tx, request_id, act, "agreed")
    _change(tx, row, act, "agreed: send again with a new key", ActionState.CLOSED, found)
    return _next_generation(tx, row.id, act, wait_s)


def disagree(tx: Transaction, request_id: int, act: Act) -> int:
    """The request ends; the send is back on the desk as it was. Returns the audit entry."""
    request = _open_request(tx, request_id, act)
    decision = "withdrawn" if request.requested_by == act.person.id else "disagreed"
    _decide_request(tx, request_id, act, decision)
    return audit.done(
        tx, act, f"{decision}: a new key", "action", request.action_id, version=None, before=None, after=None
    )


def _next_generation(tx: Transaction, action_id: int, act: Act, wait_s: float) -> Settled:
    made = tx.one("SELECT * FROM nottwice.next_generation(:id, :wait_s)", id=action_id, wait_s=wait_s)
    audit_id = audit.done(
        tx,
        act,
        "send again with a new key",
        "action",
        made.id,
        version=None,
        before=None,
        after="approved",
        further=True,
    )
    return Settled(made.id, ActionState.APPROVED, audit_id, made.now, made.due_at)


def _open_request(tx: Transaction, request_id: int, act: Act) -> sa.Row[Any]:
    _may_decide(act)
    audit.refuse_second_use(tx, act)
    row = tx.first(
        """SELECT r.*, r.expires_at < now() AS expired, p.name AS decided_by_name FROM nottwice.requests r
           LEFT JOIN nottwice.people p ON p.id = r.decided_by WHERE r.id = :id FOR NO KEY UPDATE OF r""",
        id=request_id,
    )
    if row is None or row.decision == "void":
        raise NotNow("This request is no longer open: what we found settled the send meanwhile.")
    if row.decision is not None:
        raise _first(row.decided_by_name or "Somebody", row.decision, row.decided_at)
    if row.expired:
        raise NotNow("This request has run out. The send is back on the desk.")
    return row


def _decide_request(tx: Transaction, request_id: int, act: Act, decision: str) -> None:
    tx.execute(
        """UPDATE nottwice.requests SET decided_by = :person, decided_at = now(), decision = :decision, version = version + 1
           WHERE id = :id AND decision IS NULL""",
        id=request_id,
        person=act.person.id,
        decision=decision,
    )


def _no_open_request(tx: Transaction, action_id: int) -> None:
    row = tx.first(
        """SELECT p.name FROM nottwice.requests r JOIN nottwice.people p ON p.id = r.requested_by
           WHERE r.action_id = :id AND r.decision IS NULL AND r.expires_at > now()""",
        id=action_id,
    )
    if row is not None:
        raise NotNow(f"{row.name} already asks a second person about this send. Agree or do not agree there.")
    tx.execute(  # a run-out request makes room for a new one
        """UPDATE nottwice.requests SET decision = 'withdrawn', decided_at = now(), version = version + 1
           WHERE action_id = :id AND decision IS NULL""",
        id=action_id,
    )


# ── What every decision checks, and how it is carried out ─────────────────────────────────────────────


def _before(
    tx: Transaction, action_id: int, seen: Seen, act: Act, expected: ActionState
) -> tuple[sa.Row[Any], Finding]:
    _may_decide(act)
    audit.refuse_second_use(tx, act)
    row = answers.lock(tx, action_id)
    if row.version != seen.version or row.state != expected:
        raise _changed(tx, action_id, seen)
    if bytes(row.content_digest) != seen.content_digest:
        raise Stale("The content is not the one you looked at. Nothing was done.")
    return row, answers.finding(tx, row)


def _change(
    tx: Transaction,
    row: sa.Row[Any],
    act: Act,
    what: str,
    target: ActionState,
    found: Finding,
    *,
    message_id: str | None = None,
    wait_s: float = 0.0,
) -> Settled:
    audit_id = audit.done(
        tx,
        act,
        what,
        "action",
        row.id,
        version=row.version + 1,
        before=row.state,
        after=target.value,
        known=found.verdict.value,
        detail=f"message {message_id}" if message_id else "",
    )
    changed = tx.one(
        CHANGE,
        id=row.id,
        version=row.version,
        before=row.state,
        state=target.value,
        verdict=found.verdict.value,
        wait_s=wait_s,
        message_id=message_id,
    )
    return Settled(row.id, target, audit_id, row.now, changed.due_at)


def _may_decide(act: Act) -> None:
    if act.person.role not in DECIDERS:
        raise NotAllowed("You can read this. Support or admin decides.")


def _complete(act: Act, found: Finding, decision: Decision) -> None:
    follows_proof = (found.verdict, decision) in AGREES
    missing = [] if act.looked_at else ["what you looked at"]
    if not follows_proof and len(act.reason.strip()) < REASON_CHARACTERS_MIN:
        missing.append("why")
    if missing:
        raise Incomplete(f"Nothing was done. Please say {' and '.join(missing)}.")


def _key_must_protect(row: sa.Row[Any], found: Finding) -> None:
    _evidence_is_in(row)
    if found.key_until is None:
        raise NotNow(f"{row.provider} has no key that would stop a second copy.")
    if row.now >= found.key_until:
        raise NotNow(
            f"The key ran out at {found.key_until:%H:%M} UTC; it would not stop a second copy any more."
        )


def _evidence_is_in(row: sa.Row[Any]) -> None:
    if row.evidence_until is not None and row.now < row.evidence_until:
        raise NotNow(f"We are still looking for evidence until {row.evidence_until:%H:%M:%S} UTC.")


def _changed(tx: Transaction, action_id: int, seen: Seen) -> AlreadyDecided | Stale:
    last = tx.first(
        """SELECT a.act, a.at, p.name FROM nottwice.audit a JOIN nottwice.people p ON p.id = a.person_id
           WHERE a.entity = 'action' AND a.entity_id = :id AND a.outcome = 'done' AND a.entity_version > :version
           ORDER BY a.id LIMIT 1""",
        id=action_id,
        version=seen.version,
    )
    if last is not None:
        return _first(last.name, last.act, last.at)
    return Stale("This send changed while you had it open. Nothing was done; look at it as it is now.")


def _first(who: str, what: str, at: datetime) -> AlreadyDecided:
    return AlreadyDecided(
        f"Not done. {who} was first: {what}, at {at:%H:%M:%S} UTC. Nothing of yours was carried out.",
        who=who,
        what=what,
        at=at,
    )


def _place_before_sending(tx: Transaction, action_id: int) -> ActionState:
    """Where a decided send came from: the desk, or the list of things to approve."""
    row = tx.one(
        """SELECT state_before FROM nottwice.audit WHERE entity = 'action' AND entity_id = :id AND state_after = 'approved'
           AND outcome = 'done' ORDER BY id DESC LIMIT 1""",
        id=action_id,
    )
    return ActionState(row.state_before or "needs_review")
