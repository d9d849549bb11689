"""AgentMail, delivered by Svix (docs.agentmail.to: webhook verification, events; the signature: `svix.py`).

Key: the body's `event_id`, stable over retries. Occurrence: type, inbox and message of what was received, so that a
message found again without its event id is no new event; a status (delivered, bounced …) may come several times for
one message, recipient by recipient, and has none. Delivery: `svix-id`. Time: nested under the event's own object.
Order: off, unless `ordering_path` names a member of that object, as in "thread_id" or "inbox_id".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger import payload
from ledger.receiver.sources.adapter import Arrival, Identity, Unfit, require_id
from ledger.receiver.sources.facts import Facts
from ledger.receiver.sources.svix import SIGNATURE, SvixSigned

# Under which name an event carries its own object (agentmail 2.0.18, agentmail/events/types).
NESTED = ("message", "send", "delivery", "bounce", "complaint", "reject", "open")


class AgentMail(SvixSigned):
    """Svix signatures `v1`; several secrets and several signatures during a rotation."""

    kind = "agentmail"
    facts = Facts(
        sender="AgentMail",
        signature=f"`svix-id`, `svix-timestamp`, `svix-signature`: {SIGNATURE}",
        clock="300 s both ways (`tolerance_s`)",
        key="`event_id`, the same under every source of AgentMail's",
        subscription="not part of the key: whether two subscriptions share an event id is not published",
        occurrence="of `message.received…`: type, `inbox_id`, `message_id`",
        type="`event_type`",
        event_time="`timestamp` of the event's own object",
        resource_ids="`inbox_id`, `thread_id`, `message_id` of the event's own object",
        ack_s=15.0,
        retries="27.6 h; after 5 days of failures the endpoint is switched off",
    )

    @property
    def key_rule(self) -> tuple[str, ...]:
        return ("agentmail",)  # event ids are AgentMail's own: two of our sources that get one event share it

    def identity(self, document: Any, arrival: Arrival) -> Identity:
        if not isinstance(document, dict):
            raise Unfit("It is not an object.")
        type_, inner = require_id(document.get("event_type"), "event_type"), _inner(document)
        return Identity(
            type=type_,
            key=(require_id(document.get("event_id"), "event_id"),),
            occurrence=_occurrence(type_, inner),
            delivery_id=self.delivered(arrival.headers, "id"),
            occurred_at=payload.moment(inner.get("timestamp")),
        )

    def ordered_in(self, document: Any) -> Any:
        return _inner(document)


def _inner(document: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in NESTED:
        found = document.get(name)
        if isinstance(found, dict):
            return found
    return {}


def _occurrence(type_: str, message: Mapping[str, Any]) -> tuple[str, ...] | None:
    inbox, message_id = payload.identity(message.get("inbox_id")), payload.identity(message.get("message_id"))
    if inbox and message_id and type_.startswith("message.received"):
        return type_, inbox, message_id
    return None
