"""A request that comes whole takes a shorter way, and is told the same."""

from __future__ import annotations

import re
import socket

import pytest

from tests import fix_receiver as fix
from tests.fix_receiver import Door

EVENT = b'{"id":"e","type":"t"}'
PIECES = "Expect: 100-continue"  # the head alone, and the body when it was asked for: never whole


def ask(door: Door, head: bytes, body: bytes, *, in_pieces: bool) -> bytes:
    """The whole answer, without what the time of day puts into it."""
    with socket.create_connection(("127.0.0.1", door.receiver.port), timeout=fix.WITHIN_S) as line:
        line.sendall(head if in_pieces else head + body)
        if in_pieces:
            assert line.recv(4096).startswith(b"HTTP/1.1 100 ")
            line.sendall(body)
        return re.sub(rb"date: .*\r\n", b"", b"".join(iter(lambda: line.recv(4096), b"")))


def both(door: Door, headers: dict[str, str], body: bytes, *fields: str, source: str = "shop") -> set[bytes]:
    fields = (*fields, f"Content-Length: {len(body)}", "Connection: close")
    return {
        ask(door, fix.head(headers, *fields, source=source), body, in_pieces=False),
        ask(door, fix.head(headers, *fields, PIECES, source=source), body, in_pieces=True),
    }


def test_both_ways_say_the_same(door: Door) -> None:
    signed = fix.shop(EVENT)
    (accepted,) = both(door, signed, EVENT)
    assert accepted.startswith(b"HTTP/1.1 202 ") and accepted.endswith(b"\r\n\r\nok\n")
    (forged,) = both(door, signed, EVENT + b" ")
    assert forged.startswith(b"HTTP/1.1 401 ")
    (malformed,) = both(door, fix.shop(b"{"), b"{")
    assert malformed.startswith(b"HTTP/1.1 400 ")
    (empty,) = both(door, fix.timed(EVENT, "n1"), EVENT, source="timed")
    assert empty.startswith(b"HTTP/1.1 204 ") and empty.endswith(b"\r\n\r\n")
    assert door.count("events") == 2
    assert door.rows("SELECT sum(deliveries)::int FROM nottwice.duplicates") == [(2,)]
    refused = [note["reason"] for note in door.receiver.noted("refused", 4)]
    assert refused == ["bad_signature"] * 2 + ["malformed"] * 2


@pytest.mark.parametrize(
    ("source", "field", "status"),
    [("nobody", "X-A: b", b"404"), ("shop", "Content-Encoding: gzip", b"415"), ("sh%6Fp", "X-A: b", b"202")],
)
def test_what_is_not_usual_is_answered_as_ever(door: Door, source: str, field: str, status: bytes) -> None:
    fields = (field, f"Content-Length: {len(EVENT)}", "Connection: close")
    answer = ask(door, fix.head(fix.shop(EVENT), *fields, source=source), EVENT, in_pieces=False)
    assert answer.split()[1] == status


def test_several_on_one_line_are_answered_in_their_order(door: Door) -> None:
    """One behind the other in a single read: each waits for the one before."""
    bodies = [b'{"id":"p%d","type":"t"}' % n for n in range(5)]
    wrong = [body if n != 2 else body + b" " for n, body in enumerate(bodies)]
    fields = ["", "", "", "", "Connection: close"]
    whole = b"".join(
        fix.head(fix.shop(body), *filter(None, (field, f"Content-Length: {len(sent)}"))) + sent
        for body, sent, field in zip(bodies, wrong, fields, strict=True)
    )
    answers = ask(door, whole, b"", in_pieces=False)
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"202", b"202", b"401", b"202", b"202"]
    assert door.bodies() == [body for n, body in enumerate(bodies) if n != 2]
