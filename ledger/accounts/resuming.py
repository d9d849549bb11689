"""A person ends the pause of a provider's account, also one that the provider asked for: one send tries it at once.

The pause's row stays until a call succeeds, as after any pause; so what fails again pauses it longer.
"""

from __future__ import annotations

from datetime import datetime

from ledger import audit
from ledger.database import Transaction
from ledger.decisions.deciding import first
from ledger.errors import AlreadyDecided, Incomplete, NotAllowed, NotNow, Stale
from ledger.records import Act, Role
from ledger.terminal import plain

RESUME = "resume"  # the act's name in the audit
WHO = frozenset({Role.ADMIN})
OVER = "This pause is over already. Nothing was done."

STANDING = """
SELECT account, paused_until, reason FROM nottwice.provider_pauses
WHERE id = :id AND paused_until > clock_timestamp()
"""
LAST = """
SELECT p.name, a.at FROM nottwice.audit a JOIN nottwice.people p ON p.id = a.person_id
WHERE a.entity = 'provider' AND a.entity_id = :id AND a.act = :act AND a.outcome = 'done' AND a.at > now() - interval '10 min'
ORDER BY a.id DESC LIMIT 1
"""


def resume(tx: Transaction, act: Act, pause_id: int, paused_until: datetime | None = None) -> str:
    """End a pause in a person's name; returns the account. `paused_until` is what the person saw, where they saw it.

    Raises NotAllowed (admins may), Incomplete, NotNow (it is over), AlreadyDecided (somebody was first, or this form), Stale
    (it was made longer since).
    """
    if act.person.role not in WHO:
        raise NotAllowed("You can read this. An admin resumes an account.")
    if not act.reason.strip():
        raise Incomplete("Nothing was done. Please say why.")
    audit.refuse_second_use(tx, act)
    pause = tx.first(STANDING, id=pause_id)
    if pause is None:
        raise _over(tx, pause_id)
    if paused_until is not None and pause.paused_until != paused_until:
        raise Stale("This pause changed while you had it open. Nothing was done; look at it as it is now.")
    known, detail = (
        f"paused until {pause.paused_until:%H:%M:%S} UTC: {pause.reason}",
        f"account {pause.account}",
    )
    audit_id = audit.done(
        tx,
        act,
        RESUME,
        "provider",
        pause_id,
        version=None,
        before="paused",
        after="open",
        known=known,
        detail=detail,
    )
    if not tx.one("SELECT nottwice.resume_account(:audit_id) AS done", audit_id=audit_id).done:
        raise _over(tx, pause_id)
    return plain(pause.account)


def _over(tx: Transaction, pause_id: int) -> NotNow | AlreadyDecided:
    last = tx.first(LAST, id=pause_id, act=RESUME)
    return NotNow(OVER) if last is None else first(last.name, "resumed", last.at)
