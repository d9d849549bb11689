"""A message that AgentMail's API lists: the same event as its webhook's, found again without its event id.

What an API lists is a view of a message as it is now: labels and times of change differ from what the webhook brought,
and from one listing to the next. So only what it is about makes its identity: type, inbox and message, the occurrence
key that the webhook's event has too. Whichever comes first stands, the other is its duplicate, and never a conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ledger import payload
from ledger.errors import Misconfigured
from ledger.payload import Element
from ledger.receiver.sources.adapter import Adapter, Identity, Item, Unfit, require_id
from ledger.receiver.sources.agentmail import AgentMail
from ledger.records import Delivery, digest_of

TYPE = "message.received"
JSON = {"content-type": "application/json"}
FRAME = b'{"type":"event","event_type":"message.received","message":', b"}"


def of_listing(adapter: Adapter, item: Mapping[str, Any]) -> Item:
    """As far as a list tells: enough to know whether the event is there, not to work it."""
    return _item(adapter, item, b"")


def of_message(adapter: Adapter, message: bytes) -> Item:
    """The event of a message as the API gave it, in the shape of the webhook, its bytes kept. Raises Malformed.

    There is no `event_id` in it: AgentMail gave none.
    """
    body = message.join(FRAME)
    document = payload.parse(body)
    return _item(adapter, document["message"], body)


def require_list(adapter: Adapter) -> AgentMail:
    """Raises Misconfigured for a source whose provider lists no messages."""
    if not isinstance(adapter, AgentMail):
        raise Misconfigured(
            f"[sources.{adapter.name}] is no source of AgentMail, and only AgentMail's messages can be listed. "
            "Hand in a file of what was missed: --file FILE."
        )
    return adapter


def _item(adapter: Adapter, message: Any, body: bytes) -> Item:
    source = require_list(adapter)
    try:
        return _delivery(source, message if isinstance(message, Mapping) else {}, body)
    except Unfit as error:
        return adapter.unusable(str(error), body)


def _delivery(adapter: AgentMail, message: Mapping[str, Any], body: bytes) -> Delivery:
    about = (
        TYPE,
        require_id(message.get("inbox_id"), "inbox_id"),
        require_id(message.get("message_id"), "message_id"),
    )
    at = payload.moment(message.get("timestamp"))
    found = Identity(TYPE, ("listed", *about), occurrence=about, occurred_at=at)
    delivery = adapter.delivery(found, Element({"message": message}, body), JSON)
    return replace(delivery, content_digest=digest_of(*about))
