"""The action machine as processes drive it: propose, claim, start, hand back, rescue. Decisions of people are in
`decisions.py`, answers and the verdict in `answers.py`.

One transition is one function is one guarded statement. Between claim and call stands `start()`, the judge: it is
committed before the socket opens, and without it no call is made.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from ledger import answers
from ledger.database import Transaction
from ledger.errors import ContentTooBig, LeaseLost, MayNotStart
from ledger.records import (
    ActionLease,
    AttemptRef,
    ClaimedAction,
    Proposal,
    Proposed,
    Rescued,
    Worker,
    canonical_json,
    digest_of,
)
from ledger.states import ActionState

CONTENT_BYTES_MAX = 20_000_000

INSERT = """
INSERT INTO nottwice.actions (namespace, action_key, key_digest, generation, kind, about, event_id, provider, account, provider_key,
                              reference, policy, cost, cost_reason, content_digest, key_window_s, key_margin_s, evidence_s,
                              retry_until, state, due_at)
VALUES (:namespace, :action_key, :key_digest, :generation, :kind, :about, :event_id, :provider, :account, :provider_key,
        :reference, :policy, :cost, :cost_reason, :content_digest, :key_window_s, :key_margin_s, :evidence_s,
        now() + make_interval(secs => :retry_for_s), :state, CASE WHEN :state = 'approved' THEN now() END)
