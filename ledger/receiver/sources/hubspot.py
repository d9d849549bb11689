"""HubSpot's webhooks, signature version 3 (developers.hubspot.com: validating requests, webhooks).

A body is a list of fewer than a hundred events. HubSpot says that `eventId` is not guaranteed to be unique, so the key is
everything that tells one event from another: account, app, subscription, object, type, time and id, and of a change its
property and the digest of the value. By the subscription, what two overlapping ones bring are two events, which meet in
the action key. `attemptNumber` counts the attempts and is kept for diagnosis.

Signed is method, address, body and timestamp. The address is the one that HubSpot called: behind a proxy the receiver does
not see it, and a Host header proves nothing, so it is the setting `public_url`, word for word as it stands in the app. The
escapes that HubSpot undoes before it signs are undone here, once, at the start. Checked by the few lines below: HubSpot's
package (hubspot-api-python 12) takes version 2 unless told otherwise, undoes no escape, lets future times pass and reads
the clock itself. Its published vector is a test.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ledger import payload
from ledger.payload import Element
from ledger.receiver.sources.adapter import Adapter, Arrival, Identity, Unfit, require_id
from ledger.receiver.sources.facts import Facts
from ledger.receiver.sources.signing import decoded, fresh, matches_any
from ledger.settings import SourceSettings

METHOD = "POST"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
SIGNATURE, TIMESTAMP = "x-hubspot-signature-v3", "x-hubspot-request-timestamp"
# What HubSpot undoes before it signs; the ? ahead of a query is none of these, for it is not escaped.
UNDONE = re.compile(r"%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.ASCII | re.IGNORECASE)
REQUIRED = ("portalId", "subscriptionType", "eventId", "occurredAt")
# What only some types of event have: a change of a property, an association, a merge, a conversation.
FURTHER = (
    *("appId", "subscriptionId", "objectTypeId", "objectId", "propertyName", "fromObjectId", "toObjectId"),
    *("associationType", "primaryObjectId", "newObjectId", "messageId"),
)


class HubSpot(Adapter):
    """One app's webhooks, of all the accounts that installed it; several secrets during a rotation."""

    kind = "hubspot"
    facts = Facts(
        sender="HubSpot",
        signature="`X-HubSpot-Signature-v3`: HMAC-SHA256 over method, address (`public_url`), body and timestamp, base64",
        clock="`X-HubSpot-Request-Timestamp`, in milliseconds: 300 s both ways (`tolerance_s`)",
        key="`portalId`, `subscriptionType`, `eventId`, `occurredAt`, and what else names the change: "
        "app, subscription, object, property, the digest of its value",
        subscription="part of the key",
        type="`subscriptionType`",
        event_time="`occurredAt`",
        resource_ids="`portalId`, `objectId`",
        lists=True,
        volatile=("attemptNumber",),
        ack_s=5.0,
        retries="up to 10 within 24 h; whether a 4xx is tried again is told both ways",
        takes=frozenset(("public_url",)),
    )

    def __init__(self, name: str, settings: SourceSettings, secrets: Sequence[str]) -> None:
        super().__init__(name, settings, secrets)
        self._called = (METHOD + UNDONE.sub(_undone, self._public_url())).encode()

    @property
    def key_rule(self) -> tuple[str, ...]:
        return ("hubspot",)  # the account is in the key

    def _public_url(self) -> str:
        url = self.settings.public_url
        if not _can_be_called(url):
            what = "is the address that HubSpot calls, which it signs: write it as it stands in the app, from https:// on"
            raise self.wrong("public_url", what)
        return url

    def is_authentic(self, arrival: Arrival) -> bool:
        timestamp = arrival.headers.get(TIMESTAMP, "")
        if not fresh(timestamp, arrival.received_at, self.settings.tolerance_s, unit="ms"):
            return False
        header = arrival.headers.get(SIGNATURE, "")
        given = [one for text in header.split(",") for one in decoded(text.strip(), "base64")]
        return matches_any(given, self.secrets, self._called, arrival.body, timestamp.encode())

    def elements(self, arrival: Arrival) -> list[Element]:
        found = super().elements(arrival)
        if found and found[0].body is arrival.body:
            raise Unfit("It is not a list.")
        return found

    def identity(self, document: Any, arrival: Arrival) -> Identity:
        if not isinstance(document, Mapping):
            raise Unfit("It is not an object.")
        required = [require_id(document.get(name), name) for name in REQUIRED]
        further = ((name, payload.identity(document.get(name))) for name in FURTHER)
        return Identity(
            type=required[1],
            key=(*required, *(f"{name}={text}" for name, text in further if text), *_value(document)),
            delivery_id=f"attempt {payload.identity(document.get('attemptNumber')) or '?'}",
            occurred_at=payload.moment(document.get("occurredAt")),
        )


def _value(document: Mapping[str, Any]) -> tuple[str, ...]:
    """A value may be long, and is personal data, which a key should not show."""
    if "propertyValue" not in document:
        return ()
    return ("value=" + hashlib.sha256(payload.canonical(document["propertyValue"])).hexdigest()[:32],)


def _undone(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))


def _can_be_called(url: str) -> bool:
    """HubSpot calls https alone; plain http to this machine is for trying it out."""
    try:
        parts = urlsplit(url)
        secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    except ValueError:
        return False
    return secure and bool(parts.hostname) and url.isascii() and url.isprintable() and " " not in url
