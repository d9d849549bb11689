"""Whatever an authentic body holds: events, quarantine or a refusal, and never a fault of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.payload import Malformed
from ledger.receiver.sources import kinds
from ledger.receiver.sources.adapter import Adapter
from ledger.records import Delivery, Unusable
from ledger.settings import SourceSettings
from tests.receiver import known
from tests.receiver import signed as fix

SECRETS = {
    "stripe": known.STRIPE_SECRET,
    "shopify": known.SHOPIFY_SECRET,
    "hubspot": known.HUBSPOT_SECRET,
    "microsoft-graph": known.GRAPH_SECRET,
    "standard-webhooks": known.STANDARD_SECRET,
}
# The members that an adapter looks at, so that chance finds its way into each of them.
LOOKED_AT = [
    *(
        "id",
        "type",
        "created",
        "data",
        "related_object",
        "timestamp",
        "value",
        "clientState",
        "resourceData",
        "@odata.etag",
    ),
    *(
        "tenantId",
        "subscriptionId",
        "changeType",
        "resource",
        "lifecycleEvent",
        "eventId",
        "portalId",
        "subscriptionType",
    ),
    *("occurredAt", "propertyValue", "attemptNumber", "objectId"),
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from([known.GRAPH_SECRET, "\x00", "\ud83c", "", "x" * 300]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(LOOKED_AT), inner, max_size=6)
    ),
    max_leaves=12,
)
DOCUMENTS = st.one_of(
    VALUES,
    st.fixed_dictionaries({"value": st.lists(VALUES, max_size=3)}),
    *(
        st.dictionaries(st.sampled_from(LOOKED_AT), VALUES, max_size=4).map(
            lambda odd, whole=whole: whole | odd
        )
        for whole in (json.loads(fix.stripe_event()), fix.hubspot_event(), fix.graph_element())
    ),
)


def adapter(kind: str) -> Adapter:
    url = known.PUBLIC_URL if kind == "hubspot" else ""
    table = SourceSettings(kind=kind, namespace="acme", secrets=("S",), public_url=url)
    return kinds()[kind]("source", table, [SECRETS[kind]])


@pytest.mark.parametrize("kind", SECRETS)
@given(document=DOCUMENTS, is_listed=st.booleans(), is_enveloped=st.booleans(), rest=st.binary(max_size=3))
def test_no_body_makes_a_fault(
    kind: str, document: Any, is_listed: bool, is_enveloped: bool, rest: bytes
) -> None:
    document = [document, fix.hubspot_event()] if is_listed else document
    document = {"value": [document, fix.graph_element()]} if is_enveloped else document
    body = json.dumps(document).encode() + rest
    headers = fix.shopify(body) | {"webhook-id": "msg_1"}
    try:
        items = adapter(kind).found(headers, body)
    except Malformed:
        return
    for item in items:
        assert isinstance(item, Delivery) or (
            isinstance(item, Unusable) and "fault in Not Twice" not in item.reason
        )
