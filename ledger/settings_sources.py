"""`[sources.NAME]` of the configuration file, and what is known of each kind that others than its adapter read."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from ledger.settings_types import Name, Seconds, Table, wrong

What = Literal["sent", "delivered", "bounced", "complained", "rejected"]

BODY_PATHS = ("key_path", "type_path", "time_path")
NOTICE_PATHS = ("message_path", "recipient_path", "reference_path")
# What only some kinds can be told; the others bring these facts along.
TAKES: dict[str, frozenset[str]] = {
    "generic": frozenset(
        (
            *("signature_header", "signature_prefix", "encoding", "timestamp_header", "delivery_header"),
            *("key_header", "key_with", "type_header", "type_constant", "signed", "timestamp_unit"),
            *BODY_PATHS,
        )
    ),
    "inboxili": frozenset(("notices", *BODY_PATHS, *NOTICE_PATHS)),
}
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

    kind: Literal["agentmail", "generic", "inboxili"]
    namespace: Name = Field(default="", validate_default=False)
    secrets: tuple[Name, ...] = Field(min_length=1)
    success_status: Literal[200, 202, 204] | None = None
    ignored_types: tuple[str, ...] = ()
    ignored_members: tuple[str, ...] = ()  # differ between honest retries, so they are no conflict
    tolerance_s: Seconds = 300.0  # how old or how far ahead a signed timestamp may be
    # Events of the namespace with the same value there are worked one at a time, in the order of their acceptance:
    ordering_path: str = ""

    signature_header: str = ""
    signature_prefix: str = ""
    encoding: Literal["hex", "base64"] = "hex"
    signed: str = (
        ""  # what the signature covers, of {timestamp} and {body}; by default one or both, with a dot
    )
    timestamp_header: str = ""
    timestamp_unit: Literal["s", "ms"] = "s"
    delivery_header: str = ""
    key_header: str = ""
    key_path: str = ""
    key_with: tuple[Name, ...] = ()  # further paths, where one alone does not make the key
    type_header: str = ""
    type_path: str = ""
    type_constant: str = ""
    time_path: str = ""

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
    def _fits_its_kind(self) -> Self:
        if self.ordering_path and not all(self.ordering_path.split(".")):
            raise wrong("ordering_path", "has an empty part; write names with dots, as in data.object.id")
        for name in sorted(self.model_fields_set - TAKES.get(self.kind, frozenset())):
            if takers := [kind for kind, names in TAKES.items() if name in names]:
                what = f"a source of kind {self.kind} has its own rules; only kind {' and '.join(takers)} takes it"
                raise wrong(name, what)
        if self.kind == "generic":
            self._names_its_key()
        if self.kind in ASSUMED_PATHS:
            self._finds_its_events()
        return self

    def _names_its_key(self) -> None:
        if not self.signature_header:
            raise wrong(
                "signature_header", 'is missing; a generic source names the header, as in "X-Signature"'
            )
        if bool(self.key_header) == bool(self.key_path):
            raise wrong(
                "key_path", "a generic source has either key_header or key_path, which finds the event's key"
            )

    def _finds_its_events(self) -> None:
        if not self.path("type_path"):
            raise wrong("type_path", "is empty; without a type no event can be told from another")
        if not (self.path("key_path") or self.path("message_path")):
            raise wrong("key_path", "is empty, and so is message_path; one of them makes the event's key")
        for name in (*BODY_PATHS, *NOTICE_PATHS):
            if self.path(name) and not all(self.path(name).split(".")):
                raise wrong(name, "has an empty part; write names with dots, as in data.object.id")
