"""What the front door answers, over real HTTP: statuses, framing, and what it lets nobody learn."""

from __future__ import annotations

import json

import pytest

from tests import fix_receiver as fix
from tests.fix_receiver import Door, Receiver, Rows

EVENT = b'{"id":"e1","type":"paid"}'


@pytest.fixture
def receiver(door: Door) -> Receiver:
    return door.receiver


@pytest.fixture
def rows(door: Door) -> Rows:
    return door.rows


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
    assert "private words" not in receiver.said and "secret-id-9" not in receiver.said


# ── framing ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_body_that_is_cut_short_is_not_stored(receiver: Receiver, rows: Rows) -> None:
    with pytest.raises((TimeoutError, ConnectionError)):
        receiver.raw(fix.head(fix.shop(EVENT), f"Content-Length: {len(EVENT) + 5}"), EVENT, within_s=1)
    assert receiver.shop(b'{"id":"next","type":"paid"}') == 202
    assert rows("SELECT event_key FROM nottwice.events") == [("paid next",)]


def test_too_large_is_decided_before_it_is_read(receiver: Receiver, rows: Rows) -> None:
    announced = receiver.raw(fix.head(fix.shop(EVENT), "Content-Length: 26000000"), b"x" * 1000)
    assert announced.split()[1] == b"413"
    expecting = receiver.raw(fix.head(fix.shop(EVENT), "Content-Length: 26000000", "Expect: 100-continue"))
    assert expecting.split()[1] == b"413"
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    assert (
        receiver.raw(fix.head(fix.shop(EVENT), "Transfer-Encoding: chunked"), *[chunk] * 5).split()[1]
        == b"413"
    )
    assert receiver.client.post("/webhooks/shop", content=b"x" * 26_000_000).status_code == 413
    assert nothing_stored(rows)


def test_endless_headers_do_not_fill_the_memory(receiver: Receiver) -> None:
    endless = b"POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 200_000
    assert receiver.raw(endless).split()[1] == b"431"
    assert receiver.shop(EVENT) == 202
