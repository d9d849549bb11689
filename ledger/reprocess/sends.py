"""A repeat carried out: the next generation of a key, with the content two people agreed to and a provider key of its own.

Everything that was looked at when the list was made is looked at once more, with the action's row locked: whoever adds to
its history locks it as well. The new one goes out like any other, after the time in which it can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from ledger import judging
from ledger.actions import proposals
from ledger.actions.proposals import Rendered
from ledger.database import Transaction
from ledger.errors import Misconfigured
from ledger.records import KindRules, Proposal
from ledger.records.reprocess import RowState
from ledger.reprocess import stages as reprocess_stages
from ledger.reprocess.repeats import why_not_now

Rules = Callable[[str], KindRules]  # what configuration says of a kind now
RULES_CHANGED = "What is configured for its kind changed since: it would go out by another account."
EXISTS = "An action of this key exists by now."

COPY = "SELECT nottwice.copied_generation(:id, now() + make_interval(secs => :wait_s)) AS id"
FINDING = """
SELECT f.*, coalesce(a.generation, 0) + 1 AS next FROM nottwice.reprocess_findings f LEFT JOIN nottwice.actions a ON a.id = f.action_id
WHERE f.id = :id
"""
# Two people agreed to exactly this content: that is more than an approval, and is in the audit of the run.
GOES_AFTER = """
UPDATE nottwice.actions SET state = 'approved', due_at = now() + make_interval(secs => :wait_s), decided_send = true, approval = false
WHERE id = :id
"""


def send(tx: Transaction, run: sa.Row[Any], row: sa.Row[Any], rules: Rules, wait_s: float) -> bool:
    """Make the generation of one row, or skip the row with the reason; whether it was made."""
    standing = _standing(tx, row)
    if standing is not None:
        judging.lock(tx, standing)
    refusal = why_not_now(tx, row)
    if not refusal:
        reprocess_stages.working(tx, row.id)
        made = _copied(tx, row, wait_s) if row.finding_id is None else _proposed(tx, row, rules, wait_s)
        if isinstance(made, int):
            return _made(tx, run, row, made)
        refusal = made
    reprocess_stages.end(tx, row.id, RowState.SKIPPED, refusal)
    return False


def _made(tx: Transaction, run: sa.Row[Any], row: sa.Row[Any], made: int) -> bool:
    reprocess_stages.note(tx, run, "repeat", "action", made, version=None, before=None, after="approved")
    reprocess_stages.end(tx, row.id, RowState.DONE, made=made)
    return True


def _standing(tx: Transaction, row: sa.Row[Any]) -> int | None:
    """The action that stands under the key of a row, if one does."""
    if row.finding_id is None:
        return int(row.action_id)
    sql = "SELECT action_id FROM nottwice.reprocess_findings WHERE id = :id"
    standing: int | None = tx.one(sql, id=row.finding_id).action_id
    return standing


def _copied(tx: Transaction, row: sa.Row[Any], wait_s: float) -> int:
    return int(tx.one(COPY, id=row.action_id, wait_s=wait_s).id)


def _proposed(tx: Transaction, row: sa.Row[Any], rules: Rules, wait_s: float) -> int | str:
    """What a handler proposed when it ran again, by what is configured now; why not, where that is not what was agreed to."""
    found = tx.one(FINDING, id=row.finding_id)
    try:
        now: KindRules = rules(found.kind)
    except Misconfigured as error:
        return str(error)
    recipients = tuple(found.recipients)
    request = Rendered(found.action_key, bytes(found.content), bytes(row.content_digest), found.subject)
    if proposals.request_digest(now.provider, now.account, recipients, request.content) != request.digest:
        return RULES_CHANGED
    proposal = Proposal(found.namespace, found.action_key, now, {}, recipients, found.about, found.event_id)
    made = proposals.store(tx, proposal, request, generation=found.next)
    if made is None:
        return EXISTS
    tx.execute(GOES_AFTER, id=made, wait_s=wait_s)
    return made
