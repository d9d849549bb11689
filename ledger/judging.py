"""The one place where an action's state follows from its history.

Everybody who adds to a history (an answer, a rescue, an observation) or decides about an action locks its row first:
so a history stands still while it is judged, and one guarded statement carries the judgement out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ledger import audit
from ledger.database import Transaction
from ledger.errors import LeaseLost
from ledger.records import Attempt, Evidence, OutcomeKind, PointsTo, Policy, Window
from ledger.retry import action_delay_s
from ledger.states import FINAL_ACTIONS, ActionState
from ledger.verdict import Finding, VerdictWord, is_contradicted, verdict

DELAY_S_MAX = 600.0  # the longest a provider's wish or our backoff holds one action

ROW = """
SELECT id, namespace, state, version, verdict, provider, account, policy, failures, evidence_s, content_digest, generation,
       key_window_s, key_margin_s, retry_until, send_before, evidence_until, review_since, decided_send,
       key_digest IS NOT NULL AS key_kept, now() AS now, nottwice.has_moved(provider, account, place) AS moved,
       coalesce(nullif(:place, ''), nottwice.place_of(provider)) AS place_now
FROM nottwice.actions
"""
LOCK = ROW + "WHERE id = :id FOR NO KEY UPDATE"
LOCK_MANY = ROW + "WHERE id = ANY(CAST(:ids AS bigint[])) ORDER BY id FOR NO KEY UPDATE"


ATTEMPT = """number, account, place, started_at, answered_at, outcome, abandoned_at IS NOT NULL AS abandoned, reason, code,
       message_id, CAST(worker AS text) AS worker, other_content FROM nottwice.action_attempts"""
EVIDENCE = "source, found, points_to, proof, observed_at, message_id FROM nottwice.evidence"


def lock(tx: Transaction, action_id: int, place: str = "") -> sa.Row[Any]:
    """The action's row, held against every other judge and decision until this transaction ends.

    `place`: where whoever is about to send it would; left out, as the workers' configuration has it.
    Without the claim token: people read this too. Raises LeaseLost when there is no such action.
    """
    row = tx.first(LOCK, id=action_id, place=place)
    if row is None:
        raise LeaseLost(f"There is no action {action_id}.")
    return row


def lock_many(tx: Transaction, action_ids: Sequence[int]) -> dict[int, sa.Row[Any]]:
    """As `lock`, many at once and always in the same order; those that there are, by their id."""
    return {row.id: row for row in tx.all(LOCK_MANY, ids=list(action_ids), place="")}


def is_held(tx: Transaction, action_id: int, token: UUID) -> bool:
    """Whether the claim on a locked action is this one, run out or not."""
    sql = "SELECT FROM nottwice.actions WHERE id = :id AND state = 'sending' AND claim_token = :token"
    return tx.first(sql, id=action_id, token=token) is not None


def history(tx: Transaction, action_id: int) -> tuple[list[Attempt], list[Evidence]]:
    """All attempts and all evidence, oldest first: what the verdict reads."""
    attempts = tx.all(f"SELECT {ATTEMPT} WHERE action_id = :id ORDER BY number", id=action_id)
    evidence = tx.all(f"SELECT {EVIDENCE} WHERE action_id = :id ORDER BY id", id=action_id)
    return [_attempt(a._asdict()) for a in attempts], [_evidence(e._asdict()) for e in evidence]


def histories(tx: Transaction, action_ids: Sequence[int]) -> dict[int, tuple[list[Attempt], list[Evidence]]]:
    """As `history`, of many."""
    found: dict[int, tuple[list[Attempt], list[Evidence]]] = {id_: ([], []) for id_ in action_ids}
    of_all = "WHERE action_id = ANY(CAST(:ids AS bigint[])) ORDER BY"
    for a in tx.all(f"SELECT action_id, {ATTEMPT} {of_all} number", ids=list(found)):
        found[a.action_id][0].append(_attempt(_without_id(a)))
    for e in tx.all(f"SELECT action_id, {EVIDENCE} {of_all} id", ids=list(found)):
        found[e.action_id][1].append(_evidence(_without_id(e)))
    return found


def _without_id(row: sa.Row[Any]) -> dict[str, Any]:
    return {name: value for name, value in row._asdict().items() if name != "action_id"}


def _attempt(columns: dict[str, Any]) -> Attempt:
    outcome = columns["outcome"]
    return Attempt(**(columns | {"outcome": outcome and OutcomeKind(outcome)}))


def _evidence(columns: dict[str, Any]) -> Evidence:
    return Evidence(**(columns | {"points_to": PointsTo(columns["points_to"])}))


def window_of(row: Any) -> Window:
    """The window of a row that was read with its key, its patience, its last moment, whether a person asked, whether its
    account moved, and where it is now.
    """
    return Window(
        row.key_window_s,
        row.key_margin_s,
        row.retry_until,
        decided=row.decided_send,
        moved=row.moved,
        place=row.place_now,
        send_before=row.send_before,
    )


def finding(tx: Transaction, row: Any) -> Finding:
    """The verdict on a row as `lock` reads it, at the database's time."""
    return finding_of(row, *history(tx, row.id))


