"""The signature of Svix and of Standard Webhooks, shared by the sources that are delivered so.

Signed is `id.timestamp.body` with HMAC-SHA256; the header holds `v1,<base64>`, several apart by blanks during a
rotation (docs.svix.com, verifying payloads; standard-webhooks.md 1.0.0). The secret is `whsec_` and base64.

Checked by the few lines below. The published verifiers (`svix` 2.9, `standardwebhooks` 1.1) do not hold: a malformed
signature raises ValueError or binascii.Error instead of their own error, `123.9` passes for the time 123, and neither
lets the time be given. The tests hold these lines against them and their published vector.
"""

from __future__ import annotations

import base64
import binascii
from typing import ClassVar

from ledger.receiver.sources.adapter import Adapter, Arrival, Headers
from ledger.receiver.sources.signing import decoded, fresh, matches_any

SIGNATURE = "HMAC-SHA256 over `id.timestamp.body`, base64, as `v1,…`; several apart by blanks"


class SvixSigned(Adapter):
    """A source whose deliveries carry id, timestamp and signature under one of `prefixes`, the first that is there."""

    prefixes: ClassVar[tuple[str, ...]] = ("svix-",)

    def secret(self, text: str) -> bytes:
        key = key_behind("whsec_", text)
        if not key:
            raise self.wrong(
                "secrets",
                f"has a secret that is none of {self.facts.sender}'s for webhooks. It begins with whsec_, base64 follows; "
                "copy it from the webhook's page",
            )
        return self.long_enough(key)

    def is_authentic(self, arrival: Arrival) -> bool:
        prefix, headers = self._prefix(arrival.headers), arrival.headers
        svix_id, timestamp = headers.get(prefix + "id", ""), headers.get(prefix + "timestamp", "")
        if not svix_id or not fresh(timestamp, arrival.received_at, self.settings.tolerance_s):
            return False
        head = f"{svix_id}.{timestamp}.".encode("latin-1")  # as header bytes became text
        return self.is_signed(headers.get(prefix + "signature", ""), head + arrival.body)

    def is_signed(self, header: str, message: bytes) -> bool:
        """Whether one of the header's signatures is made by one of the secrets."""
        return matches_any(versioned(header, "v1"), self.secrets, message)

    def delivered(self, headers: Headers, what: str) -> str:
        """`id`, `timestamp` or `signature`, always under the same prefix: the id that was signed is the id that is used."""
        return headers.get(self._prefix(headers) + what, "")

    def _prefix(self, headers: Headers) -> str:
        for prefix in self.prefixes:
            if prefix + "id" in headers:
                return prefix
        return self.prefixes[0]


def key_behind(prefix: str, text: str) -> bytes:
    """The bytes that base64 spells behind the prefix, which may be left out, as its padding may; b"" for what is none."""
    encoded = text.removeprefix(prefix)
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def versioned(header: str, version: str) -> list[bytes]:
    """The signatures of one version; others, and what is none, are passed over."""
    entries = (entry.partition(",") for entry in header.split(" "))
    return [found for said, _, text in entries if said == version for found in decoded(text, "base64")]
