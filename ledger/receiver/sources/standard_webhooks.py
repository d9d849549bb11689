"""Any sender that signs by Standard Webhooks 1.0.0, directly or through Svix (standard-webhooks.md; the signature: `svix.py`).

Key: the message's id in the header, the same at every attempt, at a resend by hand and at every endpoint that gets the
message. It is its sender's own, so this source is part of it. Only the time of the attempt differs between attempts, and it
stands in a header. The specification recommends `type` and `timestamp` in the body; a sender with other names is told by
`type_path`, `type_constant` and `time_path`. A list, as Svix's FIFO endpoints may send, is one event: its id names the whole.

A sender with an asymmetric key (`whpk_`, ed25519) signs with version `v1a`; both sorts of keys may be named together, as
while a sender goes from one to the other. The published packages for Python pass `v1a` over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ledger import payload
from ledger.receiver.sources import ed25519
from ledger.receiver.sources.adapter import Arrival, Identity, require_id
from ledger.receiver.sources.facts import Facts
from ledger.receiver.sources.svix import SIGNATURE, SvixSigned, key_behind, versioned
from ledger.settings import SourceSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PUBLIC, PRIVATE = ASYMMETRIC = ("whpk_", "whsk_")
TYPE_PATH, TIME_PATH = "type", "timestamp"


class StandardWebhooks(SvixSigned):
    """One sender's messages, under either family of headers; the two are never mixed."""

    kind = "standard-webhooks"
    facts = Facts(
        sender="Standard Webhooks, Svix",
        signature=f"`webhook-id`, `webhook-timestamp`, `webhook-signature`, or all three with `svix-`: {SIGNATURE}; or ed25519 as `v1a,…`",
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

    def __init__(self, name: str, settings: SourceSettings, secrets: Sequence[str]) -> None:
        super().__init__(name, settings, [text for text in secrets if not text.startswith(ASYMMETRIC)])
        self._keys = [self._public_key(text) for text in secrets if text.startswith(ASYMMETRIC)]

    def _public_key(self, text: str) -> Ed25519PublicKey:
        if text.startswith(PRIVATE):
            raise self.wrong(
                "secrets",
                "has a private key (whsk_), which is the sender's alone; its public key begins with whpk_",
            )
        try:
            return ed25519.public_key(key_behind(PUBLIC, text))
        except ValueError:
            raise self.wrong(
                "secrets", "has a public key (whpk_) that is none of ed25519's, 32 bytes in base64"
            ) from None
        except ImportError:
            what = "has a public key (whpk_), and nothing here can check its signatures. Install not-twice[ed25519]"
            raise self.wrong("secrets", what) from None

    @property
    def named_by_headers(self) -> tuple[str, ...]:
        return ("webhook-id",)

    def is_signed(self, header: str, message: bytes) -> bool:
        is_one = ed25519.verifies_any(self._keys, versioned(header, "v1a"), message)
        return is_one or super().is_signed(header, message)

    def identity(self, document: Any, arrival: Arrival) -> Identity:
        s, message_id = self.settings, self.delivered(arrival.headers, "id")
        return Identity(
            type=s.type_constant or require_id(payload.look_up(document, s.type_path or TYPE_PATH), "type"),
            key=(require_id(message_id, "message id"),),
            delivery_id=message_id,
            occurred_at=payload.moment(payload.look_up(document, s.time_path or TIME_PATH)),
        )