def finding_of(row: Any, attempts: Sequence[Attempt], evidence: Sequence[Evidence]) -> Finding:
    """The verdict on such a row, by its history as it was read."""
    return verdict(
        attempts, evidence, window_of(row), row.now, policy=Policy(row.policy), provider=row.provider
    )


JUDGED = """
UPDATE nottwice.actions SET
    state = :state, verdict = :verdict, version = version + 1,
    claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL,
    message_id = coalesce(:message_id, message_id), failures = :failures,
    due_at = CASE WHEN :state = 'approved' THEN greatest(due_at, now() + make_interval(secs => :delay_s)) END,
    decided_send = decided_send AND :state = 'approved',
    evidence_until = CASE WHEN :state = 'needs_review'
                          THEN coalesce(evidence_until, now() + make_interval(secs => least(evidence_s, 3153600000))) END,
    review_since = CASE WHEN :state = 'needs_review' THEN coalesce(review_since, now()) END,
    settled_at = CASE WHEN :final THEN coalesce(settled_at, now()) END
WHERE id = :id AND version = :version
RETURNING version
"""
# Nothing is done about it and the version stays: it is what the person decided who is told.
CONTRADICTED = (
    "UPDATE nottwice.actions SET contradicted_at = now() WHERE id = :id AND contradicted_at IS NULL"
)


def judge(
    tx: Transaction,
    row: sa.Row[Any],
    *,
    chance: float = 0.0,
    base_s: float = 2.0,
    retry_after_s: float | None = None,
    counts: bool = True,
) -> ActionState:
    """Put a locked action where its whole history says; returns where it is.

    A try that counts grows the backoff: up to base_s·2ⁿ s, of which `chance` in [0, 1) takes a part. One that does not
    count (no call was made, or the account is to blame) is due again at once.
    """
    found, before = finding(tx, row), ActionState(row.state)
    if found.verdict is VerdictWord.WAS_SENT and before is ActionState.CLOSED:
        _hold_successors(tx, row.id)
    target = _target(before, found.state)
    if target is None:
        if is_contradicted(before, found):
            tx.execute(CONTRADICTED, id=row.id)
        return before
    failures = row.failures + counts if target is ActionState.APPROVED else 0
    backoff_s = action_delay_s(failures, chance, base_s=base_s, delay_s_max=DELAY_S_MAX) if counts else 0.0
    waits_s = [backoff_s, min(retry_after_s or 0.0, DELAY_S_MAX)]
    if found.extra_attempt and row.verdict != found.verdict:
        waits_s.append(row.evidence_s)  # what may make a second copy waits for evidence first
    _carry_out(tx, row, target, found, failures, max(waits_s))
    return target


