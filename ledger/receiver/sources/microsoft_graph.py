"""Microsoft Graph's change notifications and lifecycle events (learn.microsoft.com/graph: change-notifications-…).

A body is `{"value": […]}`: one element an event, of several subscriptions and tenants as it comes. Nothing is signed; each
element repeats the `clientState` that its subscription was made with, and that is compared with the secrets. A request in
which no element knows one is refused; next to elements that do, one that does not goes to quarantine. The tokens of rich
notifications (`validationTokens`) are not checked: their keys would have to be fetched. `clientState` stands in the body
that is kept, so take a random text that opens nothing else.

Key: tenant, subscription, kind of change, resource, and the notification's id and the resource's etag, of which one must be
there: `id` is optional, and published examples look as if it were not always unique. Without both, Graph gives nothing to
tell a repeated delivery from a second change (drives, chat messages): such a notification goes to quarantine, unless
`accept_unmarked` says to take each delivery of it for an event of its own. Lifecycle events never have either, and are
always taken so: to look for missed changes twice does no harm, not to look at all does. Handlers fetch the resource anyway.
By the subscription, what two overlapping ones bring are two events, which meet in the action key. There is no event time.

Handshake: a POST with `validationToken` in its query is answered with that token as plain text. Graph never sends markup
in it, so there is none in the answer either.
"""

from __future__ import annotations

import hmac
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from ledger import payload
from ledger.payload import Element, Malformed
from ledger.receiver.sources.adapter import Adapter, Arrival, Identity, Unfit, require_id
from ledger.receiver.sources.facts import Facts

LIST = "value"
CLIENT_STATE_MAX = 255
ASKED = "validationToken"
ANSWER_CHARACTERS_MAX = 2_000
FIELDS_MAX = 20


class MicrosoftGraph(Adapter):
    """The notification address, and the lifecycle address too, of one or several applications."""

    kind = "microsoft-graph"
    facts = Facts(
        sender="Microsoft Graph",
        signature="none: every element repeats the secret, as `clientState`",
        key="`tenantId`, `subscriptionId`, `changeType`, `resource`, `id`, `resourceData.@odata.etag`; of a lifecycle event, "
        "and with `accept_unmarked` of an element with neither id nor etag, each delivery",
        subscription="part of the key",
        type="`changeType`; `lifecycle.` and `lifecycleEvent`",
        resource_ids="`tenantId`, `subscriptionId`, `resource`, `resourceData.id`",
        lists=True,
        volatile=("clientState", "subscriptionExpirationDateTime"),
        success=202,
        ack_s=3.0,
        retries="4 h, growing gaps; with more than 15 % of slow answers notifications are dropped for good",
        takes=frozenset(("accept_unmarked",)),
    )

    @property
    def key_rule(self) -> tuple[str, ...]:
        return ("microsoft-graph",)  # tenant and subscription are in the key

    def secret(self, text: str) -> bytes:
        if len(text) > CLIENT_STATE_MAX:
            raise self.wrong(
                "secrets",
                f"has a secret of more than {CLIENT_STATE_MAX} characters, which no clientState can be",
            )
        return super().secret(text)

    def handshake(self, arrival: Arrival) -> str | None:
        """The token, without anything that could be markup; None for what cannot be one, which is then read as a delivery."""
        query = arrival.target.partition("?")[2]
        if ASKED not in query:
            return None
        token = _token(query)
        if not token.isprintable() or not 0 < len(token) <= ANSWER_CHARACTERS_MAX:
            return None
        return token.replace("<", "&lt;").replace(">", "&gt;")

    def is_authentic(self, arrival: Arrival) -> bool:
        """Whether one element knows a secret. Of a body that cannot be read nothing is kept: reading it says so."""
        try:
            document = payload.parse(arrival.body)
        except Malformed:
            return True
        found = document.get(LIST) if isinstance(document, Mapping) else None
        return any(self._knows_us(element) for element in found) if isinstance(found, list) else False

    def _knows_us(self, element: Any) -> bool:
        said = element.get("clientState") if isinstance(element, Mapping) else None
        given = said.encode("utf-8", "surrogatepass") if isinstance(said, str) else b""
        return sum(hmac.compare_digest(given, secret) for secret in self.secrets) > 0

    def elements(self, arrival: Arrival) -> list[Element]:
        return payload.elements(arrival.body, LIST)

    def identity(self, document: Any, arrival: Arrival) -> Identity:
        if not self._knows_us(document):
            raise Unfit("Its clientState is none of ours.")
        whose = [require_id(document.get(name), name) for name in ("tenantId", "subscriptionId")]
        if event := payload.identity(document.get("lifecycleEvent")):
            return Identity(type=f"lifecycle.{event}", key=(*whose, "lifecycle", event, _own()))
        change, resource = (require_id(document.get(name), name) for name in ("changeType", "resource"))
        return Identity(type=change, key=(*whose, change, resource, *self._marks(document)))

    def _marks(self, document: Mapping[str, Any]) -> tuple[str, ...]:
        data = document.get("resourceData")
        etag = data.get("@odata.etag") if isinstance(data, Mapping) else None
        found = (("id", payload.identity(document.get("id"))), ("etag", payload.identity(etag)))
        if marks := tuple(f"{name}={text}" for name, text in found if text):
            return marks
        if self.settings.accept_unmarked:
            return (_own(),)
        raise Unfit(
            "It has neither id nor etag. To take each delivery for an event of its own: accept_unmarked = true."
        )


def _token(query: str) -> str:
    """The token that was asked for; empty where it is not exactly one text."""
    try:
        found = parse_qs(query, errors="strict", max_num_fields=FIELDS_MAX).get(ASKED, [])
    except ValueError:  # not UTF-8, or too many
        return ""
    return found[0] if len(found) == 1 else ""


def _own() -> str:
    """A part of a key that no other delivery has."""
    return uuid.uuid4().hex
