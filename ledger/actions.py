"""The action machine as processes drive it: propose, claim, start, hand back, rescue, expire.

One transition is one function is one guarded statement. Between claim and call stands `start()`, the judge: it is
committed before the socket opens, and without it no call is made. Answers and observations are in `answers.py`,
decisions of people in `decisions.py`; both are offered here as well, so that this is the whole machine.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from ledger import answers, judging
from ledger.answers import add_evidence as add_evidence
from ledger.answers import record_answer as record_answer
from ledger.database import Transaction
from ledger.decisions import approve as approve
from ledger.decisions import decline as decline
from ledger.decisions import requeue as requeue
from ledger.errors import ContentTooBig, LeaseLost, MayNotStart
from ledger.records import (
    ActionLease,
    Attempt,
    AttemptRef,
    ClaimedAction,
    Evidence,
    Proposal,
    Proposed,
    Rescued,
    Window,
    Worker,
    canonical_json,
    digest_of,
)
from ledger.states import ActionState

CONTENT_BYTES_MAX = 20_000_000
SUBJECT_CHARACTERS_MAX = 2000

INSERT = """
INSERT INTO nottwice.actions (namespace, action_key, key_digest, generation, kind, about, event_id, provider, account, provider_key,
                              reference, policy, cost, cost_reason, content_digest, key_window_s, key_margin_s, evidence_s,
                              retry_until, state, due_at)
VALUES (:namespace, :action_key, :key_digest, 1, :kind, :about, :event_id, :provider, :account, :provider_key,
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
    rules, recipients = proposal.rules, [_storable(r) for r in proposal.recipients]
    digest = request_digest(rules.provider, rules.account, recipients, content)
    key_digest = digest_of(proposal.action_key)
    row = tx.first(INSERT, **_columns(tx, proposal, key_digest, digest))
    if row is None:
        return _standing(tx, proposal.namespace, key_digest, digest)
    tx.execute(
        """INSERT INTO nottwice.action_contents (action_id, content, recipients, subject)
           VALUES (:id, :content, CAST(:recipients AS text[]), :subject)""",
        id=row.id,
        content=content,
        recipients=recipients,
        subject=_storable(str(proposal.content.get("subject", "")))[:SUBJECT_CHARACTERS_MAX],
    )
    state = ActionState.PROPOSED if rules.approval else ActionState.APPROVED
    return Proposed(row.id, True, state, True)


def request_digest(provider: str, account: str, recipients: Sequence[str], content: bytes) -> bytes:
    """What an approval names: the account, the recipients and every byte of the rendered request."""
    return digest_of(provider, account, *recipients, content)


def provider_key(installation: UUID, namespace: str, account: str, key_digest: bytes, generation: int) -> str:
    """The idempotency key that every attempt sends: 43 characters of `A-Za-z0-9-_`.

    Unique over installations and accounts, because a provider's keys can be organisation-wide (AgentMail's are: its
    documentation, "Idempotency"); in the strictest published alphabet (also AgentMail's: `A-Za-z0-9-._~`, 1 to 256).
    """
    raw = digest_of(installation.bytes, namespace, account, key_digest, str(generation))
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def reference(key: str) -> str:
    """Our short mark in the provider's metadata; derived, so that it tells nobody the provider key."""
    return "nt-" + digest_of("reference", key).hex()[:16]


# ── Claim, start, hand back ───────────────────────────────────────────────────────────────────────────


# The first of each account, then the first of those: one index probe an account, however many wait. An account that
# comes out of a pause has its row locked, so that about one worker at a time tries it.
CLAIM = """
WITH probed AS MATERIALIZED (
    SELECT account FROM nottwice.provider_pauses
    WHERE account = ANY(CAST(:accounts AS text[])) FOR NO KEY UPDATE SKIP LOCKED),
open AS MATERIALIZED (
    SELECT a.account FROM unnest(CAST(:accounts AS text[])) AS a(account)
    WHERE nottwice.account_is_open(a.account)
      AND (a.account IN (SELECT account FROM probed)
           OR NOT EXISTS (SELECT FROM nottwice.provider_pauses p WHERE p.account = a.account))),
first AS MATERIALIZED (
    SELECT n.id, n.due_at FROM open CROSS JOIN LATERAL (
        SELECT a.id, a.due_at FROM nottwice.actions a
        WHERE a.state = 'approved' AND a.account = open.account AND a.due_at <= now()
        ORDER BY a.due_at, a.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) AS n),
next AS MATERIALIZED (SELECT id FROM first ORDER BY due_at, id LIMIT 1)
UPDATE nottwice.actions a SET
    state = 'sending', due_at = NULL, claim_token = :token, claimed_by = :worker, claimed_at = now(),
    lease_until = now() + make_interval(secs => :lease_s), version = version + 1
FROM next WHERE a.id = next.id
RETURNING a.id, a.namespace, a.kind, a.provider, a.account, a.action_key, a.provider_key, a.reference, a.content_digest, a.attempts
"""


def claim(
    tx: Transaction, worker: Worker, accounts: Sequence[str], *, lease_s: float
) -> ClaimedAction | None:
    """Take the one action that is due longest, right before its call. None: nothing is due, or all is paused.

    An action whose stored content is not what was rendered is put before a person instead.
    """
    while True:
        token = uuid4()
        row = tx.first(CLAIM, accounts=list(accounts), token=token, worker=worker.id, lease_s=lease_s)
        if row is None:
            return None
        stored = tx.first(
            "SELECT content, recipients FROM nottwice.action_contents WHERE action_id = :id", id=row.id
        )
        if stored is not None and _is_what_was_rendered(row, stored):
            return _claimed(row, token, bytes(stored.content))
        judging.put_on_the_desk(tx, row.id, "The stored content is not what was rendered. It was not sent.")


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
    RETURNING a.id, a.attempts, a.account, a.claimed_by)
