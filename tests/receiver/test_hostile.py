"""Payloads and headers that somebody chose with care: none makes a 5xx, a dead receiver, or a fault in the log."""

from __future__ import annotations

from tests import fix_receiver as fix
from tests.fix_receiver import Door

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


def test_no_payload_makes_a_5xx_or_a_dead_receiver(door: Door) -> None:
    for source, sign, success in (
        ("shop", fix.shop, 202),
        ("mail", fix.mail, 200),
        ("timed", lambda b: fix.timed(b, "e"), 204),
    ):
        for body in HOSTILE:
            answer = door.receiver.post(source, body, sign(body))  # type: ignore[operator]
            assert answer.status_code in (success, 400), (source, body[:40], answer.status_code)
    assert door.receiver.shop(b'{"id":"after","type":"t"}') == 202
    assert (
        door.receiver.notes("adapter failed")
        == door.receiver.notes("writer failed")
        == door.receiver.notes("log")
        == []
    )


def test_hostile_header_values_make_no_5xx(door: Door) -> None:
    body = b'{"id":1,"type":"t"}'
    for value in (b"\xff\xfe", b"v1=\xc3\xa9", b"v1," + b"A" * 5000, b",,,,", b"v1=" + b"0" * 63 + b"\xe9"):
        head = b"POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 19\r\nX-Shop-Signature: " + value
        assert door.receiver.raw(head + b"\r\n\r\n" + body).split()[1] == b"401"
    signed = fix.shop(body)["X-Shop-Signature"].encode()
    head = b"POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 19\r\nContent-Type: \xff\xfe\r\nX-Shop-Delivery: \xe9\xff"
    assert (
        door.receiver.raw(head + b"\r\nX-Shop-Signature: " + signed + b"\r\n\r\n" + body).split()[1] == b"202"
    )
