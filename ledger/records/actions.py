"""What goes out once: its content, its kind's rules, the proposal, and the claim on it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from ledger.action_keys import KeyTemplate, KeyValues
from ledger.digests import JsonObject
from ledger.errors import Unproposable
from ledger.sendable import ADDRESSES, problem
from ledger.states import ActionState

NOTHING = " Nothing was proposed."


class Policy(StrEnum):
    """What happens to an action nobody can know about. `review` is the default."""

    REVIEW = "review"
    RESEND = "resend"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Email:
    """An outgoing e-mail as a handler writes it; rendered once, stored, and never changed.

    `sender` is one address, with a name or without; `inbox` the mailbox at the provider. Which of them a provider's kind
    needs stands in docs/providers.md. `inbox` and `in_reply_to` (the provider's message id) make it a reply where the
    provider has replies. To, cc, bcc and reply_to are tuples of addresses.
    """

    to: tuple[str, ...]
    subject: str
    text: str
    html: str | None = None
    sender: str | None = None
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    reply_to: tuple[str, ...] = ()
    inbox: str | None = None
    in_reply_to: str | None = None

    def content(self) -> dict[str, Any]:
        """The members that are set, as the JSON object that is stored as the action's content."""
        members = {name: getattr(self, name) for name in self.__slots__}
        return {
            name: list(v) if isinstance(v, tuple) else v for name, v in members.items() if v not in (None, ())
        }


@dataclass(frozen=True, slots=True)
class Rate:
    """At most so many of a kind to one recipient within so many seconds."""

    most: int
    within_s: float


@dataclass(frozen=True, slots=True)
class KindRules:
    """What configuration says of one kind of action: `[actions.KIND]`, and its provider's key.

    `key` spells the kind's action keys; None: whoever proposes does. It is not sent `send_before_s` after it was proposed
    or after the event, whichever was first, nor to a recipient who had as many as `rate` allows. `tells`: when it was sent,
    an event says so. `place`: the kind and the address of its provider; left out, it is not compared.
    """

    kind: str
    provider: str
    account: str
    policy: Policy = Policy.REVIEW
    approval: bool = False
    key_window_s: float | None = None
    key_margin_s: float = 900.0
    evidence_s: float = 300.0
    retry_for_s: float = 86_400.0
    cost: Literal["high", "medium", "low"] = "high"
    cost_reason: str = ""
    key: KeyTemplate | None = None
    send_before_s: float | None = None
    rate: Rate | None = None
    tells: bool = False
    provider_kind: str = ""  # "": not known, so nothing is said of what its kind could not send
    place: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An external action to be made once per (namespace, action key), whoever proposes it first.

    `action_key` is the key itself, or the values that its kind's key is made of. `at` is when that happened which it
    is about: for its period, and for how long it is worth sending. It is not sent from `send_before` on, if that is sooner.
    """

    namespace: str
    action_key: str | KeyValues
    rules: KindRules
    content: JsonObject
    recipients: tuple[str, ...]
    about: str = ""
    event_id: int | None = None
    at: datetime | None = None
    send_before: datetime | None = None

    @classmethod
    def of(
        cls,
        namespace: str,
        key: str | KeyValues,
        rules: KindRules,
        content: Email | Mapping[str, Any],
        *,
        recipients: tuple[str, ...] = (),
        about: str = "",
        event_id: int | None = None,
        at: datetime | None = None,
        send_before: datetime | None = None,
    ) -> Proposal:
        """With an e-mail rendered, and its addressees as the recipients unless others are named.

        Raises Unproposable for a content that is none, and for an e-mail that can never go out through its provider.
        """
        if not isinstance(content, (Email, Mapping)):
            raise Unproposable(
                f"propose() takes an Email or a mapping as its content, not {type(content).__name__}.{NOTHING}"
            )
        _refuse_untupled("recipients", recipients, lists=True)
        addressees = _addressees(content) if isinstance(content, Email) else ()
        stored = _sendable(content, rules) if isinstance(content, Email) else content
        return cls(
            namespace, key, rules, stored, tuple(recipients or addressees), about, event_id, at, send_before
        )


def _addressees(email: Email) -> tuple[str, ...]:
    for name in ADDRESSES:
        _refuse_untupled(name, getattr(email, name))
    return email.to + email.cc + email.bcc


def _refuse_untupled(name: str, given: Any, *, lists: bool = False) -> None:
    """One text is a row of letters to Python, and each letter would be a recipient."""
    if not isinstance(given, (tuple, list) if lists else tuple):
        found = f"one {type(given).__name__}"
    elif strange := [one for one in given if not isinstance(one, str)]:
        found = f"one with {type(strange[0]).__name__} in it"
    else:
        return
    raise Unproposable(f'{name} takes a tuple of addresses, like ("a@b.example",), not {found}.{NOTHING}')


def _sendable(email: Email, rules: KindRules) -> JsonObject:
    content = email.content()
    if reason := problem(content, rules.provider_kind):
        raise Unproposable(reason + NOTHING)
    return content


@dataclass(frozen=True, slots=True)
class Proposed:
    """The action that stands under the key. `created` is False when it existed; then its content stands, and its `kind`
    with that kind's provider and approval, whatever kind it was proposed as now.

    When an event is worked again nothing is created. What then has no action `would_be_new`, and its `action_id` is 0,
    which is no action's number: keep it nowhere.
    """

    action_id: int
    created: bool
    state: ActionState
    same_content: bool
    kind: str
    would_be_new: bool = False


@dataclass(frozen=True, slots=True)
class ActionLease:
    """The right to carry one action's next attempt, or to give it back."""

    action_id: int
    token: UUID


@dataclass(frozen=True, slots=True)
class ClaimedAction:
    """An approved action under our claim, with the stored bytes that every attempt sends."""

    lease: ActionLease
    namespace: str
    kind: str
    provider: str
    account: str
    action_key: str
    provider_key: str | None
    reference: str
    content: bytes
    content_digest: bytes
    attempts: int
    place: str = ""
    created_at: datetime | None = None  # the same at every attempt, as all that is sent must be
