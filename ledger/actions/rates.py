"""How many of a kind one recipient gets. Asked when an action is proposed, in the proposing transaction.

What counts is what may have gone out, and what still may: what was declined, refused, or closed without having been sent
counts no more. One action to several recipients counts for each, and is over as soon as it is over for one of them.
"""

from __future__ import annotations

from ledger.database import Transaction
from ledger.digests import digest_of
from ledger.evidence.message_ids import mailbox
from ledger.records import Proposal


def over(tx: Transaction, action_id: int, proposal: Proposal) -> str:
    """Count an action that was just stored; why it may not go out when a recipient has had as many, else "".

    A recipient is the bare mailbox in small letters: `Ann <Ann@Example.com>` is `ann@example.com`, and
    `ann+shop@example.com` is somebody else. What has no recipients has no rate.
    """
    rate, rules = proposal.rules.rate, proposal.rules
    digests = sorted({digest_of(mailbox(one)) for one in proposal.recipients})
    if rate is None or not digests:
        return ""
    sql = "SELECT nottwice.is_one_too_many(:id, CAST(:digests AS bytea[]), :most, :within_s) AS over"
    if not tx.one(sql, id=action_id, digests=digests, most=rate.most, within_s=rate.within_s).over:
        return ""
    return (
        f"A recipient has had {rate.most} of this kind within {span(rate.within_s)}, as many as [actions.{rules.kind}] "
        "rate allows. Nothing went out."
    )


def forget(tx: Transaction, *, limit: int = 10_000) -> int:
    """Drop what counts no more; returns how many."""
    return tx.execute(
        """DELETE FROM nottwice.rated WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM nottwice.rated WHERE counts_until <= now() ORDER BY counts_until LIMIT :limit))""",
        limit=limit,
    ).rowcount


def span(seconds: float) -> str:
    """A configured span in its largest whole unit: `1 d`, `90 min`."""
    for unit, each_s in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= each_s and seconds % each_s == 0:
            return f"{seconds / each_s:g} {unit}"
    return f"{seconds:g} s"
