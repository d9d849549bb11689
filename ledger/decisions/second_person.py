"""A send with a new key may be a second copy, so it takes two people: one asks, another agrees.

The database holds it as well: a request is never agreed to by who made it, both are on record before it takes their
word (sql/0041), and only an agreement of this very transaction lets `nottwice.next_generation` make a new action.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ledger import audit
from ledger.database import Transaction
from ledger.decisions.deciding import (
    before,
    change,
    evidence_must_be_in,
    first,
    may_decide,
    must_be_complete,
    must_be_in_time,
    must_be_somebody_else,
)
from ledger.errors import NotNow
from ledger.evidence import rests
from ledger.records import Act, Seen, Settled
from ledger.states import ActionState
from ledger.verdict import Finding, VerdictWord


def ask_new_key(tx: Transaction, action_id: int, seen: Seen, act: Act, *, expires_s: float = 14_400.0) -> int:
    """Ask a second person to agree to a send with a new key. Nothing goes out; returns the request's id."""
    row, found = before(tx, action_id, act, seen, ActionState.NEEDS_REVIEW)
    must_be_complete(act)
    must_be_in_time(row)
    evidence_must_be_in(row)
    must_not_be_asked(tx, action_id)
    audit.done(
        tx,
        act,
        "asked a second person: send again with a new key",
        "action",
        action_id,
        version=None,
        before=row.state,
        after=row.state,
        known=rests.known_of(tx, row, found),
    )
    return int(
        tx.one(
            """INSERT INTO nottwice.requests (action_id, action_version, content_digest, wish, requested_by, expires_at, why, looked_at,
                                              account, place)
               VALUES (:action_id, :version, :digest, 'resend_new_key', :person, now() + make_interval(secs => :s), :why,
                       CAST(:looked_at AS text[]),
                       coalesce((SELECT p.account FROM nottwice.providers p WHERE p.name = :provider), :account),
                       nottwice.place_of(:provider)) RETURNING id""",
            provider=row.provider,
            account=row.account,
            action_id=action_id,
            version=row.version,
            digest=seen.content_digest,
            person=act.person.id,
            s=expires_s,
            why=act.reason,
            looked_at=list(act.looked_at),
        ).id
    )


def agree(tx: Transaction, request_id: int, seen: Seen, act: Act, *, wait_s: float = 15.0) -> Settled:
    """The second person's word: a new generation with the same content goes out in `wait_s`; the old one is closed.

    `seen` is the send as this second person had it on the page: what was found since the request was made does not end it,
    for who agrees has seen it, and the audit names it.

    Raises NotAllowed for who asked, Stale when the send changed since the second person looked, NotNow when what was asked
    about is not there any more or proof says that it went out, and as every decision.
    """
    request = _open_request(tx, request_id, act)
    must_be_somebody_else(tx, request.requested_by, act)
    row, found = before(tx, request.action_id, act, seen, ActionState.NEEDS_REVIEW)
    must_be_complete(act)
    must_be_in_time(row)
    _must_be_as_asked(tx, request, row, found)
    asked = f"asked by {request.asked_by_name}, request {request_id}"
    basis = "; ".join(filter(None, (asked, _found_since(tx, request))))
    change(tx, row, act, "agreed: send again with a new key", ActionState.CLOSED, found, basis=basis)
    _close_request(tx, request_id, act, "agreed", seen.version)
    made = tx.one("SELECT * FROM nottwice.next_generation(:id, :wait_s)", id=row.id, wait_s=wait_s)
    audit_id = audit.done(
        tx,
        act,
        "send again with a new key",
        "action",
        made.id,
        version=None,
        before=None,
        after=ActionState.APPROVED.value,
        detail=f"in place of send {row.id}; {asked}",
        further=True,
    )
    return Settled(made.id, ActionState.APPROVED, audit_id, made.now, made.due_at)


def _must_be_as_asked(tx: Transaction, request: sa.Row[Any], row: sa.Row[Any], found: Finding) -> None:
    """Raises NotNow, for no look at the page mends it: who asked has to ask again, or there is nothing to ask for."""
    if found.verdict is VerdictWord.WAS_SENT:
        raise NotNow(
            "What was found since says that it went out. A new key would send it twice; nothing was sent."
        )
    if bytes(request.content_digest) != bytes(row.content_digest):
        raise NotNow(
            f"Its content is not what it was when this was asked. Do not agree; {request.asked_by_name} must ask again."
        )
    _must_mean_one_account(tx, request, row)


