"""What came of an event that was worked again: written in the very transaction that completes it.

Nothing is created. What a handler proposes is held against what stands under its key; what is not the same is kept as a
finding, with its content, so that a repeat can send exactly that once two people want it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ledger.actions import proposals
from ledger.actions.proposals import Rendered
from ledger.database import Transaction
from ledger.records import Proposal, Proposed, digest_of
from ledger.records.reprocess import Found, RunMode
from ledger.states import ActionState


@dataclass(frozen=True, slots=True)
class Working:
    """The row of a run under which an event is worked, and how the event stood before."""

    row_id: int
    mode: RunMode
    ending: str
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class Held:
    """One proposal of a handler that runs again, held against what stands. `proposed` is what the handler is told."""

    found: Found
    proposal: Proposal
    request: Rendered
    proposed: Proposed


def working(tx: Transaction, event_id: int) -> Working | None:
    """The row under which this event is worked; None: nobody asked for it by a run."""
    row = tx.first(
        """SELECT w.id, r.mode, w.before_ending, w.before_ended_at
           FROM nottwice.reprocess_rows w JOIN nottwice.reprocess_runs r ON r.id = w.run_id
           WHERE w.event_id = :id AND w.state = 'working'""",
        id=event_id,
    )
    return Working(row.id, RunMode(row.mode), row.before_ending, row.before_ended_at) if row else None


def hold_against(tx: Transaction, proposal: Proposal) -> Held:
    """What `propose` would have done. Raises as it does, and creates nothing."""
    request = proposals.rendered(proposal)
    standing = proposals.find(tx, proposal.namespace, request)
    if standing is None:
        new = Proposed(0, False, ActionState.PROPOSED, True, proposal.rules.kind, would_be_new=True)
        return Held(Found.NEW, proposal, request, new)
    return Held(Found.SAME if standing.same_content else Found.DIFFERS, proposal, request, standing)


DONE = """
UPDATE nottwice.reprocess_rows SET state = 'done', ended_at = now(), found_same = :same, found_new = :new, found_differs = :differs
WHERE id = :id AND state = 'working'
"""
FINDING = """
INSERT INTO nottwice.reprocess_findings (row_id, namespace, event_id, found, kind, action_id, action_key, key_digest, about, content,
                                         recipients, subject, content_digest)
VALUES (:row_id, :namespace, :event_id, :found, :kind, :action_id, :action_key, :key_digest, :about, :content,
        CAST(:recipients AS text[]), :subject, :content_digest)
"""
# A preview ran the handler and undid it: the event stands as it stood, with its time.
STANDS = (
    "UPDATE nottwice.events SET ending = :ending, ended_at = :ended_at WHERE id = :id AND state = 'completed'"
)


def record(tx: Transaction, event_id: int, row: Working, held: Sequence[Held]) -> None:
    """The result of a row, after its event was completed in this transaction. A key that came twice counts once."""
    once = {(one.found, one.request.key): one for one in held}
    counts = Counter(one.found.value for one in once.values())
    tx.execute(DONE, id=row.row_id, **{found.value: counts[found.value] for found in Found})
    for one in once.values():
        if one.found is not Found.SAME:
            tx.execute(FINDING, row_id=row.row_id, event_id=event_id, **_columns(one))
    if row.mode is RunMode.PREVIEW:
        tx.execute(STANDS, id=event_id, ending=row.ending, ended_at=row.ended_at)


def _columns(one: Held) -> dict[str, object]:
    return {
        "namespace": one.proposal.namespace,
        "found": one.found.value,
        "kind": one.proposal.rules.kind,
        "action_id": one.proposed.action_id or None,
        "action_key": one.request.key,
        "key_digest": digest_of(one.request.key),
        "about": one.proposal.about,
        "content": one.request.content,
        "recipients": list(one.proposal.recipients),
        "subject": one.request.subject,
        "content_digest": one.request.digest,
    }
