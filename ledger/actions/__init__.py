"""The action machine as processes drive it: propose, claim, start, hand back, rescue, expire.

One transition is one function is one guarded statement. Between claim and call stands `start()`, the judge: it is
committed before the socket opens, and without it no call is made. Proposals are in `proposals.py`, answers and
observations in `answers.py`, what ran out in `expiry.py`, decisions of people in `decisions.py`; all are offered here
as well, so that this is the whole machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from ledger import judging
from ledger.actions import answers
from ledger.actions.answers import add_evidence as add_evidence
from ledger.actions.answers import record_answer as record_answer
from ledger.actions.expiry import expire as expire
from ledger.actions.expiry import rescue as rescue
from ledger.actions.proposals import propose as propose
from ledger.actions.proposals import provider_key as provider_key
from ledger.actions.proposals import reference as reference
from ledger.actions.proposals import request_digest as request_digest
from ledger.database import Transaction
from ledger.decisions import approve as approve
from ledger.decisions import decline as decline
from ledger.decisions import requeue as requeue
from ledger.errors import Held, LeaseLost, MayNotStart
from ledger.records import ActionLease, Attempt, AttemptRef, ClaimedAction, Evidence, Window, Worker
from ledger.states import ActionState

# The first of each account, then the first of those: one index probe an account, however many wait. An account that
# comes out of a pause is tried by one send over all workers: its row is locked, and each try counts itself there, so
# that whoever got the lock after another's commit sees (in the row as it is, not as its snapshot has it) that it was.
CLAIM = """
WITH probed AS MATERIALIZED (
    SELECT p.account FROM nottwice.provider_pauses p JOIN nottwice.provider_pauses seen USING (account)
    WHERE p.account = ANY(CAST(:accounts AS text[])) AND p.probes = seen.probes FOR NO KEY UPDATE OF p SKIP LOCKED),
open AS MATERIALIZED (
    SELECT a.account FROM unnest(CAST(:accounts AS text[])) AS a(account)
    WHERE nottwice.account_is_open(a.account)
      AND (a.account IN (SELECT account FROM probed)
           OR NOT EXISTS (SELECT FROM nottwice.provider_pauses p WHERE p.account = a.account))),
first AS MATERIALIZED (
    SELECT n.id, open.account, n.due_at FROM open CROSS JOIN LATERAL (
        SELECT a.id, a.due_at FROM nottwice.actions a
        WHERE a.state = 'approved' AND a.account = open.account AND a.due_at <= now()
        ORDER BY a.due_at, a.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) AS n),
next AS MATERIALIZED (SELECT id, account FROM first ORDER BY due_at, id LIMIT 1),
counted AS (
    UPDATE nottwice.provider_pauses p SET probes = p.probes + 1 FROM next WHERE p.account = next.account)
UPDATE nottwice.actions a SET
    state = 'sending', due_at = NULL, claim_token = :token, claimed_by = :worker, claimed_at = now(),
    lease_until = now() + make_interval(secs => :lease_s), version = version + 1
FROM next WHERE a.id = next.id
RETURNING a.id, a.namespace, a.kind, a.provider, a.account, a.place, a.action_key, a.provider_key, a.reference, a.content_digest,
          a.attempts, a.created_at, NOT a.approval OR nottwice.was_let_go(a.id, a.content_digest) AS let_go
"""


def claim(
    tx: Transaction, worker: Worker, accounts: Sequence[str], *, lease_s: float
) -> ClaimedAction | None:
    """Take the one action that is due longest, right before its call. None: nothing is due, or all is paused.

    An action whose stored content is not what was rendered, or what a person let go, is put before a person instead.
    """
    while True:
        token = uuid4()
        row = tx.first(CLAIM, accounts=list(accounts), token=token, worker=worker.id, lease_s=lease_s)
        if row is None:
            return None
        stored = tx.first(
            "SELECT content, recipients FROM nottwice.action_contents WHERE action_id = :id", id=row.id
        )
        if stored is None or not _is_what_was_rendered(row, stored):
            judging.put_on_the_desk(
                tx, row.id, "The stored content is not what was rendered. It was not sent."
            )
        elif not row.let_go:
            judging.put_on_the_desk(tx, row.id, "No person let this content go. It was not sent.")
        else:
            return _claimed(row, token, bytes(stored.content))


def renew(tx: Transaction, leases: Sequence[ActionLease], *, lease_s: float) -> set[ActionLease]:
    """Push out the leases that are still ours and have not run out; returns those."""
    rows = tx.all(
        """WITH held AS (
               SELECT a.id FROM nottwice.actions a
               JOIN unnest(CAST(:ids AS bigint[]), CAST(:tokens AS uuid[])) AS l(id, token) ON l.id = a.id
               WHERE a.state = 'sending' AND a.claim_token = l.token AND a.lease_until > now()
               ORDER BY a.id FOR NO KEY UPDATE OF a SKIP LOCKED)
           UPDATE nottwice.actions a SET lease_until = now() + make_interval(secs => :lease_s)
           FROM held WHERE a.id = held.id RETURNING a.id, a.claim_token""",
        ids=[lease.action_id for lease in leases],
        tokens=[lease.token for lease in leases],
        lease_s=lease_s,
    )
    return {ActionLease(row.id, row.claim_token) for row in rows}


START = """
WITH started AS (
    UPDATE nottwice.actions a SET attempts = attempts + 1, first_started_at = coalesce(first_started_at, now()),
        evidence_until = NULL, decided_send = false, version = version + 1
    FROM nottwice.action_contents c
    WHERE a.id = :id AND c.action_id = a.id AND a.state = 'sending' AND a.claim_token = :token AND a.version = :version
      AND a.lease_until > now()
      AND a.content_digest = nottwice.request_digest(a.provider, a.account, c.recipients, c.content)
      AND (NOT a.approval OR nottwice.was_let_go(a.id, a.content_digest))
      AND nottwice.may_send()
    RETURNING a.id, a.attempts, a.account, a.claimed_by)