SINCE = "SELECT id FROM nottwice.evidence WHERE action_id = :id AND id > :last ORDER BY id"


def _found_since(tx: Transaction, request: sa.Row[Any]) -> str:
    """For the audit: what who agreed had seen and who asked had not."""
    numbers = [str(row.id) for row in tx.all(SINCE, id=request.action_id, last=request.last_evidence)]
    return f"found since it was asked, and seen: evidence {', '.join(numbers)}" if numbers else ""


def _must_mean_one_account(tx: Transaction, request: sa.Row[Any], row: sa.Row[Any]) -> None:
    now = tx.first("SELECT account, place FROM nottwice.providers WHERE name = :name", name=row.provider)
    place = now.place if now else ""
    is_other = request.account is not None and request.account != (now.account if now else row.account)
    if is_other or (request.place and place and request.place != place):
        raise NotNow(
            f"{row.provider} has another account in the configuration since this was asked, or another address. Do not agree; "
            f"{request.asked_by_name} must ask again."
        )


def disagree(tx: Transaction, request_id: int, act: Act) -> int:
    """The request ends; the send is on the desk as it was. Who asked withdraws by this. Returns the audit entry."""
    request = _open_request(tx, request_id, act)
    decision = "withdrawn" if request.requested_by == act.person.id else "disagreed"
    audit_id = audit.done(
        tx, act, f"{decision}: a new key", "action", request.action_id, version=None, before=None, after=None
    )
    _close_request(tx, request_id, act, decision)
    return audit_id


def must_not_be_asked(tx: Transaction, action_id: int) -> None:
    """Raises NotNow while a second person is asked about this action; a request that ran out is closed."""
    row = tx.first(
        """SELECT p.name FROM nottwice.requests r JOIN nottwice.people p ON p.id = r.requested_by
           WHERE r.action_id = :id AND r.decision IS NULL AND r.expires_at > now()""",
        id=action_id,
    )
    if row is not None:
        raise NotNow(f"{row.name} asks a second person about this send. Agree or do not agree there.")
    tx.execute(
        """UPDATE nottwice.requests SET decision = 'withdrawn', decided_at = now(), version = version + 1
           WHERE action_id = :id AND decision IS NULL""",
        id=action_id,
    )


def _open_request(tx: Transaction, request_id: int, act: Act) -> sa.Row[Any]:
    may_decide(act)
    audit.refuse_second_use(tx, act)
    action = tx.first("SELECT action_id FROM nottwice.requests WHERE id = :id", id=request_id)
    if action is None:
        raise NotNow("There is nothing here, or you may not see it.")
    # The action first, as everybody else locks them: a proof that settles it voids its requests.
    tx.execute("SELECT FROM nottwice.actions WHERE id = :id FOR NO KEY UPDATE", id=action.action_id)
    row = tx.one(
        """SELECT r.*, r.expires_at <= now() AS expired, p.name AS decided_by_name, q.name AS asked_by_name
           FROM nottwice.requests r JOIN nottwice.people q ON q.id = r.requested_by
           LEFT JOIN nottwice.people p ON p.id = r.decided_by WHERE r.id = :id FOR NO KEY UPDATE OF r""",
        id=request_id,
    )
    if row.decision == "void":
        raise NotNow("This request is no longer open: what we found settled the send meanwhile.")
    if row.decision is not None and row.decided_by is not None:
        raise first(row.decided_by_name, f"{row.decision}: a new key", row.decided_at)
    if row.decision is not None or row.expired:
        raise NotNow("This request has run out. The send is on the desk.")
    return row


def _close_request(
    tx: Transaction, request_id: int, act: Act, decision: str, seen_version: int | None = None
) -> None:
    tx.one(
        """UPDATE nottwice.requests SET decided_by = :person, decided_at = now(), decision = :decision, seen_version = :seen,
                  version = version + 1
           WHERE id = :id AND decision IS NULL RETURNING id""",
        seen=seen_version,
        id=request_id,
        person=act.person.id,
        decision=decision,
    )
