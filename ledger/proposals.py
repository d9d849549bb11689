"""An action is stored once per (namespace, action key), as it will be sent. Part of the action machine in `actions.py`."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ledger.database import Transaction
from ledger.errors import ContentTooBig, Unavailable, Unstorable, UnusableKey
from ledger.payload import is_storable, shown
from ledger.records import Proposal, Proposed, canonical_json, digest_of
from ledger.states import ActionState

CONTENT_BYTES_MAX = 20_000_000
SUBJECT_CHARACTERS_MAX = 2000
ROUNDS_MAX = 5

# Every column here is granted to `nottwice_application` by itself (sql/0024_applications.sql).
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
    and never changes. Raises ContentTooBig over 20 MB, and Unstorable for a text with NUL or a lone surrogate: it is
    refused, not mended, because what goes out is what was written; UnusableKey when its kind spells its keys and the
    values do not fit. None of them has touched the transaction.
    """
    request = rendered(proposal)
    for _ in range(ROUNDS_MAX):
        if (made := store(tx, proposal, request)) is not None:
            state = ActionState.PROPOSED if proposal.rules.approval else ActionState.APPROVED
            return Proposed(made, True, state, True)
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
    key, rules = key_of(proposal), proposal.rules
    _refuse_unstorable(proposal, key)
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


def key_of(proposal: Proposal) -> str:
    """The action key: as it was given, or as its kind spells it. Never both: one key a kind is what keeps it once."""
    template, given, kind = proposal.rules.key, proposal.action_key, proposal.rules.kind
    if isinstance(given, str):
        if template is not None:
            raise UnusableKey(
                f"[actions.{kind}] spells its keys itself, {template.text}: propose it with a mapping of "
                f"{', '.join(template.names)} instead of a key. Nothing was proposed."
            )
        return given
    if template is None:
        raise UnusableKey(
            f"[actions.{kind}] has no key to put values into. Propose it with a key, or add the setting."
        )
    return template.fill(given, proposal.at)


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
        "state": "proposed" if rules.approval else "approved",
    }


def find(tx: Transaction, namespace: str, request: Rendered) -> Proposed | None:
    """The action that stands under the key of a request, its newest generation; None: there is none (any more).

    A key is given up after [retention] action_keys_days, and then there is room for a new one.
    """
    row = tx.first(
        """SELECT id, state, content_digest FROM nottwice.actions
           WHERE namespace = :namespace AND key_digest = :key_digest ORDER BY generation DESC LIMIT 1""",
        namespace=namespace,
        key_digest=digest_of(request.key),
    )
    if row is None:
        return None
    return Proposed(row.id, False, ActionState(row.state), bytes(row.content_digest) == request.digest)


def _refuse_unstorable(proposal: Proposal, action_key: str) -> None:
    for where, text in _texts(proposal, action_key):
        if not is_storable(text):
            raise Unstorable(
                f"The {shown(where)} of a proposed action holds NUL or half a character (a lone surrogate), which no "
                "database and no e-mail can hold. Clean text from outside with ledger.payload.storable()."
            )


def _texts(proposal: Proposal, action_key: str) -> Iterator[tuple[str, str]]:
    """Every text that a proposal brings, behind the name of its field."""
    yield "namespace", proposal.namespace
    yield "kind", proposal.rules.kind
    yield "key", action_key
    yield "about", proposal.about
    yield from _texts_in("recipients", proposal.recipients)
    yield from _texts_in("content", proposal.content)


def _texts_in(where: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield f"names in {where}", str(name)
            yield from _texts_in(f"{where}.{name}", member)
    elif isinstance(value, list | tuple):
        for at, member in enumerate(value):
            yield from _texts_in(f"{where}[{at}]", member)