ON CONFLICT (namespace, key_digest, generation) DO NOTHING
RETURNING id
"""


def propose(tx: Transaction, proposal: Proposal) -> Proposed:
    """Store an action once per (namespace, action key); whoever comes later gets the one that stands.

    Works inside any transaction of the application, with or without an event. The rendered content is stored now
    and never changes. Raises ContentTooBig over 20 MB.
    """
    content = canonical_json(proposal.content)
    if len(content) > CONTENT_BYTES_MAX:
        raise ContentTooBig(
            f"The content of an action may have {CONTENT_BYTES_MAX} bytes; this one has {len(content)}."
        )
    key_digest, digest = digest_of(proposal.action_key), content_digest(proposal, content)
    row = tx.first(INSERT, **_columns(tx, proposal, key_digest, digest))
    if row is None:
        return _standing(tx, proposal.namespace, key_digest, digest)
    tx.execute(
        """INSERT INTO nottwice.action_contents (action_id, content, recipients, subject)
           VALUES (:id, :content, CAST(:recipients AS text[]), :subject)""",
        id=row.id,
        content=content,
        recipients=list(proposal.recipients),
        subject=str(proposal.content.get("subject", ""))[:2000],
    )
    state = ActionState.PROPOSED if proposal.rules.approval else ActionState.APPROVED
    return Proposed(row.id, True, state, True)


def content_digest(proposal: Proposal, content: bytes) -> bytes:
    """What an approval names: the account, the recipients and every byte of the rendered request."""
    rules = proposal.rules
    return request_digest(rules.provider, rules.account, list(proposal.recipients), content)


def request_digest(provider: str, account: str, recipients: Sequence[str], content: bytes) -> bytes:
    return digest_of(provider, account, *recipients, content)


def provider_key(installation: UUID, namespace: str, account: str, key_digest: bytes, generation: int) -> str:
    """The idempotency key every attempt sends: 43 characters of `A-Za-z0-9-_`, unique over installations and accounts,

    because provider keys can be organisation-wide (AgentMail's are: docs, "idempotency").
    """
    raw = digest_of(installation.bytes, namespace, account, key_digest, str(generation))
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def reference(key: str) -> str:
    """Our short mark in the provider's metadata; derived, so that it tells nobody the provider key."""
    return "nt-" + digest_of("reference", key).hex()[:16]


CLAIM = """
WITH next AS (
    SELECT a.id FROM nottwice.actions a
    WHERE a.state = 'approved' AND a.account = ANY(CAST(:accounts AS text[])) AND a.due_at <= now()
      AND NOT EXISTS (SELECT FROM nottwice.provider_pauses p WHERE p.account = a.account AND p.paused_until > now())
    ORDER BY a.due_at, a.id LIMIT 1
    FOR NO KEY UPDATE OF a SKIP LOCKED)
UPDATE nottwice.actions a SET
    state = 'sending', due_at = NULL, claim_token = :token, claimed_by = :worker, claimed_at = now(),
    lease_until = now() + make_interval(secs => :lease_s), version = version + 1
FROM next WHERE a.id = next.id
RETURNING a.id, a.namespace, a.kind, a.provider, a.account, a.action_key, a.provider_key, a.reference, a.content_digest, a.attempts
"""


def claim(
    tx: Transaction, worker: Worker, accounts: Sequence[str], *, lease_s: float
) -> ClaimedAction | None:
    """Take the one action that is due longest, right before its call. None: nothing is due, or all is paused."""
    token = uuid4()
    row = tx.first(CLAIM, accounts=list(accounts), token=token, worker=worker.id, lease_s=lease_s)
    if row is None:
        return None
    content = tx.one(
        "SELECT content, recipients FROM nottwice.action_contents WHERE action_id = :id", id=row.id
    )
    found = request_digest(row.provider, row.account, content.recipients, bytes(content.content))
    if found != bytes(row.content_digest):
        raise LeaseLost(f"The stored content of action {row.id} is not what was rendered. It is not sent.")
    return ClaimedAction(
        lease=ActionLease(row.id, token),
        namespace=row.namespace,
        kind=row.kind,
        provider=row.provider,
        account=row.account,
        action_key=row.action_key,
        provider_key=row.provider_key,
        reference=row.reference,
        content=bytes(content.content),
        content_digest=bytes(row.content_digest),
        attempts=row.attempts,
    )


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
WITH held AS (
    UPDATE nottwice.actions SET attempts = attempts + 1, first_started_at = coalesce(first_started_at, now()),
        decided_send = false, version = version + 1
    WHERE id = :id AND state = 'sending' AND claim_token = :token AND lease_until > now() AND version = :version
    RETURNING id, attempts, account, claimed_by)
INSERT INTO nottwice.action_attempts (action_id, number, token, worker, account)
SELECT id, attempts, :token, claimed_by, account FROM held
RETURNING id
"""


def start(tx: Transaction, lease: ActionLease) -> AttemptRef:
    """The judge before the call. Commit this, then open the socket; never the other way round.

    Raises LeaseLost when the claim is not ours or has run out, MayNotStart when the history forbids another try
    (accepted already; uncertain and no key protects). After MayNotStart call `hand_back`: it judges the action.
    """
    row = answers.lock(tx, lease.action_id)
    if not answers.is_held(tx, lease.action_id, lease.token):
        raise LeaseLost(f"Action {lease.action_id} is in other hands.")
    found = answers.finding(tx, row)
    if found.state is not ActionState.APPROVED:
        raise MayNotStart(f"Action {lease.action_id} may not be tried now: {' '.join(found.reasons)}")
    attempt = tx.first(START, id=lease.action_id, token=lease.token, version=row.version)
    if attempt is None:
        raise LeaseLost(f"The lease of action {lease.action_id} ran out before its call.")
    return AttemptRef(attempt.id, lease.action_id, lease.token)


def hand_back(tx: Transaction, lease: ActionLease) -> ActionState:
    """Give back a claim whose call was not started, and put the action where its history says.

    Raises LeaseLost when the claim is not ours, or when its call was started (then only an answer ends it).
    """
    row = answers.lock(tx, lease.action_id)
    if not answers.is_held(tx, lease.action_id, lease.token) or _was_started(tx, lease):
        raise LeaseLost(f"Action {lease.action_id} is in other hands, or its call was started.")
    return answers.judge(tx, row, chance=0.0, counts=False)


def _was_started(tx: Transaction, lease: ActionLease) -> bool:
    sql = "SELECT FROM nottwice.action_attempts WHERE action_id = :id AND token = :token"
    return tx.first(sql, id=lease.action_id, token=lease.token) is not None


def rescue(tx: Transaction, *, limit: int = 100) -> list[Rescued]:
    """Take back expired claims. Without a started attempt the holder can no longer start: it goes back to its place.

    With one, nobody knows what came of it: the attempt is marked abandoned, and the history is judged.
    """
    rows = tx.all(
        """SELECT id, claim_token FROM nottwice.actions WHERE state = 'sending' AND lease_until < now()
           ORDER BY lease_until, id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED""",
        limit=limit,
    )
    return [_rescue_one(tx, row.id, row.claim_token) for row in rows]


def _rescue_one(tx: Transaction, action_id: int, token: UUID) -> Rescued:
    started = tx.execute(
        """UPDATE nottwice.action_attempts SET abandoned_at = now()
           WHERE action_id = :id AND token = :token AND answered_at IS NULL""",
        id=action_id,
        token=token,
    )
    row = answers.lock(tx, action_id)
    state = answers.judge(tx, row, chance=0.0, counts=started.rowcount > 0)
    return Rescued(action_id, state)


def _columns(tx: Transaction, proposal: Proposal, key_digest: bytes, digest: bytes) -> dict[str, Any]:
    rules, installation = proposal.rules, tx.one("SELECT id FROM nottwice.installation").id
    key = provider_key(installation, proposal.namespace, rules.account, key_digest, 1)
    return {
        "namespace": proposal.namespace,
        "action_key": proposal.action_key,
        "key_digest": key_digest,
        "generation": 1,
        "kind": rules.kind,
        "about": proposal.about,
        "event_id": proposal.event_id,
        "provider": rules.provider,
        "account": rules.account,
        "provider_key": key if rules.key_window_s is not None else None,
        "reference": reference(key),
        "policy": rules.policy.value,
        "cost": rules.cost,
        "cost_reason": rules.cost_reason,
        "content_digest": digest,
        "key_window_s": rules.key_window_s,
        "key_margin_s": rules.key_margin_s,
        "evidence_s": rules.evidence_s,
        "retry_for_s": rules.retry_for_s,
        "state": "proposed" if rules.approval else "approved",
    }


def _standing(tx: Transaction, namespace: str, key_digest: bytes, digest: bytes) -> Proposed:
    row = tx.one(
        """SELECT id, state, content_digest FROM nottwice.actions
           WHERE namespace = :namespace AND key_digest = :key_digest ORDER BY generation DESC LIMIT 1""",
        namespace=namespace,
        key_digest=key_digest,
    )
    return Proposed(row.id, False, ActionState(row.state), bytes(row.content_digest) == digest)
