"""Stripe: one event a request, snapshots and thin events alike (docs.stripe.com/webhooks; stripe-python `_webhook.py`).

Key: the event's own `id`, the same at every attempt, at every endpoint, and when somebody resends it by hand. Stripe can
make two events of one occurrence, but there is no occurrence key for it: object and type come together often and honestly
(`invoice.updated`), so that guard belongs into the action key. An attempt has no id. `pending_webhooks` counts down between
attempts. Endpoints with different API versions get one event in two spellings: a conflict, where they share a namespace.

Signed is `t.body`, under the whole text of the secret, `whsec_` included. While a secret is rolled, for at most 24 h, there
are two v1; other schemes are passed over. Checked by the few lines below: the published verifier (`stripe` 16) raises
TypeError for a signature that is not ASCII, takes a time such as ` 1_0`, takes any time ahead of the clock, and does not
let the time be given. The tests hold these lines against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger import payload
from ledger.receiver.sources.adapter import Adapter, Arrival, Identity, Unfit, require_id
from ledger.receiver.sources.facts import Facts
from ledger.receiver.sources.signing import SECRET_BYTES_MIN, decoded, fresh, matches_any

HEADER = "stripe-signature"
BEGINNING = "whsec_"


class Stripe(Adapter):
    """One or several endpoints of an account or a platform: with a secret of each they may share a source."""

    kind = "stripe"
    facts = Facts(
        sender="Stripe",
        signature="`Stripe-Signature: t=…,v1=…[,v1=…]`: HMAC-SHA256 over `t.body`, hex; the secret is used as text, `whsec_` included",
        clock="300 s both ways (`tolerance_s`); Stripe's own package lets times ahead of the clock pass",
        key="`id`, the same under every source of Stripe's",
        subscription="not part of the key: every endpoint gets the event under one id",
        type="`type`",
        event_time="`created`",
        resource_ids="`data.object.id`, of a thin event `related_object.id`; `account` with Connect",
        volatile=("pending_webhooks",),
        retries="live: up to 3 days, growing gaps; by hand 15 days from the dashboard, 30 from its command line",
    )

    @property
    def key_rule(self) -> tuple[str, ...]:
        return ("stripe",)  # event ids are Stripe's own: two of our sources that get one event share it

    def secret(self, text: str) -> bytes:
        if not text.startswith(BEGINNING) or len(text) < len(BEGINNING) + SECRET_BYTES_MIN:
            what = (
                "has a secret that is none of Stripe's for webhooks. It begins with whsec_ and stands on the endpoint's page; "
                "it is not the API key"
            )
            raise self.wrong("secrets", what)
        return text.encode()

    def is_authentic(self, arrival: Arrival) -> bool:
        times, given = _parts(arrival.headers.get(HEADER, ""))
        if len(times) != 1 or not fresh(times[0], arrival.received_at, self.settings.tolerance_s):
            return False
        return matches_any(given, self.secrets, f"{times[0]}.".encode(), arrival.body)

    def identity(self, document: Any, arrival: Arrival) -> Identity:
        if not isinstance(document, Mapping):
            raise Unfit("It is not an object.")
        return Identity(
            type=require_id(document.get("type"), "type"),
            key=(require_id(document.get("id"), "id"),),
            occurred_at=payload.moment(document.get("created")),
        )


def _parts(header: str) -> tuple[list[str], list[bytes]]:
    """The times and the v1 signatures. A field that was sent twice is one list with two times."""
    entries = [entry.strip().partition("=") for entry in header.split(",")]
    given = [one for scheme, _, text in entries if scheme == "v1" for one in decoded(text, "hex")]
    return [text for name, _, text in entries if name == "t"], given
