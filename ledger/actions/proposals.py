"""An action is stored once per (namespace, action key), as it will be sent. Part of the action machine in `actions.py`."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ledger.actions import held_back
from ledger.actions.proposable import key_of, refuse_local_times, refuse_nameless, refuse_unstorable
from ledger.database import Transaction
from ledger.errors import ContentTooBig, Unavailable
from ledger.records import Proposal, Proposed, canonical_json, digest_of
from ledger.states import ActionState

CONTENT_BYTES_MAX = 20_000_000
SUBJECT_CHARACTERS_MAX = 2000
ROUNDS_MAX = 5

# Every column here is granted to `nottwice_application` by itself (sql/0024_applications.sql).
INSERT = """
INSERT INTO nottwice.actions (namespace, action_key, key_digest, generation, kind, about, event_id, provider, account, place, provider_key,
                              reference, policy, cost, cost_reason, content_digest, key_window_s, key_margin_s, evidence_s,
                              retry_until, send_before, approval, state, due_at, tells)
VALUES (:namespace, :action_key, :key_digest, :generation, :kind, :about, :event_id, :provider, :account, :place, :provider_key,
        :reference, :policy, :cost, :cost_reason, :content_digest, :key_window_s, :key_margin_s, :evidence_s,
        now() + make_interval(secs => :retry_for_s),
        least(CAST(:send_before AS timestamptz), least(now(), CAST(:at AS timestamptz)) + make_interval(secs => :send_before_s)),
        :state = 'proposed', :state, CASE WHEN :state = 'approved' THEN now() END, :tells)
ON CONFLICT (namespace, key_digest, generation) DO NOTHING
RETURNING id
"""


def propose(tx: Transaction, proposal: Proposal) -> Proposed:
    """Store an action once per (namespace, action key); whoever comes later gets the one that stands.

    Works inside any transaction of the application, with or without an event. The rendered content is stored now
    and never changes. Raises ContentTooBig over 20 MB, and Unstorable for a text with NUL or a lone surrogate: it is
    refused, not mended, because what goes out is what was written; UnusableKey when its kind spells its keys and the
    values do not fit or a key is empty; Unproposable for a namespace or a time that is none. None of them has touched the transaction.
    """
    request = rendered(proposal)
    for _ in range(ROUNDS_MAX):
        if (made := store(tx, proposal, request)) is not None:
            return Proposed(
                made, True, held_back.let_go_or_close(tx, made, proposal), True, proposal.rules.kind
            )
        if (standing := find(tx, proposal.namespace, request)) is not None:
            return standing
    raise Unavailable("A key kept vanishing while it was looked for. Nothing was stored; try again.")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A request as it is stored and sent, under its key: the digest names it, the subject is what a list shows of it."""

    key: str
    content: bytes
    digest: bytes
    subject: str


def rendered(proposal: Proposal) -> Rendered:
    """The request as it would be stored. Raises as `propose`."""
    refuse_nameless(proposal)
    refuse_local_times(proposal)
    key, rules = key_of(proposal), proposal.rules
    refuse_unstorable(proposal, key)
    content = canonical_json(proposal.content)
    if len(content) > CONTENT_BYTES_MAX:
        raise ContentTooBig(
            f"The content of an action may have {CONTENT_BYTES_MAX} bytes; this one has {len(content)}."
        )
    digest = request_digest(rules.provider, rules.account, proposal.recipients, content)
    return Rendered(key, content, digest, str(proposal.content.get("subject", ""))[:SUBJECT_CHARACTERS_MAX])


def store(tx: Transaction, proposal: Proposal, request: Rendered, *, generation: int = 1) -> int | None:
    """The new action with this request as its content; None when the key has this generation already."""
    row = tx.first(INSERT, **_columns(tx, proposal, request, generation))
    if row is None:
        return None
    tx.execute(
        """INSERT INTO nottwice.action_contents (action_id, content, recipients, subject)
           VALUES (:id, :content, CAST(:recipients AS text[]), :subject)""",
        id=row.id,
        content=request.content,
        recipients=list(proposal.recipients),
        subject=request.subject,
    )
    return int(row.id)


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


def _columns(tx: Transaction, proposal: Proposal, request: Rendered, generation: int) -> dict[str, Any]:
    rules, installation = proposal.rules, tx.one("SELECT id FROM nottwice.installation").id
    key_digest = digest_of(request.key)
    key = provider_key(installation, proposal.namespace, rules.account, key_digest, generation)
    return {
        "generation": generation,
        "namespace": proposal.namespace,
        "action_key": request.key,
        "key_digest": key_digest,
        "kind": rules.kind,
        "about": proposal.about,
        "event_id": proposal.event_id,
        "provider": rules.provider,
        "account": rules.account,
        "place": rules.place,
        "provider_key": key if rules.key_window_s is not None else None,
        "reference": reference(key),
        "policy": rules.policy.value,
        "cost": rules.cost,
        "cost_reason": rules.cost_reason,
        "content_digest": request.digest,
        "key_window_s": rules.key_window_s,
        "key_margin_s": rules.key_margin_s,
        "evidence_s": rules.evidence_s,
        "retry_for_s": rules.retry_for_s,
        "send_before": proposal.send_before,
        "at": proposal.at,
        "send_before_s": rules.send_before_s,
        "tells": rules.tells,
        "state": "proposed" if rules.approval else "approved",
    }


def find(tx: Transaction, namespace: str, request: Rendered) -> Proposed | None:
    """The action that stands under the key of a request, its newest generation; None: there is none (any more).

    A key is given up after [retention] action_keys_days, and then there is room for a new one.
    """
    row = tx.first(
        """SELECT id, state, kind, content_digest FROM nottwice.actions
           WHERE namespace = :namespace AND key_digest = :key_digest ORDER BY generation DESC LIMIT 1""",
        namespace=namespace,
        key_digest=digest_of(request.key),
    )
    if row is None:
        return None
    same = bytes(row.content_digest) == request.digest
    return Proposed(row.id, False, ActionState(row.state), same, row.kind)
