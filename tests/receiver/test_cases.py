"""Cases from the field about identity and payload, over real HTTP: KEY, BAT, PAY."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

import pytest

from tests import fix_receiver as fix
from tests.fix_receiver import Receiver

Rows = Callable[..., list[tuple[Any, ...]]]


def count(rows: Rows, table: str) -> int:
    return int(rows(f"SELECT count(*) FROM nottwice.{table}")[0][0])


def test_key_03_ten_events_without_an_id_never_become_one(receiver: Receiver, rows: Rows) -> None:
    for round_ in ("first", "second"):
        for id_ in ({}, {"id": ""}, {"id": None}, {"id": "   "}, {"id": 0 if round_ == "first" else 1}):
            assert receiver.shop(json.dumps({"type": "t", "round": round_, **id_}).encode()) == 202
    assert rows("SELECT event_key FROM nottwice.events ORDER BY 1") == [("t 0",), ("t 1",)]
    assert count(rows, "quarantine") == 8
    raw = rows("SELECT body FROM nottwice.quarantine WHERE reason = 'It has no usable key.'")
    assert len(raw) == 8 and all(b"round" in body for (body,) in raw)


def test_key_07_one_mail_to_three_inboxes(receiver: Receiver, rows: Rows) -> None:
    for _ in range(2):
        for inbox in ("a@acme.example", "b@acme.example", "c@acme.example"):
            body = fix.message(f"evt_{inbox}", message_id="<n1@example.net>", inbox_id=inbox)
            assert receiver.mail(body) == 200
    assert count(rows, "events") == 3


def test_key_09_the_attempt_is_not_the_event(receiver: Receiver, rows: Rows) -> None:
    note = b'{"text":"hello"}'
    for event, attempt in (("e1", "d1"), ("e1", "d2"), ("e1", "d3"), ("e2", "d1")):
        headers = fix.timed(note, event, delivery=attempt)
        assert receiver.post("timed", note, headers).status_code == 204
    stored = rows("SELECT id, event_key, delivery_id FROM nottwice.events ORDER BY id")
    assert [row[1:] for row in stored] == [("note e1", "d1"), ("note e2", "d1")]
    again = rows(
        "SELECT delivery_id FROM nottwice.duplicates WHERE event_id = %s ORDER BY first_seen_at", stored[0][0]
    )
    assert again == [("d2",), ("d3",)]


@pytest.mark.parametrize("length", [2_600, 2_700, 4_000, 8_200, 300_000])
def test_key_12_a_very_long_id(receiver: Receiver, rows: Rows, length: int) -> None:
    long_id = secrets.token_hex(length // 2)  # random, because a repeated letter would be compressed
    for _ in range(2):
        assert receiver.mail(fix.message(long_id, message_id=f"<{long_id}@example.com>")) == 200
        assert receiver.shop(b'{"id":"short","type":"t"}') == 202
    assert rows("SELECT event_key FROM nottwice.events WHERE source = 'mail'") == [(long_id,)]
    assert count(rows, "events") == 2


@pytest.mark.parametrize(
    "bad", [b"{}", b'"str"', b"null", b'{"id":"a\\u0000","type":"t"}', b'{"id":"' + b" " * 3_000_000 + b'"}']
)
def test_bat_01_the_middle_one_is_bad(receiver: Receiver, rows: Rows, bad: bytes) -> None:
    body = b'[{"id":"good1","type":"t"}, ' + bad + b',{"id": "good2","type":"t"}]'
    for _ in range(2):
        assert receiver.shop(body) == 202
    stored = rows(
        "SELECT event_key, body FROM nottwice.events JOIN nottwice.event_contents ON id = event_id ORDER BY 1"
    )
    assert stored == [("t good1", b'{"id":"good1","type":"t"}'), ("t good2", b'{"id": "good2","type":"t"}')]
    assert rows("SELECT element, body, deliveries FROM nottwice.quarantine") == [(1, bad, 2)]


def test_bat_04_the_top_level_is_not_what_was_hoped(receiver: Receiver, rows: Rows) -> None:
    for body in (b"{}", b"null", b"42", b'"x"', b"[[]]", b"[1,2]", b'{"events":[]}'):
        assert receiver.shop(body) == 202
        assert receiver.mail(body) == 200
    assert count(rows, "events") == 0
    assert (receiver.shop(b"[]"), receiver.mail(b"[]")) == (202, 200)
    assert count(rows, "quarantine") == 8 + 7


def test_pay_01_nul_in_values_names_and_ids(receiver: Receiver, rows: Rows) -> None:
    kept = [
        b'{"id":1,"type":"t","a":"x\\u0000y"}',
        b'{"id":2,"type":"t","a\\u0000":1}',
        b'{"id":3,"type":"t","a":"C:\\\\u0000dir"}',
    ]
    assert [receiver.shop(body) for body in kept] == [202] * 3
    stored = rows(
        "SELECT body FROM nottwice.events JOIN nottwice.event_contents ON id = event_id ORDER BY event_key"
    )
    assert [body for (body,) in stored] == kept
    assert receiver.shop(b'{"id":4,"type":"t","a":"x\x00y"}') == 400
    assert receiver.shop(b'{"id":"5\\u0000","type":"t"}') == 202
    assert receiver.mail(fix.message("evt_1", message_id="<m\x00@x>")) == 200
    assert count(rows, "events") == 3 and count(rows, "quarantine") == 2
    signed = "".join(f"{name}: {value}\r\n" for name, value in fix.timed(b"{}", "e\x00f").items())
    head = f"POST /webhooks/timed HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n{signed}\r\n"
    assert receiver.raw(head.encode() + b"{}").split()[1] == b"400"


def test_pay_03_nan_infinity_and_numbers_beyond_a_double(receiver: Receiver, rows: Rows) -> None:
    for token in (b"NaN", b"Infinity", b"-Infinity"):
        assert receiver.shop(b'{"id":1,"type":"t","a":' + token + b"}") == 400
    assert count(rows, "events") == count(rows, "quarantine") == 0
    for number, token in enumerate((b"1e400", b"-0.0", b"1E-400", b"9" * 1000)):
        assert receiver.shop(b'{"id":%d,"type":"t","a":%s}' % (number, token)) == 202
    assert count(rows, "events") == 4
    assert b"1e400" in rows("SELECT body FROM nottwice.event_contents ORDER BY event_id LIMIT 1")[0][0]


def test_pay_07_duplicate_member_names_are_refused(receiver: Receiver, rows: Rows) -> None:
    twice = [
        b'{"id":"e1","type":"t","status":"approved","status":"rejected"}',
        b'{"id":"e1","id":"e2","type":"t"}',
        b'{"id":"e1","type":"t","inner":[{"a":1,"a":1}]}',
    ]
    assert [receiver.shop(body) for body in twice] == [400] * 3
    assert count(rows, "events") == count(rows, "quarantine") == 0


HOSTILE = [
    b"[" * 200_000,
    b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    b"9" * 100_000,
    b"1e9999999999999999999999",
    b"-",
    b'"' + b"\\" * 100_001,
    b'{"id":"\\ud800","type":"t"}',
    b'{"id":"1","type":"' + b"t" * 5000 + b'"}',
    b'{"id":"1","type":"t","at":"9999-12-31T23:59:59-14:00"}',
    b'{"id":"2","type":"t","at":1e300}',
    b'{"id":"3","type":"t","at":-99999999999999999999}',
    b'{"id":' + b"7" * 999 + b',"type":"t"}',
    b'{"id":"4","type":"t","\\udfff":"\\ud800"}',
    b"[" + b"[]," * 30_000 + b"1]",
    '{"id":"5","type":"\u202e\u0000"}'.encode(),
    b"\xff\xfe{\x00}\x00",
]


def test_no_payload_makes_a_5xx_or_a_dead_receiver(receiver: Receiver) -> None:
    for source, sign, success in (
        ("shop", fix.shop, 202),
        ("mail", fix.mail, 200),
        ("timed", lambda b: fix.timed(b, "e"), 204),
    ):
        for body in HOSTILE:
            answer = receiver.post(source, body, sign(body))  # type: ignore[operator]
            assert answer.status_code in (success, 400), (source, body[:40], answer.status_code)
    assert receiver.shop(b'{"id":"after","type":"t"}') == 202
    assert receiver.notes("adapter failed") == receiver.notes("writer failed") == receiver.notes("log") == []


def test_hostile_header_values_make_no_5xx(receiver: Receiver) -> None:
    body = b'{"id":1,"type":"t"}'
    for value in (b"\xff\xfe", b"v1=\xc3\xa9", b"v1," + b"A" * 5000, b",,,,", b"v1=" + b"0" * 63 + b"\xe9"):
        head = b"POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 19\r\nX-Shop-Signature: " + value
        assert receiver.raw(head + b"\r\n\r\n" + body).split()[1] == b"401"
    signed = fix.shop(body)["X-Shop-Signature"].encode()
    head = b"POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 19\r\nContent-Type: \xff\xfe\r\nX-Shop-Delivery: \xe9\xff"
    assert receiver.raw(head + b"\r\nX-Shop-Signature: " + signed + b"\r\n\r\n" + body).split()[1] == b"202"
