"""Cases from the field about what a payload contains, as bytes over HTTP against a real receiver: PAY."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from ledger import payload
from tests import fix_receiver as fix
from tests.cases.conftest import Work
from tests.fix_receiver import Door, until


def test_pay_01_nul_in_a_value_a_name_and_an_id(door: Door) -> None:
    sent = [b'{"a":"x\\u0000y"}', b'{"a\\u0000":1}', b'{"a":"C:\\\\u0000dir"}']
    for number, body in enumerate(sent):
        assert door.receiver.plain(body, f"e{number}") == 200
        assert door.receiver.shop(b'{"id":%d,"type":"t",' % number + body[1:]) == 202
    assert door.bodies()[::2] == sent
    documents = [payload.parse(body) for body in sent]
    assert payload.shown(documents[0]["a"]) == "x⟨U+0000⟩y"
    assert payload.shown(next(iter(documents[1]))) == "a⟨U+0000⟩"
    assert payload.shown(documents[2]["a"]) == "C:\\u0000dir"
    assert (door.receiver.plain(b'{"a":"x\x00y"}', "raw"), door.receiver.shop(b"\x00")) == (400, 400)
    assert door.count("quarantine") == 0


def test_pay_01_nul_in_an_id(door: Door) -> None:
    in_ids = [b'{"id":"5\\u0000","type":"t"}', b'{"id":"5","type":"t\\u0000"}']
    assert [door.receiver.shop(body) for body in in_ids] == [202, 202]
    assert door.receiver.mail(fix.message("evt_1", message_id="<m\x00@x>")) == 200
    assert door.receiver.mail(fix.message("evt\x00", message_id="<m@x>")) == 200
    assert door.count("events") == 0 and door.count("quarantine") == 4
    signed = "".join(f"{name}: {value}\r\n" for name, value in fix.plain(b"{}", "e\x00f").items())
    head = f"POST /webhooks/plain HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n{signed}\r\n"
    assert door.receiver.raw(head.encode() + b"{}").split()[1] == b"400"
    assert door.count("events") == 0 and door.count("quarantine") == 4


def test_pay_03_nan_infinity_and_numbers_beyond_a_double(door: Door) -> None:
    for token in (b"NaN", b"Infinity", b"-Infinity"):
        assert door.receiver.plain(b'{"a":' + token + b"}") == 400
        assert door.receiver.shop(b'{"id":1,"type":"t","a":' + token + b"}") == 400
    assert door.nothing_stored
    tokens = (b"1e400", b"-0.0", b"1E-400", b"9" * 1000)
    sent = [b'{"a":' + token + b"}" for token in tokens]
    assert [door.receiver.plain(body, f"e{n}") for n, body in enumerate(sent)] == [200] * 4
    assert door.bodies() == sent
    read = [payload.parse(body)["a"] for body in door.bodies()]
    assert read == [Decimal("1e400"), Decimal("-0.0"), Decimal("1E-400"), int("9" * 1000)]


SPELLED = """
def spell(tx, event, propose):
    document = event.json()
    words = f"{document['id']} {document['amount']} {type(document['id']).__name__}"
    propose("reply", "spelled", Email(to=("a@example.com",), subject="Spelled", text=words, inbox="i"))

handlers.apply("shop", "paid")(spell)
"""


def test_pay_05_integers_above_2_to_the_53(door: Door, work: Work) -> None:
    body = b'{"id":1009513310189256287,"amount":12.10,"type":"paid"}'
    assert door.receiver.shop(body) == 202
    near = body.replace(b"287", b"288")  # the same number to whoever reads it as a double
    assert float(1009513310189256287) == float(1009513310189256288)
    assert door.receiver.shop(near.replace(b"paid", b"other")) == 202
    assert door.rows("SELECT event_key FROM nottwice.events ORDER BY id") == [
        ("paid 1009513310189256287",),
        ("other 1009513310189256288",),
    ]
    assert door.bodies()[0] == body
    work(SPELLED)
    until(lambda: door.count("actions") == 1)
    ((content,),) = door.rows("SELECT content FROM nottwice.action_contents")
    assert json.loads(content)["text"] == "1009513310189256287 12.10 int"


def test_pay_05_an_id_that_differs_in_its_last_digit_is_another_event(door: Door) -> None:
    for last in (7, 8, 7):
        assert door.receiver.shop(b'{"id":100951331018925628%d,"type":"t"}' % last) == 202
    assert door.count("events") == 2


def test_pay_07_duplicate_member_names_are_refused(door: Door) -> None:
    twice = [
        b'{"id":"e1","status":"approved","status":"rejected"}',
        b'{"id":"e1","id":"e2"}',
        b'{"id":"e1","type":"t","status":"approved","status":"rejected"}',
        b'{"id":"e1","id":"e2","type":"t"}',
        b'{"id":"e1","type":"t","inner":[{"a":1,"a":1}]}',
    ]
    assert [door.receiver.shop(body) for body in twice] == [400] * len(twice)
    assert [door.receiver.plain(body) for body in twice] == [400] * len(twice)
    forged = [door.receiver.post("shop", body, fix.shop(body + b" ")).status_code for body in twice]
    assert forged == [401] * len(twice)  # which of the two it is, a sender can tell
    assert door.nothing_stored


# ── bodies over 1 MB ──────────────────────────────────────────────────────────────────────────────────

LIMIT = 5_000_000  # [receiver] body_bytes_max, by default


def _with_attachment(size: int) -> bytes:
    head = b'{"id":%d,"type":"paid","file":"' % size
    return head + b"A" * (size - len(head) - 2) + b'"}'


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_pay_09_bodies_over_1_mb(door: Door, framing: str) -> None:
    door.receiver.client.get("/healthz")
    before = fix.resident_bytes(door.receiver)
    sizes = (900_000, 1_100_000, LIMIT, LIMIT + 1, 26_000_000)
    answers = {size: _post(door, _with_attachment(size), framing) for size in sizes}
    assert answers == {size: 202 if size <= LIMIT else 413 for size in sizes}
    assert [len(body) for body in door.bodies()] == [size for size in sizes if size <= LIMIT]
    assert _post(door, _with_attachment(26_000_000), framing, signed=b"another") == 413
    assert fix.resident_bytes(door.receiver) - before < 10 * LIMIT
    counted = (
        "SELECT coalesce(sum(n), 0) FROM nottwice.refusals WHERE source = 'shop' AND reason = 'too_large'"
    )
    until(
        lambda: door.rows(counted)[0][0] >= 3
    )  # more, when the test before counted some that were not written yet


def _post(door: Door, body: bytes, framing: str, signed: bytes | None = None) -> int:
    pieces = iter([body[at : at + 500_000] for at in range(0, len(body), 500_000)])
    content = pieces if framing == "chunks" else body
    headers = fix.shop(body if signed is None else signed)
    return door.receiver.client.post("/webhooks/shop", content=content, headers=headers).status_code


def test_pay_09_too_large_is_decided_before_it_is_read(door: Door) -> None:
    announced = fix.head(fix.shop(b""), f"Content-Length: {LIMIT + 1}")
    assert door.receiver.raw(announced).split()[1] == b"413"
    chunked = fix.head(fix.shop(b""), "Transfer-Encoding: chunked")
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    assert (
        door.receiver.raw(chunked, *[chunk] * 5).split()[1] == b"413"
    )  # it goes on, and nobody waits for it
    assert door.nothing_stored
