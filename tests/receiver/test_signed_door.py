"""The sources that sign by rules of their own, through a real receiver: what is answered, and what is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import fix_receiver
from tests.fix_receiver import Door, Start
from tests.receiver import known
from tests.receiver import signed as fix

ONCE = {
    "payments": (fix.stripe_event(), fix.stripe, 200),
    "shops": (b'{"id":820982911946154508}', fix.shopify, 200),
    "crm": (json.dumps([fix.hubspot_event()]).encode(), fix.hubspot, 200),
    "office": (fix.graph(fix.graph_element()), None, 202),
    "anybody": (b'{"type":"user.created","data":{"id":1}}', fix.standard, 200),
}


@pytest.mark.parametrize("source", ONCE)
def test_an_event_is_kept_once_and_both_attempts_get_the_same_answer(door: Door, source: str) -> None:
    body, sign, success = ONCE[source]
    for attempt in range(2):
        headers = sign(body) if sign else {}
        assert door.receiver.post(source, body, headers).status_code == success, attempt
    kept = "SELECT source, deliveries FROM nottwice.events JOIN nottwice.duplicates ON event_id = id"
    assert (door.rows(kept), door.count("events"), door.count("conflicts")) == ([(source, 1)], 1, 0)
    spoiled = (
        body.replace(known.GRAPH_SECRET.encode(), b"another client state")
        if source == "office"
        else body + b" "
    )
    forged = door.receiver.post(source, spoiled, headers)
    assert (forged.status_code, forged.text) == (401, "not accepted\n")


def test_sig_01_the_bytes_received_are_what_was_signed_and_what_is_kept(door: Door) -> None:
    for source, (body, sign, success) in ONCE.items():
        if sign is None:
            continue  # nothing is signed
        plain = body.replace(b'"id"', '"n":"🎉\u2028","id"'.encode()).replace(
            b"a@example.com", "é🎉".encode()
        )
        escaped = json.dumps(json.loads(plain)).encode()
        assert escaped != plain != body
        assert door.receiver.post(source, plain, sign(escaped)).status_code == 401
        assert door.receiver.post(source, plain, sign(plain)).status_code == success
        kept = plain[1:-1] if source == "crm" else plain  # the element of its list
        assert door.bodies().pop() == kept


def test_what_is_no_document_is_400_for_each_of_them(door: Door) -> None:
    for source, (_, sign, _) in ONCE.items():
        for body in (b"", b"{", b'{"a":NaN}'):
            assert door.receiver.post(source, body, sign(body) if sign else {}).status_code == 400
    assert door.nothing_stored


def test_bat_01_hubspots_list_with_a_bad_element_is_kept_by_one_answer(door: Door) -> None:
    first, last = (json.dumps(fix.hubspot_event(eventId=n)).encode() for n in (1, 2))
    body = b'[%b, {"eventId": null} , %b]' % (first, last)
    for _ in range(2):
        assert door.receiver.post("crm", body, fix.hubspot(body)).status_code == 200
    assert door.bodies() == [first, last]
    assert door.rows("SELECT element, body, deliveries FROM nottwice.quarantine") == [
        (1, b'{"eventId": null}', 2)
    ]


def test_bat_01_graphs_batch_keeps_strange_elements_apart(door: Door) -> None:
    ours: list[Any] = [fix.graph_element(id=f"n-{n}", tenantId=f"t-{n}") for n in range(2)]
    strange = fix.graph_element(clientState="somebody else's")
    assert door.receiver.post("office", fix.graph(ours[0], strange, ours[1]), {}).status_code == 202
    assert [json.loads(body) for body in door.bodies()] == ours
    (kept,) = door.rows("SELECT element, reason FROM nottwice.quarantine")
    assert kept == (1, "Its clientState is none of ours.")
    assert door.receiver.post("office", fix.graph(strange), {}).status_code == 401


def test_http_05_graphs_handshake_is_plain_text_and_only_graphs(door: Door) -> None:
    client, asked = door.receiver.client, {"validationToken": "Validation: <b>x</b> & é"}
    answer = client.post(
        "/webhooks/office", params=asked, headers={"Content-Type": "text/plain; charset=utf-8"}
    )
    assert (answer.status_code, answer.text) == (200, "Validation: &lt;b&gt;x&lt;/b&gt; & é")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/webhooks/office", params=asked).status_code == 405
    for source, status in {"crm": 401, "payments": 401, "nobody": 404}.items():
        assert client.post(f"/webhooks/{source}", params=asked).status_code == status
    for token in ("", "t" * 3_000, "a\nb"):
        assert client.post("/webhooks/office", params={"validationToken": token}).status_code == 400
    assert door.nothing_stored


def test_hubspot_is_checked_for_the_address_it_called_not_for_ours(door: Door) -> None:
    body = json.dumps([fix.hubspot_event()]).encode()
    ours = f"http://127.0.0.1:{door.receiver.port}/webhooks/crm"
    assert door.receiver.post("crm", body, fix.hubspot(body, url=ours)).status_code == 401
    spoofed = fix.hubspot(body) | {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http"}
    assert door.receiver.post("crm", body, spoofed).status_code == 200


def test_http_06_a_sender_that_waits_3_s_is_told_sooner_that_its_event_was_not_stored(
    door: Door, door_receivers: Start
) -> None:
    receiver = door_receivers(fix_receiver.CONFIG + "[receiver]\nanswer_within_s = 60\n")
    event = fix.graph(fix.graph_element())
    with door.holding("LOCK TABLE nottwice.events IN SHARE MODE"):
        assert receiver.post("office", event, {}).status_code == 503
    assert receiver.post("office", event, {}).status_code == 202
    assert door.count("events") == 1
