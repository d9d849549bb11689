"""Any sender that signs by Standard Webhooks 1.0.0, directly or through Svix (standard-webhooks.md; the signature: `svix.py`).

Key: the message's id in the header, the same at every attempt, at a resend by hand and at every endpoint that gets the
message. It is its sender's own, so this source is part of it. Only the time of the attempt differs between attempts, and it
stands in a header. The specification recommends `type` and `timestamp` in the body; a sender with other names is told by
`type_path`, `type_constant` and `time_path`. A list, as Svix's FIFO endpoints may send, is one event: its id names the whole.

Asymmetric signatures (`v1a`, ed25519) are passed over: nothing in this installation can check them. A sender that makes no
others stops the start by its key, `whpk_`.
"""

from __future__ import annotations

from typing import Any

from ledger import payload
from ledger.receiver.sources.adapter import Arrival, Identity, require_id
from ledger.receiver.sources.facts import Facts
from ledger.receiver.sources.svix import SIGNATURE, SvixSigned

ASYMMETRIC = ("whpk_", "whsk_")
TYPE_PATH, TIME_PATH = "type", "timestamp"


class StandardWebhooks(SvixSigned):
    """One sender's messages, under either family of headers; the two are never mixed."""

    kind = "standard-webhooks"
    facts = Facts(
        sender="Standard Webhooks, Svix",
        signature=f"`webhook-id`, `webhook-timestamp`, `webhook-signature`, or all three with `svix-`: {SIGNATURE}",
        clock="300 s both ways (`tolerance_s`)",
        key="`webhook-id` (`svix-id`), within this source",
        subscription="not part of the key: every endpoint gets the message under one id",
        type="`type` of the body; otherwise `type_path` or `type_constant`",
        event_time="`timestamp` of the body, otherwise `time_path`",
        resource_ids="the sender's own, usually under `data`",
        ack_s=15.0,
        retries="the sender's own; the specification's example ends after 75.5 h, Svix after 27.6 h, and a resend by hand keeps the id",
        takes=frozenset(("type_path", "type_constant", "time_path")),
    )
    prefixes = ("svix-", "webhook-")

    def secret(self, text: str) -> bytes:
        if text.startswith(ASYMMETRIC):
            raise self.wrong(
                "secrets",
                "has an ed25519 key, whose signatures (v1a) are not checked here; ask the sender for v1",
            )
        return super().secret(text)

    def identity(self, document: Any, arrival: Arrival) -> Identity:
        s, message_id = self.settings, self.delivered(arrival.headers, "id")
        return Identity(
            type=s.type_constant or require_id(payload.look_up(document, s.type_path or TYPE_PATH), "type"),
            key=(require_id(message_id, "message id"),),
            delivery_id=message_id,
            occurred_at=payload.moment(payload.look_up(document, s.time_path or TIME_PATH)),
        )
