"""Microsoft Graph's notifications: the handshake, whose element it is, and what tells one from another."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import Misconfigured
from ledger.payload import Malformed
from ledger.receiver.sources.adapter import Arrival, Forged
from ledger.receiver.sources.microsoft_graph import ANSWER_CHARACTERS_MAX, MicrosoftGraph
from ledger.records import Delivery, Unusable
from ledger.settings import SourceSettings
from tests.receiver import known
from tests.receiver import signed as fix

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIFECYCLE = {"subscriptionId": "s-1", "tenantId": "t-1", "clientState": known.GRAPH_SECRET}


def graph(*secrets: str, **settings: Any) -> MicrosoftGraph:
    table = SourceSettings(kind="microsoft-graph", namespace="acme", secrets=("S",), **settings)
    return MicrosoftGraph("office", table, secrets or [known.GRAPH_SECRET])


def read(*elements: Any, source: MicrosoftGraph | None = None) -> list[Any]:
    return (source or graph()).read({}, fix.graph(*elements), NOW)


def one(source: MicrosoftGraph | None = None, **members: Any) -> Any:
    (item,) = read(fix.graph_element(**members), source=source)
    return item


# ── the handshake ─────────────────────────────────────────────────────────────────────────────────────


def asked(query: str) -> str | None:
    return graph().handshake(Arrival({}, b"", NOW, f"/webhooks/office?{query}"))


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (
            "validationToken=Validation%3A+Testing+client+for+Request-Id%3A+6f-0a",
            "Validation: Testing client for Request-Id: 6f-0a",
        ),
        ("client=1&validationToken=a%26b%3Dc%22%27é", "a&b=c\"'é"),
        ("validationToken=%3Cb%3Ex%3C%2Fb%3E", "&lt;b&gt;x&lt;/b&gt;"),
        ("validationToken=" + "t" * ANSWER_CHARACTERS_MAX, "t" * ANSWER_CHARACTERS_MAX),
    ],
)
def test_the_handshake_is_the_decoded_token_without_markup(query: str, answer: str) -> None:
    assert asked(query) == answer


@pytest.mark.parametrize(
    "query",
    [
        *("", "client=1", "validationtoken=x", "validationToken", "validationToken=", "validationToken=%FF"),
        *("validationToken=a%0Ab", "validationToken=%00", "validationToken=%E2%80%AEx"),
        *("validationToken=a&validationToken=b", "validationToken=" + "t" * (ANSWER_CHARACTERS_MAX + 1)),
        "&".join(f"a{i}=1" for i in range(30)) + "&validationToken=x",
    ],
)
def test_what_cannot_be_a_token_is_no_handshake(query: str) -> None:
    assert asked(query) is None


@given(st.text(max_size=80))
def test_no_query_makes_markup_or_an_exception(text: str) -> None:
    for query in (text, f"validationToken={text}", f"validationToken={quote(text, errors='replace')}"):
        answer = asked(query)
        assert answer is None or not {"<", ">", "\n", "\r", "\x00"} & set(answer)


# ── whose it is ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "said", [None, "", "another", known.GRAPH_SECRET + " ", 1, [known.GRAPH_SECRET], "\ud83c", "é"]
)
def test_an_element_that_does_not_know_us_is_refused(said: Any) -> None:
    with pytest.raises(Forged):
        one(clientState=said)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"null",
        b"42",
        b'"x"',
        b'{"value":[]}',
        b'{"value":{}}',
        b'{"value":[1,null,"x"]}',
        b'{"value":null}',
    ],
)
def test_a_body_in_which_nobody_knows_us_is_refused(body: bytes) -> None:
    with pytest.raises(Forged):
        graph().read({}, body, NOW)


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"value":[NaN]}', b'{"value":[],"value":[]}', b"\xff", b'{"value":[]}x']
)
def test_what_is_no_document_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        graph().read({}, body, NOW)


def test_sig_05_two_client_states_are_valid_while_subscriptions_are_renewed() -> None:
    both = graph(known.GRAPH_SECRET, known.OLD_GRAPH_SECRET)
    items = read(
        fix.graph_element(id="1"), fix.graph_element(id="2", clientState=known.OLD_GRAPH_SECRET), source=both
    )
    assert [type(item) for item in items] == [Delivery, Delivery]
    with pytest.raises(Forged):
        one(clientState=known.OLD_GRAPH_SECRET)


@pytest.mark.parametrize("secret", ["short", "", "s" * 256])
def test_a_secret_that_can_be_no_client_state_stops_the_start(secret: str) -> None:
    with pytest.raises(Misconfigured, match=r"\[sources\.office\]"):
        graph(secret)


# ── batches ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (fix.graph_element(clientState="another"), "clientState"),
        *((bad, "clientState") for bad in ({}, "str", None, 7, [])),
        (fix.graph_element(tenantId=None), "tenantId"),
        (fix.graph_element(subscriptionId=""), "subscriptionId"),
        (fix.graph_element(changeType=True), "changeType"),
        (fix.graph_element(resource=[]), "resource"),
        (fix.graph_element(id="a\x00b"), "NUL"),
        (fix.graph_element(id=None, resourceData=None), "accept_unmarked"),
    ],
)
def test_bat_01_a_bad_element_goes_to_quarantine_and_its_neighbours_do_not(bad: Any, reason: str) -> None:
    first, item, last = read(fix.graph_element(id="1"), bad, fix.graph_element(id="2"))
    assert isinstance(first, Delivery) and isinstance(last, Delivery)
    assert isinstance(item, Unusable) and item.index == 1 and reason in item.reason
    assert json.loads(item.body) == bad


def test_each_element_is_kept_as_it_was_spelled() -> None:
    spelled = json.dumps(fix.graph_element(id="é"), ensure_ascii=False, indent=3).encode()
    body = b'{ "validationTokens": ["x"],\n "value" : [\t' + spelled + b' ] , "more": {} }'
    (found,) = graph().read({}, body, NOW)
    assert isinstance(found, Delivery) and found.body == spelled


# ── what tells one from another ───────────────────────────────────────────────────────────────────────


def test_what_graph_says_becomes_a_delivery() -> None:
    found = one()
    assert (found.type, found.namespace, found.occurred_at) == ("created", "acme", None)
    assert found.event_key == 't-1 s-1 created users/u/messages/m id=n-1 etag=W/"CQAA"'
    assert graph().success_status == 202


def test_a_repeated_delivery_is_the_same_also_after_the_subscription_was_renewed() -> None:
    first, again = one(), one(subscriptionExpirationDateTime="2026-04-01T00:00:00Z")
    assert (first.key_digest, first.content_digest) == (again.key_digest, again.content_digest)


@pytest.mark.parametrize(
    "other",
    [
        *(
            {"tenantId": "t-2"},
            {"subscriptionId": "s-2"},
            {"changeType": "updated"},
            {"resource": "users/u/messages/n"},
        ),
        *({"id": "n-2"}, {"id": None}, {"resourceData": {"@odata.etag": 'W/"CQAB"'}}, {"resourceData": None}),
    ],
)
def test_another_change_is_another_event(other: dict[str, Any]) -> None:
    assert one(**other).key_digest != one().key_digest


def test_without_id_and_etag_each_delivery_is_an_event_if_we_say_so() -> None:
    source = graph(accept_unmarked=True)
    found = [
        one(source, id=None, resourceData={"@odata.type": "#Microsoft.Graph.DriveItem"}) for _ in range(2)
    ]
    assert found[0].key_digest != found[1].key_digest
    assert one(source).key_digest == one(source).key_digest


@pytest.mark.parametrize(
    "event", ["missed", "subscriptionRemoved", "reauthorizationRequired", "one of tomorrow"]
)
def test_each_lifecycle_event_is_an_event(event: str) -> None:
    first, again = read(LIFECYCLE | {"lifecycleEvent": event}, LIFECYCLE | {"lifecycleEvent": event})
    assert first.type == again.type == f"lifecycle.{event}"
    assert first.key_digest != again.key_digest