def _target(before: ActionState, found: ActionState) -> ActionState | None:
    """Where a judgement may move an action; None: it stays as it is."""
    if before in (ActionState.SENDING, ActionState.APPROVED):
        return None if found is ActionState.SENDING else found
    if before is ActionState.PROPOSED:  # nobody approved it in time
        return found if found is ActionState.CLOSED else None
    if (
        before is ActionState.NEEDS_REVIEW
    ):  # on a person's desk: facts take it away, a new chance to send does not
        return found if found in (ActionState.SENT, ActionState.REFUSED) else before
    proven = found is ActionState.SENT and before in (ActionState.REFUSED, ActionState.FAILED)
    return found if proven else None


def _carry_out(
    tx: Transaction, row: sa.Row[Any], target: ActionState, found: Finding, failures: int, delay_s: float
) -> None:
    tx.one(
        JUDGED,
        id=row.id,
        version=row.version,
        state=target.value,
        verdict=found.verdict.value,
        message_id=found.message_id,
        failures=failures,
        delay_s=delay_s,
        final=target in FINAL_ACTIONS,
    )
    if target is ActionState.CLOSED or (found.extra_attempt and row.verdict != found.verdict):
        _note_policy(tx, row, target, found)
    if target in FINAL_ACTIONS:
        _void_requests(tx, row.id)


def _note_policy(tx: Transaction, row: sa.Row[Any], target: ActionState, found: Finding) -> None:
    closed, late = target is ActionState.CLOSED, found.verdict is VerdictWord.WAS_NOT_SENT
    audit.by_policy(
        tx,
        "closed by policy" if closed else "sent again by policy",
        row.id,
        version=row.version + 1,
        before=row.state,
        after=target.value,
        why=f"{was_to_go(row.send_before)}, and did not. Nothing went out."
        if late
        else f"The policy of this kind is {row.policy}. It may have gone out.",
    )


def was_to_go(send_before: datetime) -> str:
    """Until when it was worth sending, for the audit and for people."""
    at = send_before.astimezone(UTC)
    return f"It was to go out before {at:%H:%M:%S} UTC on {at.day} {at:%b %Y}"


def _void_requests(tx: Transaction, action_id: int) -> None:
    tx.execute(
        """UPDATE nottwice.requests SET decision = 'void', decided_at = now(), version = version + 1
           WHERE action_id = :id AND decision IS NULL""",
        id=action_id,
    )


DESK = """
UPDATE nottwice.actions SET
    state = 'needs_review', version = version + 1, due_at = NULL, decided_send = false, review_since = now(),
    claim_token = NULL, claimed_by = NULL, claimed_at = NULL, lease_until = NULL, verdict = coalesce(verdict, :verdict)
WHERE id = :id
"""


def put_on_the_desk(tx: Transaction, action_id: int, found: str) -> None:
    """Stop a locked action that is about to be sent, for a person to look at; `found` says why, in our words."""
    tx.execute(
        """INSERT INTO nottwice.evidence (action_id, source, found, points_to, proof)
           VALUES (:id, 'Our own records', :found, 'neither', false)""",
        id=action_id,
        found=found,
    )
    tx.execute(DESK, id=action_id, verdict=VerdictWord.NOBODY_KNOWS.value)


def _hold_successors(tx: Transaction, action_id: int) -> None:
    """Proof came that the first one went out, while its repeat with a new key still waits: a person looks again."""
    rows = tx.all(
        """SELECT n.id FROM nottwice.actions o JOIN nottwice.actions n USING (namespace, key_digest)
           WHERE o.id = :id AND n.generation > o.generation AND n.state = 'approved'
           FOR NO KEY UPDATE OF n""",
        id=action_id,
    )
    for row in rows:
        put_on_the_desk(tx, row.id, "The send before this one went out after all.")