INSERT INTO nottwice.action_attempts (action_id, number, token, worker, account)
SELECT id, attempts, :token, claimed_by, account FROM started
RETURNING id
"""


def start(tx: Transaction, lease: ActionLease) -> AttemptRef:
    """The judge before the call. Commit this, then open the socket; never the other way round.

    The history is judged on the locked row; the version in the statement ties the two together. Raises LeaseLost
    when the claim is not ours, has run out or was used for its call already, and MayNotStart when the history
    forbids another try (accepted already; uncertain, and no key protects) or the content was changed. After
    MayNotStart call `hand_back` in a transaction of its own: it puts the action where its history says.
    """
    row = judging.lock(tx, lease.action_id)
    if not judging.is_held(tx, lease.action_id, lease.token) or _was_started(tx, lease):
        raise LeaseLost(f"Action {lease.action_id} is in other hands, or its call was started.")
    found = judging.finding(tx, row)
    if found.state is not ActionState.APPROVED:
        raise MayNotStart(f"Action {lease.action_id} may not be tried now: {' '.join(found.reasons)}")
    attempt = tx.first(START, id=lease.action_id, token=lease.token, version=row.version)
    if attempt is None:
        raise MayNotStart(f"The lease of action {lease.action_id} ran out, or its content was changed.")
    return AttemptRef(attempt.id, lease.action_id, lease.token)


def hand_back(tx: Transaction, lease: ActionLease) -> ActionState:
    """Give back a claim whose call was not started, and put the action where its history says.

    Raises LeaseLost when the claim is not ours, or when its call was started (then only an answer ends it).
    """
    row = judging.lock(tx, lease.action_id)
    if not judging.is_held(tx, lease.action_id, lease.token) or _was_started(tx, lease):
        raise LeaseLost(f"Action {lease.action_id} is in other hands, or its call was started.")
    return judging.judge(tx, row, counts=False)


# ── What the sweep does ───────────────────────────────────────────────────────────────────────────────


def rescue(tx: Transaction, *, limit: int = 100, base_s: float = 2.0) -> list[Rescued]:
    """Take back expired claims. Without a started attempt the holder can no longer start: it goes back to its place.

    With one, nobody knows what came of it: the attempt is marked abandoned, and the history is judged.
    """
    rows = tx.all(
        """SELECT id, claim_token FROM nottwice.actions WHERE state = 'sending' AND lease_until < now()
           ORDER BY lease_until, id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED""",
        limit=limit,
    )
    return [_rescue_one(tx, row.id, row.claim_token, base_s) for row in rows]


def expire(tx: Transaction, *, limit: int = 100) -> list[Rescued]:
    """Judge the actions that still wait though their time, or their key's, is over; returns those that moved.

    Their account may be paused, or no worker may have been there to claim them.
    """
    rows = tx.all(
        """SELECT id FROM nottwice.actions
           WHERE state = 'approved' AND NOT decided_send
             AND (retry_until <= now() OR first_started_at + make_interval(secs => key_window_s - key_margin_s) <= now())
           ORDER BY id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED""",
        limit=limit,
    )
    moved = [Rescued(r.id, judging.judge(tx, judging.lock(tx, r.id), counts=False)) for r in rows]
    return [m for m in moved if m.state is not ActionState.APPROVED]


def history(tx: Transaction, action_id: int) -> tuple[list[Attempt], list[Evidence], Window]:
    """All that the verdict reads of an action."""
    row = tx.one(
        "SELECT key_window_s, key_margin_s, retry_until, decided_send FROM nottwice.actions WHERE id = :id",
        id=action_id,
    )
    return *answers.history(tx, action_id), judging.window_of(row)


def _rescue_one(tx: Transaction, action_id: int, token: UUID, base_s: float) -> Rescued:
    started = tx.execute(
        """UPDATE nottwice.action_attempts SET abandoned_at = now()
           WHERE action_id = :id AND token = :token AND answered_at IS NULL""",
        id=action_id,
        token=token,
    )
    row = judging.lock(tx, action_id)
    return Rescued(action_id, judging.judge(tx, row, base_s=base_s, counts=started.rowcount > 0))


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
        action_key=row.action_key,
        provider_key=row.provider_key,
        reference=row.reference,
        content=content,
        content_digest=bytes(row.content_digest),
        attempts=row.attempts,
    )


def _columns(tx: Transaction, proposal: Proposal, key_digest: bytes, digest: bytes) -> dict[str, Any]:
    rules, installation = proposal.rules, tx.one("SELECT id FROM nottwice.installation").id
    key = provider_key(installation, proposal.namespace, rules.account, key_digest, 1)
    return {
        "namespace": proposal.namespace,
        "action_key": _storable(proposal.action_key),
        "key_digest": key_digest,
        "kind": rules.kind,
        "about": _storable(proposal.about),
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


def _storable(text: str) -> str:
    """What strangers wrote, as PostgreSQL can hold it; the digest of a key is of the text as it was."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
