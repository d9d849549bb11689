"""`[sources.NAME]` of the configuration file, and what is known of each kind that others than its adapter read."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, model_validator

from ledger.event_types import TYPE_BYTES_MAX
from ledger.settings.types import UNCLEAR, Name, PositiveSeconds, Table, is_clear, wrong

Coded = Literal["refused", "plain", "coded"]  # refused, or which of its two forms is signed
What = Literal["sent", "delivered", "bounced", "complained", "rejected"]

BODY_PATHS = ("key_path", "type_path", "time_path")
NOTICE_PATHS = ("message_path", "recipient_path", "reference_path")
HEADERS = (
    *("signature_header", "timestamp_header", "key_header", "type_header", "delivery_header"),
    "subscription_header",
)
TYPES = ("type_constant", "type_otherwise")
EMPTY_PART = "has an empty part; write names with dots, as in data.object.id"
PATHS = (*BODY_PATHS, "subscription_path", *NOTICE_PATHS)
LISTS_OF_PATHS = ("ignored_members", "key_with", "json_inside")
FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2: token
# What only some kinds can be told; the others bring these facts along. Each source's `facts.takes` says which.
OF_SOME_KINDS = frozenset(
    (
        *("signature_prefix", "encoding", "signed", "timestamp_unit", "type_constant", "key_with", "notices"),
        *("algorithm", "secret_form"),
        *("body_format", "json_inside", "key_spelling", "key_from_body", "type_otherwise", "repeats_by_body"),
        *("public_url", "accept_unmarked", "coded", *HEADERS, *PATHS),
    )
)
# Where the parts of a body stand, by kind, unless the table says otherwise. Inboxili does not publish its webhook's
# body: `message_id` is the word of its maker's article and of its API, `to` that of its API; the others are assumed.
ASSUMED_PATHS: dict[str, dict[str, str]] = {
    "inboxili": {
        "key_path": "id",
        "type_path": "type",
        "time_path": "timestamp",
        "message_path": "message_id",
        "recipient_path": "to",
    }
}
# Which types say what became of a message. AgentMail's: agentmail 2.0.18, events/types. Inboxili's article speaks of
# delivered and bounced webhooks; that these are the types' whole names, and the other two, is assumed.
NOTICE_TYPES: dict[str, dict[str, What]] = {
    "agentmail": {
        "message.sent": "sent",
        "message.delivered": "delivered",
        "message.bounced": "bounced",
        "message.complained": "complained",
        "message.rejected": "rejected",
    },
    "inboxili": {
        "sent": "sent",
        "delivered": "delivered",
        "bounced": "bounced",
        "complained": "complained",
    },
}


class SourceSettings(Table):
    """`[sources.NAME]`: who may post to /webhooks/NAME, and how a logical event is recognised.

    `secrets` are names; several are valid at once while one is being replaced. A path is names with dots:
    `data.object.id`.
    """

    kind: Name  # which there are, and which options each takes, is known to the receiver alone
    namespace: Name = Field(default="", validate_default=False)
    secrets: tuple[Name, ...] = Field(min_length=1)
    success_status: Literal[200, 202, 204] | None = None
    ignored_types: tuple[Name, ...] = ()
    ignored_members: tuple[Name, ...] = ()  # differ between honest retries, so they are no conflict
    tolerance_s: PositiveSeconds = 300.0  # how old or how far ahead a signed timestamp may be
    coded: Coded | None = None  # what becomes of a compressed body, where it is not as its kind is known for
    # Events of the namespace with the same value there are worked one at a time, in the order of their acceptance:
    ordering_path: str = ""

    signature_header: str = ""
    signature_prefix: str = ""
    encoding: Literal["hex", "base64"] = "hex"
    algorithm: Literal["sha256", "sha384", "sha512"] = "sha256"  # of the HMAC
    secret_form: Literal["text", "hex", "base64"] = "text"  # noqa: S105 - how a secret spells the HMAC's key
    # What the signature covers, of {body}, {timestamp}, {delivery}, {key}; left out: the body, behind a timestamp with a dot.
    signed: str = ""
    timestamp_header: str = ""
    timestamp_unit: Literal["s", "ms"] = "s"
    delivery_header: str = ""
    key_header: str = ""
    key_path: str = ""
    key_with: tuple[Name, ...] = ()  # further paths, where one alone does not make the key
    type_header: str = ""
    type_path: str = ""
    type_constant: str = ""
    type_otherwise: str = ""  # where neither header nor path finds one; left out: quarantine
    time_path: str = ""
    subscription_header: str = ""  # part of the key, where one of the two is named
    subscription_path: str = ""
    key_spelling: Literal["as-is", "message-id"] = (
        "as-is"  # what the key's value is: an id, or a mail's headers
    )
    key_from_body: bool = False  # two events with the same content are one, whatever happened
    repeats_by_body: bool = False  # the same bytes under another id are a repeat, not an event
    body_format: Literal["json", "form", "text"] = "json"
    json_inside: tuple[Name, ...] = ()  # paths of texts that are JSON themselves

    public_url: str = ""  # of this source, as its sender calls it, where the signature covers it
    # What nothing tells from its own repetition: each delivery is an event of its own.
    accept_unmarked: bool = False

    # What becomes of messages we sent: through which [providers.NAME] they went, and where the parts stand.
    provider: str = ""
    # What each type means, where it is not as its kind is known for:
    notices: dict[Name, What] = Field(default={})
    message_path: str = ""
    recipient_path: str = ""
    reference_path: str = ""  # our own mark, where the provider sends it back

    def path(self, name: str) -> str:
        """One of the paths: as the table says, else as its kind is known for; "" when there is none."""
        if name in self.model_fields_set:
            return str(getattr(self, name))
        return ASSUMED_PATHS.get(self.kind, {}).get(name, "")

    @property
    def notice_types(self) -> dict[str, What]:
        """The types that say what became of a message we sent."""
        return self.notices or NOTICE_TYPES.get(self.kind, {})

    @model_validator(mode="after")
    def _is_spelled_well(self) -> Self:
        for name in HEADERS:
            if (header := getattr(self, name)) and not FIELD_NAME.fullmatch(header):
                raise wrong(name, "is no name of a header")
        for name in ("ordering_path", *PATHS):
            if not all((self.path(name) or "-").split(".")):
                raise wrong(name, EMPTY_PART)
        for name in TYPES:
            if len(getattr(self, name).encode()) > TYPE_BYTES_MAX:
                raise wrong(name, f"is longer than {TYPE_BYTES_MAX} bytes, which no type may be")
        for name in ("signature_prefix", *TYPES):
            if not is_clear(getattr(self, name)):
                raise wrong(name, UNCLEAR)
        for name in LISTS_OF_PATHS:
            if not all(all(path.split(".")) for path in getattr(self, name)):
                raise wrong(name, EMPTY_PART)
        return self
