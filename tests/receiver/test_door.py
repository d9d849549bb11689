"""What the front door answers, over real HTTP: statuses, framing, and what it lets nobody learn."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests import fix_receiver as fix
from tests.fix_receiver import Receiver, Start

Rows = Callable[..., list[tuple[Any, ...]]]
EVENT = b'{"id":"e1","type":"paid"}'


def count(rows: Rows, table: str) -> int:
    return int(rows(f"SELECT count(*) FROM nottwice.{table}")[0][0])


def nothing_stored(rows: Rows) -> bool:
    return count(rows, "events") == count(rows, "quarantine") == 0


def test_each_refusal_has_its_status_and_all_read_the_same(receiver: Receiver, rows: Rows) -> None:
    client, signed = receiver.client, fix.shop(EVENT)
    answers = {
        401: client.post("/webhooks/shop", content=EVENT),
        404: client.post("/webhooks/shop2", content=EVENT, headers=signed),
        405: client.get("/webhooks/shop"),
        400: receiver.post("shop", b"{", fix.shop(b"{")),
        413: client.post("/webhooks/shop", content=b"x" * 5_000_001),
        415: client.post("/webhooks/shop", content=EVENT, headers={**signed, "Content-Encoding": "gzip"}),
    }
    assert {status: answer.status_code for status, answer in answers.items()} == {s: s for s in answers}
    assert {answer.text for answer in answers.values()} == {"not accepted\n"}
    assert answers[405].headers["allow"] == "POST"
    assert nothing_stored(rows)


def test_each_source_has_its_success_code_and_a_copy_gets_the_same(receiver: Receiver, rows: Rows) -> None:
    note = b'{"text":"hello"}'
    for _ in range(2):
        assert receiver.mail(fix.message("evt_1")) == 200
        assert receiver.shop(EVENT) == 202
        assert receiver.post("timed", note, fix.timed(note, "n1")).status_code == 204
    assert receiver.shop(b'{"type":"paid"}') == 202  # authentic but unusable: quarantined
    assert receiver.shop(b"[]") == 202  # a ping
    assert (count(rows, "events"), count(rows, "quarantine")) == (3, 1)
    assert rows("SELECT sum(n) FROM nottwice.counters WHERE metric = 'duplicate'") == [(3,)]


def test_what_is_stored_is_what_was_sent(receiver: Receiver, rows: Rows) -> None:
    body = b'{"id": 7,"type" :"paid","at":"2026-03-01T10:00:00+02:00"}'
    headers = {**fix.shop(body, X_Shop_Delivery="d1"), "Content-Type": "application/vnd.shop+json"}
    receiver.post("shop", body, headers)
    (row,) = rows(
        """SELECT namespace, source, type, event_key, delivery_id, occurred_at AT TIME ZONE 'UTC' = '2026-03-01 08:00', state,
                  octet_length(key_digest), content_type, body
           FROM nottwice.events JOIN nottwice.event_contents ON event_id = id"""
    )
    stored = ("acme", "shop", "paid", "paid 7", "d1", True, "pending", 32, "application/vnd.shop+json", body)
    assert row == stored


def test_ignored_types_are_completed_on_acceptance(receiver: Receiver, rows: Rows) -> None:
    receiver.shop(b'{"id":1,"type":"ping"}')
    assert rows("SELECT state, ending FROM nottwice.events") == [("completed", "ignored")]


def test_other_content_under_the_same_key_is_kept_once_but_honest_retries_differ(
    receiver: Receiver, rows: Rows
) -> None:
    first = {"id": 1, "type": "paid", "amount": 1, "attempt": 1, "meta": {"sent_at": 1}}
    honest = {**first, "attempt": 2, "meta": {"sent_at": 2}}
    other = {**first, "amount": 2}
    for document in (first, honest, other, other):
        assert receiver.shop(json.dumps(document).encode()) == 202
    assert count(rows, "events") == 1
    assert rows("SELECT body, deliveries FROM nottwice.conflicts") == [(json.dumps(other).encode(), 2)]


def test_a_message_found_again_under_another_id_is_no_new_event(receiver: Receiver, rows: Rows) -> None:
    for event_id in ("evt_1", "evt_2"):
        assert receiver.mail(fix.message(event_id, message_id="<m@example.com>")) == 200
    assert count(rows, "events") == 1


# ── signatures ────────────────────────────────────────────────────────────────────────────────────────


def test_sig_01_the_bytes_received_are_verified_and_stored(receiver: Receiver, rows: Rows) -> None:
    bodies = [
        '{"id":1,"type":"t","n":"🎉"}'.encode(),
        b'{"id":2,"type":"t","n":"\\ud83c\\udf89"}',
        '{"id":3,"type":"t","n":"\u2028x"}'.encode(),
        '{"id":  4,"type":  "t","n":  "🎉"}'.encode(),
    ]
    assert [receiver.shop(body) for body in bodies] == [202] * 4
    assert receiver.post("shop", bodies[1], fix.shop(bodies[0])).status_code == 401
    stored = {bytes(body) for (body,) in rows("SELECT body FROM nottwice.event_contents")}
    assert {hashlib.sha256(b).digest() for b in stored} == {hashlib.sha256(b).digest() for b in bodies}


def test_sig_03_a_coded_body_is_refused(receiver: Receiver, rows: Rows) -> None:
    packed = gzip.compress(EVENT)
    for body, signed, coding in ((packed, EVENT, "gzip"), (packed, packed, "gzip"), (EVENT, EVENT, "br")):
        headers = {**fix.shop(signed), "Content-Encoding": coding}
        assert receiver.post("shop", body, headers).status_code == 415
    assert (
        receiver.post("shop", EVENT, {**fix.shop(EVENT), "Content-Encoding": "identity"}).status_code == 202
    )
    assert count(rows, "events") == 1


def test_sig_05_two_secrets_and_two_signatures_during_a_rotation(receiver: Receiver) -> None:
    old, new = fix.OLD_SHOP_SECRET, fix.SHOP_SECRET
    cases = [((new, old), 202), ((old,), 202), (("gone", old), 202), (("gone",), 401), (("bad", "bad"), 401)]
    for secrets, status in cases:
        assert receiver.post("shop", EVENT, fix.shop(EVENT, *secrets)).status_code == status, secrets
    body, gone = fix.message("evt_1"), "whsec_" + base64.b64encode(b"a secret that is not ours").decode()
    cases = [((fix.OLD_SVIX_SECRET,), 200), ((gone, fix.SVIX_SECRET), 200), ((gone,), 401)]
    for secrets, status in cases:
        assert receiver.post("mail", body, fix.mail(body, *secrets)).status_code == status, secrets


@pytest.mark.parametrize("source", ["mail", "timed"])
def test_sig_07_only_timestamps_within_the_tolerance_pass(receiver: Receiver, source: str) -> None:
    def status(timestamp: str) -> int:
        body = fix.message("evt_1") if source == "mail" else b'{"text":"hi"}'
        headers = (
            fix.mail(body, timestamp=timestamp)
            if source == "mail"
            else fix.timed(body, "n", timestamp=timestamp)
        )
        headers = {name: value for name, value in headers.items() if value or "stamp" not in name.lower()}
        return receiver.post(source, body, headers).status_code

    now = int(time.time())
    assert {status(str(now + offset)) for offset in (-299, 0, 298)} <= {200, 204}
    refused = (str(now - 301), str(now + 303), f"{now}000", "0", "", "hello", f"{now}.5")
    assert [status(timestamp) for timestamp in refused] == [401] * len(refused)


def test_sig_10_a_rejection_teaches_nothing(receiver: Receiver) -> None:
    marked = b'{"id":"marker-7391","type":"paid"}'
    stale = fix.timed(marked, "e", timestamp=str(int(time.time()) - 9999))
    answers = [
        receiver.post("shop", marked, {"X-Shop-Signature": "v1=" + "0" * 64}),
        receiver.post("shop", marked, {}),
        receiver.post("timed", marked, stale),
        receiver.post("nobody", marked, {}),
    ]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 404]
    assert len({answer.content for answer in answers}) == 1
    right = bytes.fromhex(fix.signature(marked))
    said = receiver.log.read_text() + "".join(f"{answer.headers}{answer.text}" for answer in answers)
    for word in (
        *fix.SECRETS.values(),
        right.hex(),
        base64.b64encode(right).decode(),
        "marker-7391",
        stale["X-Signature"],
    ):
        assert word not in said


def test_what_is_logged_of_a_decision_is_ids_and_digests(receiver: Receiver, rows: Rows) -> None:
    body = b'{"id":"secret-id-9","type":"paid","text":"private words"}'
    for _ in range(2):
        receiver.shop(body, X_Shop_Delivery="d1")
    ((event_id, digest),) = rows("SELECT id, key_digest FROM nottwice.events")
    decisions = receiver.noted("stored", 2)
    assert [(d["became"], d["event_id"], d["key"]) for d in decisions] == [
        ("accepted", event_id, digest.hex()),
        ("duplicate", event_id, digest.hex()),
    ]
    assert decisions[0]["delivery"] == "d1"
    assert "private words" not in receiver.log.read_text() and "secret-id-9" not in receiver.log.read_text()


def test_sig_12_an_empty_body_is_no_event(receiver: Receiver, rows: Rows) -> None:
    right, wrong = fix.signature(b""), fix.signature(b"x")
    for signature, status in ((right, b"400"), (wrong, b"401")):
        head = f"POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nX-Shop-Signature: v1={signature}\r\n".encode()
        for framing in (
            b"Content-Length: 0\r\n\r\n",
            b"\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ):
            assert receiver.raw(head + framing).split()[1] == status
    assert nothing_stored(rows)


# ── framing ───────────────────────────────────────────────────────────────────────────────────────────


def _head(body: bytes, *fields: str) -> bytes:
    signed = [f"{name}: {value}" for name, value in fix.shop(body).items()]
    return "\r\n".join(["POST /webhooks/shop HTTP/1.1", "Host: x", *signed, *fields, "", ""]).encode()


def test_http_01_a_chunked_body_is_verified_and_stored_whole(receiver: Receiver, rows: Rows) -> None:
    body = '{"id":"c1","type":"paid","n":"🎉"}'.encode()
    cut = body.index("🎉".encode()) + 2  # inside a character
    chunks = [body[:10], body[10:cut], body[cut:]]
    pieces = [f"{len(chunk):x};ext=1\r\n".encode() + chunk + b"\r\n" for chunk in chunks]
    answer = receiver.raw(_head(body, "Transfer-Encoding: chunked"), *pieces, b"0\r\nX-Trailer: 1\r\n\r\n")
    assert answer.split()[1] == b"202"
    assert rows("SELECT body FROM nottwice.event_contents") == [(body,)]


def test_a_body_that_is_cut_short_is_not_stored(receiver: Receiver, rows: Rows) -> None:
    with pytest.raises((TimeoutError, ConnectionError)):
        receiver.raw(_head(EVENT, f"Content-Length: {len(EVENT) + 5}"), EVENT)
    assert receiver.shop(b'{"id":"next","type":"paid"}') == 202
    assert rows("SELECT event_key FROM nottwice.events") == [("paid next",)]


def test_too_large_is_decided_before_it_is_read(receiver: Receiver, rows: Rows) -> None:
    announced = receiver.raw(_head(EVENT, "Content-Length: 26000000"), b"x" * 1000)
    assert announced.split()[1] == b"413"
    expecting = receiver.raw(_head(EVENT, "Content-Length: 26000000", "Expect: 100-continue"))
    assert expecting.split()[1] == b"413"
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    assert receiver.raw(_head(EVENT, "Transfer-Encoding: chunked"), *[chunk] * 5).split()[1] == b"413"
    assert receiver.client.post("/webhooks/shop", content=b"x" * 26_000_000).status_code == 413
    assert nothing_stored(rows)


def test_pay_09_large_bodies_below_the_limit_are_stored_whole(receiver: Receiver, rows: Rows) -> None:
    for size in (900_000, 1_100_000, 4_999_000):
        body = b'{"id":%d,"type":"paid","file":"%s"}' % (size, b"A" * size)
        assert receiver.shop(body) == 202
    sizes = rows("SELECT octet_length(body) FROM nottwice.event_contents ORDER BY 1")
    assert [size > limit for (size,), limit in zip(sizes, (900_000, 1_100_000, 4_999_000), strict=True)] == [
        True
    ] * 3


def test_endless_headers_do_not_fill_the_memory(receiver: Receiver) -> None:
    endless = b"POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 200_000
    assert receiver.raw(endless).split()[1] == b"431"
    assert receiver.shop(EVENT) == 202


def test_http_05_media_type_slash_and_method_variants(receiver: Receiver, rows: Rows) -> None:
    types = ["application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded", "a", ""]
    for number, media_type in enumerate(types):
        body = b'{"id":%d,"type":"paid"}' % number
        headers = {**fix.shop(body), **({"Content-Type": media_type} if media_type else {})}
        assert receiver.post("shop", body, headers).status_code == 202
    assert receiver.client.post("/webhooks/shop/", content=EVENT, headers=fix.shop(EVENT)).status_code == 202
    assert count(rows, "events") == len(types) + 1
    for method in ("HEAD", "GET", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert receiver.client.request(method, "/webhooks/shop").status_code == 405
    for path in ("/webhooks/%00", "/webhooks/..%2Fshop", "/webhooks/", "/webhooks/shop/more", "/"):
        assert receiver.client.post(path, content=EVENT).status_code == 404
    assert receiver.raw(b"NONSENSE\r\n\r\n").split()[1] == b"400"


def test_a_slow_body_is_given_up(receivers: Start, rows: Rows) -> None:
    receiver = receivers(fix.CONFIG + "[receiver]\nanswer_within_s = 0.3\n")
    answer = receiver.raw(_head(EVENT, f"Content-Length: {len(EVENT)}"), EVENT[:5])
    assert answer.split()[1] == b"408"
    assert nothing_stored(rows)


def test_more_bodies_than_hands_are_turned_away(receivers: Start) -> None:
    receiver = receivers(fix.CONFIG + "[receiver]\nin_hand_bytes_max = 1000\n")
    large = b'{"id":1,"type":"paid","pad":"%s"}' % (b"a" * 1000)
    refused = receiver.post("shop", large, fix.shop(large))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert [receiver.shop(b'{"id":%d,"type":"paid","pad":"%s"}' % (i, b"a" * 800)) for i in range(4)] == [
        202
    ] * 4
