"""GitHub's webhooks (docs.github.com: validating webhook deliveries, webhook events and payloads, handling failed deliveries).

Key: `X-GitHub-Delivery`, unchanged when somebody redelivers; each hook has its own for the same happening, so what an
organisation's and a repository's hook bring are two events, which meet in the action key. Type: `X-GitHub-Event`, and behind
a dot the body's `action`. `ping`, which a new hook sends, is completed on acceptance. GitHub itself never tries again.

A body is JSON, or a form whose only field `payload` is that JSON, as the hook's content type was set; it is told by its
first bytes, since headers are not signed. Signed is the body alone, with `X-Hub-Signature-256`, which is sent only by hooks
that have a secret; the old `X-Hub-Signature` (SHA-1) is never looked at. As ids and events stand in headers and there is no
timestamp, who recorded a request could send its body again under another id: `repeats_by_body` stops that, at the price
that two happenings with not a byte between them are one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger import payload
from ledger.payload import Element
from ledger.payload import form as payload_form
from ledger.receiver.sources.adapter import Adapter, Arrival, Identity, Unfit, require_id
from ledger.receiver.sources.facts import Facts
from ledger.receiver.sources.signing import decoded, matches_any

SIGNATURE, PREFIX = "x-hub-signature-256", "sha256="


class GitHub(Adapter):
    """One or several hooks; with a secret of each they may share a source."""

    kind = "github"
    facts = Facts(
        sender="GitHub",
        signature="`X-Hub-Signature-256: sha256=…`: HMAC-SHA256 of the body, hex; headers are not signed",
        key="`X-GitHub-Delivery`, the same under every source of GitHub's",
        subscription="part of the key: each hook has its own delivery id",
        occurrence="none; with `repeats_by_body` type and body",
        type="`X-GitHub-Event`, and behind a dot `action` of the body, where it has one",
        resource_ids="`repository.full_name`, `sender.login`, the id of the event's own object",
        ignored=("ping",),
        ack_s=10.0,
        retries="none by itself; by hand within 3 days (older pages: 30)",
        takes=frozenset(("repeats_by_body",)),
    )

    @property
    def key_rule(self) -> tuple[str, ...]:
        return ("github",)  # a GUID of GitHub's own

    @property
    def named_by_headers(self) -> tuple[str, ...]:
        return "X-GitHub-Delivery", "X-GitHub-Event"

    def is_authentic(self, arrival: Arrival) -> bool:
        header = arrival.headers.get(SIGNATURE, "")
        given = decoded(header.removeprefix(PREFIX), "hex") if header.startswith(PREFIX) else []
        return matches_any(given, self.secrets, arrival.body)

    def elements(self, arrival: Arrival) -> list[Element]:
        document = payload_form.json_of(arrival.body)
        return [] if document == [] else [Element(document, arrival.body)]

    def identity(self, document: Any, arrival: Arrival) -> Identity:
        if not isinstance(document, Mapping):
            raise Unfit("It is not an object.")
        delivery = require_id(arrival.headers.get("x-github-delivery"), "X-GitHub-Delivery")
        event = require_id(arrival.headers.get("x-github-event"), "X-GitHub-Event")
        action = payload.identity(document.get("action"))
        return Identity(type=f"{event}.{action}" if action else event, key=(delivery,), delivery_id=delivery)
