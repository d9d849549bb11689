"""Cases from the field about array and envelope bodies, over HTTP against a real receiver: BAT."""

from __future__ import annotations

import pytest

from tests import fix_receiver as fix
from tests.fix_receiver import Door

BAD = {
    "empty": b"{}",
    "a string": b'"str"',
    "null": b"null",
    "NUL in its id": b'{"id":"a\\u0000","type":"t"}',
    "3 MB": b'{"id":"large","type":"t","file":"' + b"A" * 3_000_000 + b'"}',
}


@pytest.mark.parametrize("bad", BAD.values(), ids=list(BAD))
def test_bat_01_three_events_the_middle_one_is_bad(door: Door, bad: bytes) -> None:
    body = b'[{"id":"good1","type":"t"}, ' + bad + b',{"id": "good2","type":"t"}]'
    for _ in range(2):
        assert door.receiver.shop(body) == 202
    assert sorted(door.bodies()) == [b'{"id": "good2","type":"t"}', b'{"id":"good1","type":"t"}']
    assert door.rows("SELECT element, body, deliveries FROM nottwice.quarantine") == [(1, bad, 2)]


def test_bat_01_one_element_too_many_keeps_the_whole_list_apart(door: Door) -> None:
    body = b"[" + b",".join(b'{"id":%d,"type":"t"}' % n for n in range(5_001)) + b"]"
    assert [door.receiver.shop(body), door.receiver.shop(body)] == [202, 202]
    assert door.count("events") == 0
    assert door.rows("SELECT element, body, deliveries, reason FROM nottwice.quarantine") == [
        (0, body, 2, "It has 5001 elements; 5000 can be taken at once.")
    ]


def test_bat_04_the_top_level_is_not_what_was_hoped(door: Door) -> None:
    for body in (b"{}", b"null", b"42", b'"x"', b"[[]]", b"[1,2]", b'{"events":[]}'):
        assert door.receiver.shop(body) == 202
        assert door.receiver.mail(body) == 200
    assert door.count("events") == 0
    assert (door.receiver.shop(b"[]"), door.receiver.mail(b"[]")) == (202, 200)
    assert door.count("quarantine") == 8 + 7


ENVELOPE = b'{"Type":"Notification","MessageId":"u-%d","Message":%b}'


def test_bat_06_an_envelope_in_text_plain_with_json_inside_json(door: Door) -> None:
    inner = (
        rb'"{\"notificationType\":\"Bounce\"}"',
        b'{"notificationType":"Bounce"}',
        b'"hey"',
        b'"\\ud83c"',
        b"null",
    )
    bodies = [ENVELOPE % (number, message) for number, message in enumerate(inner)]
    for body in (*bodies, *bodies):
        headers = {"X-Signature": fix.signature(body), "Content-Type": "text/plain; charset=UTF-8"}
        assert door.receiver.post("envelopes", body, headers).status_code == 200
    types = ["Bounce", "Bounce", *["unknown"] * 3]
    kept = door.rows("SELECT type, event_key FROM nottwice.events ORDER BY id")
    assert kept == [(type_, f"{type_} u-{number}") for number, type_ in enumerate(types)]
    assert door.bodies() == bodies
    assert door.count("quarantine") == door.count("conflicts") == 0
