"""What people decide about actions. Each act is one audit row and one guarded statement, in that order, in one
transaction under the person's own database role; the database refuses either without the other.

Every decision says what the person had before their eyes (`Seen`). All refusals are of the `Declined` family and
leave nothing changed; the caller notes them in the audit in a transaction of their own.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ledger.database import Transaction
from ledger.decisions.deciding import DECIDERS as DECIDERS
from ledger.decisions.deciding import (
    before,
    change,
    evidence_must_be_in,
    held,
    must_be_complete,
    must_be_in_time,
)
from ledger.decisions.second_person import agree as agree
from ledger.decisions.second_person import ask_new_key as ask_new_key
from ledger.decisions.second_person import disagree as disagree
from ledger.decisions.second_person import must_not_be_asked
from ledger.errors import Incomplete, NotNow
from ledger.evidence.known_messages import basis_of, must_be_no_others
from ledger.records import Act, Decision, Seen, Settled
from ledger.states import ActionState
from ledger.verdict import Finding, VerdictWord

WORDS = {
    Decision.WAS_SENT: "closed as sent",
    Decision.RESEND_SAME_KEY: "send again with the same key",
    Decision.DO_NOT_SEND: "closed without sending",
    Decision.RESEND_NEW_KEY: "send again with a new key",
}
TARGETS = {
    Decision.WAS_SENT: ActionState.SENT,
    Decision.RESEND_SAME_KEY: ActionState.APPROVED,
    Decision.DO_NOT_SEND: ActionState.CLOSED,
}
GIVEN_UP = "closed: not tried again"  # one whose time was over
MESSAGE_ID_CHARACTERS_MAX = 1000


def settle(
    tx: Transaction,
    action_id: int,
    seen: Seen,
    decision: Decision,
    act: Act,
    *,
    message_id: str = "",
    basis: str = "",
    read_in: str = "",
    wait_s: float = 15.0,
) -> Settled:
    """Decide an uncertain send: it was sent, the same key again, or no sending at all.

    `basis` is what the message's number was taken from, for the audit; `read_in` where the person read one that is on no
    notice and in no look-up. A send waits `wait_s` seconds and can be taken back; it passes `start()` like any other. A
    new key needs a second person: `ask_new_key`. Raises NotAllowed, AlreadyDecided, Stale, Incomplete, and NotNow: also for the number
    of a message that is known as another send's.
    """
    row, found = before(tx, action_id, act, seen, ActionState.NEEDS_REVIEW)
    must_be_complete(act, found, decision)
    if decision is Decision.RESEND_NEW_KEY:
        raise NotNow("A new key needs a second person who agrees. Ask for one; nothing was sent.")
    if decision is Decision.RESEND_SAME_KEY:
        must_be_in_time(row)
        must_be_harmless(tx, row, found, wait_s)
    must_not_be_asked(tx, action_id)
    number = message_id.strip()[:MESSAGE_ID_CHARACTERS_MAX] or None
    if number is not None:
        must_be_no_others(tx, action_id, row.account, number)
        basis = "; ".join(filter(None, (basis, basis_of(tx, action_id, number, read_in))))
    return change(
        tx, row, act, WORDS[decision], TARGETS[decision], found, message_id=number, basis=basis, wait_s=wait_s
    )


def approve(tx: Transaction, action_id: int, seen: Seen, act: Act, *, wait_s: float = 15.0) -> Settled:
    """Let exactly this content go out; `seen.content_digest` is what the worker compares with what it sends."""
    row, found = before(tx, action_id, act, seen, ActionState.PROPOSED)
    must_be_in_time(row)
    _must_not_have_moved(row, "Decline it, and let it be proposed anew under another key.")
    return change(tx, row, act, "approved", ActionState.APPROVED, found, wait_s=wait_s)


def decline(tx: Transaction, action_id: int, seen: Seen, act: Act) -> Settled:
    """Nothing goes out under this key, now or later."""
    row, found = before(tx, action_id, act, seen, ActionState.PROPOSED)
    return change(tx, row, act, "declined", ActionState.DECLINED, found)


def requeue(tx: Transaction, action_id: int, seen: Seen, act: Act, *, wait_s: float = 15.0) -> Settled:
    """Try an action again whose time was over; no attempt of it can have gone out."""
    row, found = before(tx, action_id, act, seen, ActionState.FAILED)
    must_be_in_time(row)
    _must_have_its_key(row)
    _must_not_have_moved(row, "It stays as it is.")
    return change(tx, row, act, "try again", ActionState.APPROVED, found, wait_s=wait_s)


def give_up(tx: Transaction, action_id: int, seen: Seen, act: Act) -> Settled:
    """Close an action whose time was over, so that nobody tries it again; no attempt of it can have gone out.

    It can be opened again. Raises Incomplete without a reason, and as every decision.
    """
    row, found = before(tx, action_id, act, seen, ActionState.FAILED)
    if not act.reason.strip():
        raise Incomplete("Nothing was done. Please say why.")
    return change(tx, row, act, GIVEN_UP, ActionState.CLOSED, found)


def take_back(tx: Transaction, action_id: int, act: Act) -> Settled:
    """Stop a decided send before it is claimed: it goes back to where it came from. Raises NotNow when it has gone."""
    row, found = held(tx, action_id, act)
    if row.state != ActionState.APPROVED or not row.decided_send:
        raise NotNow("It has gone, or was never on its way by a decision; it cannot be taken back.")
    return change(tx, row, act, "taken back", _place_before(tx, action_id), found)


def reopen(tx: Transaction, action_id: int, act: Act) -> Settled:
    """Put back on the desk what a person, or a policy, closed without proof. The audit keeps both steps.

    It has waited since it first came there. Raises Incomplete without a reason, and as every decision.
    """
    row, found = held(tx, action_id, act)
    if not act.reason.strip():
        raise Incomplete("Nothing was done. Please say why.")
    if row.state not in (ActionState.SENT, ActionState.CLOSED) or found.state is ActionState.SENT:
        raise NotNow("Only what was closed without proof can be opened again.")
    if _has_successor(tx, action_id):
        raise NotNow("It was sent again with a new key; that one is open in its place.")
    _must_have_its_key(row)
    return change(tx, row, act, "opened again", ActionState.NEEDS_REVIEW, found)


EARLIER_WENT = """
SELECT o.id FROM nottwice.actions n JOIN nottwice.actions o USING (namespace, key_digest)
WHERE n.id = :id AND o.generation < n.generation AND o.state = 'closed' AND o.contradicted_at IS NOT NULL
ORDER BY o.generation DESC LIMIT 1
"""


def must_be_harmless(tx: Transaction, row: sa.Row[Any], found: Finding, wait_s: float) -> None:
    """Raises NotNow unless the same key, used in `wait_s` from now, leaves no more copies than were agreed to.

    Of a first send that is one. A later generation is the one e-mail that two people agreed to: while its key protects it,
    the same key makes no further one, and one person suffices. Their word is over where it certainly did not go out, and
    where proof came since that a send before it did.
    """
    evidence_must_be_in(row)
    _must_not_have_moved(row, "Only a new key can go out there.")
    if found.verdict is VerdictWord.WAS_NOT_SENT:
        _must_be_the_first(row)
        return
    if row.generation > 1 and (earlier := tx.first(EARLIER_WENT, id=row.id)) is not None:
        raise NotNow(
            f"Send {earlier.id}, in whose place it stands, went out after all. Another copy takes two people: ask a second "
            "person to agree anew; nothing was sent."
        )
    if found.key_until is None:
        raise NotNow(f"{row.provider} has no key that would stop a second copy.")
    if (found.key_until - row.now).total_seconds() <= wait_s:
        raise NotNow(
            f"The key ran out at {found.key_until:%H:%M} UTC; it would not stop a second copy any more."
        )


def _must_not_have_moved(row: sa.Row[Any], then: str) -> None:
    """What stands in the row, and what a person read, names an account that nothing sends by any more."""
    if row.moved:
        raise NotNow(
            f"It was written for {row.account}, and {row.provider} has another account in the configuration now. {then}"
        )


def _must_be_the_first(row: sa.Row[Any]) -> None:
    """What stands in another's place went nowhere itself; of that other one, which may have gone, it proves nothing."""
    if row.generation > 1:
        raise NotNow(
            "It stands in the place of an earlier send, which may have gone out, and what two people had agreed to is "
            "over. Ask a second person to agree anew; nothing was sent."
        )


def _must_have_its_key(row: sa.Row[Any]) -> None:
    """Its key may have gone out again since; two of one key must not be open."""
    if not row.key_kept:
        raise NotNow(
            "It is over: its key is no longer kept ([retention] action_keys_days). Nothing was done."
        )


def _place_before(tx: Transaction, action_id: int) -> ActionState:
    """Where a decided send came from: the desk, the list of things to approve, or those whose time was over."""
    row = tx.first(
        """SELECT state_before FROM nottwice.audit WHERE entity = 'action' AND entity_id = :id AND state_after = 'approved'
           AND outcome = 'done' AND person_id IS NOT NULL ORDER BY id DESC LIMIT 1""",
        id=action_id,
    )
    return ActionState(row.state_before or "needs_review") if row else ActionState.NEEDS_REVIEW


def _has_successor(tx: Transaction, action_id: int) -> bool:
    sql = """SELECT FROM nottwice.actions a JOIN nottwice.actions b USING (namespace, key_digest)
             WHERE a.id = :id AND b.generation > a.generation"""
    return tx.first(sql, id=action_id) is not None