INSERT INTO nottwice.action_attempts (action_id, number, token, worker, account, place)
SELECT id, attempts, :token, claimed_by, account, :place FROM started
RETURNING id
"""


def start(tx: Transaction, lease: ActionLease, place: str = "") -> AttemptRef:
    """The judge before the call. Commit this, then open the socket; never the other way round.

    `place`: where the call goes; left out, where the provider is as the workers' configuration has it.
    The history is judged on the locked row; the version in the statement ties the two together. Raises LeaseLost
    when the claim is not ours, has run out or was used for its call already, and MayNotStart when the history
    forbids another try (accepted already; uncertain, and no key protects) or the content was changed, and Held (one of
    them) when the ledger is not where it was. After
    MayNotStart call `hand_back` in a transaction of its own: it puts the action where its history says.
    """
    row = judging.lock(tx, lease.action_id, place)
    if not judging.is_held(tx, lease.action_id, lease.token) or _was_started(tx, lease):
        raise LeaseLost(f"Action {lease.action_id} is in other hands, or its call was started.")
    found = judging.finding(tx, row)
    if found.state is not ActionState.APPROVED:
        raise MayNotStart(f"Action {lease.action_id} may not be tried now: {' '.join(found.reasons)}")
    values = {"id": lease.action_id, "token": lease.token, "version": row.version, "place": row.place_now}
    attempt = tx.first(START, **values)
    if attempt is None and not tx.one("SELECT nottwice.may_send() AS may").may:
        raise Held("This ledger was restored or copied. Nothing is sent until a person releases it.")
    if attempt is None:
        raise MayNotStart(f"The lease of action {lease.action_id} ran out, or its content was changed.")
    return AttemptRef(attempt.id, lease.action_id, lease.token)


def hand_back(tx: Transaction, lease: ActionLease, place: str = "") -> ActionState:
    """Give back a claim whose call was not started, and put the action where its history says.

    Raises LeaseLost when the claim is not ours, or when its call was started (then only an answer ends it).
    """
    row = judging.lock(tx, lease.action_id, place)
    if not judging.is_held(tx, lease.action_id, lease.token) or _was_started(tx, lease):
        raise LeaseLost(f"Action {lease.action_id} is in other hands, or its call was started.")
    return judging.judge(tx, row, counts=False)


def stop(tx: Transaction, lease: ActionLease, why: str) -> None:
    """Put a claimed action whose call was not started before a person; `why` is shown there. Raises LeaseLost."""
    judging.lock(tx, lease.action_id)
    if not judging.is_held(tx, lease.action_id, lease.token) or _was_started(tx, lease):
        raise LeaseLost(f"Action {lease.action_id} is in other hands, or its call was started.")
    judging.put_on_the_desk(tx, lease.action_id, why)


def history(tx: Transaction, action_id: int) -> tuple[list[Attempt], list[Evidence], Window]:
    """All that the verdict reads of an action."""
    row = tx.one(
        """SELECT key_window_s, key_margin_s, retry_until, send_before, decided_send, nottwice.has_moved(provider, account, place) AS moved,
                  nottwice.place_of(provider) AS place_now
           FROM nottwice.actions WHERE id = :id""",
        id=action_id,
    )
    return *answers.history(tx, action_id), judging.window_of(row)


def _was_started(tx: Transaction, lease: ActionLease) -> bool:
    sql = "SELECT FROM nottwice.action_attempts WHERE action_id = :id AND token = :token"
    return tx.first(sql, id=lease.action_id, token=lease.token) is not None


def _is_what_was_rendered(row: Any, stored: Any) -> bool:
    found = request_digest(row.provider, row.account, stored.recipients, bytes(stored.content))
    return found == bytes(row.content_digest)


def _claimed(row: Any, token: UUID, content: bytes) -> ClaimedAction:
    return ClaimedAction(
        lease=ActionLease(row.id, token),
        namespace=row.namespace,
        kind=row.kind,
        provider=row.provider,
        account=row.account,
        place=row.place,
        action_key=row.action_key,
        provider_key=row.provider_key,
        reference=row.reference,
        content=content,
        content_digest=bytes(row.content_digest),
        attempts=row.attempts,
        created_at=row.created_at,
    )
