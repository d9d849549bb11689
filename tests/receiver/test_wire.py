"""HTTP from careless and hostile senders, byte by byte: no 5xx, no connection of the database held, no answer lost."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests import fix_receiver as fix
from tests.fix_receiver import Door, Receiver, Rows, Start, until

EVENT = b'{"id":"e1","type":"paid"}'


def event(key: int) -> bytes:
    return b'{"id":"e%d","type":"paid"}' % key


def request(body: bytes, *fields: str) -> bytes:
    return fix.head(fix.shop(body), f"Content-Length: {len(body)}", *fields) + body


@contextmanager
def line(receiver: Receiver) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=fix.WITHIN_S) as opened:
        yield opened


def everything(opened: socket.socket) -> bytes:
    """Until the receiver closes."""
    parts = []
    try:
        while part := opened.recv(65_536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def statuses(answer: bytes) -> list[int]:
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


def test_a_sender_that_closes_its_half_gets_its_answers(door: Door) -> None:
    for together in ([EVENT], [EVENT, event(2), event(3)]):
        with line(door.receiver) as opened:
            opened.sendall(b"".join(map(request, together)))
            opened.shutdown(socket.SHUT_WR)
            assert statuses(everything(opened)) == [202] * len(together)
    with line(door.receiver) as opened:
        opened.sendall(request(event(4)) + request(event(5))[:-3])
        opened.shutdown(socket.SHUT_WR)
        assert statuses(everything(opened)) == [202]
    assert door.count("events") == 4


def test_pipelined_requests_are_answered_in_their_order(door: Door) -> None:
    forged = request(EVENT).replace(b"v1=", b"v1=00")
    several = [
        request(event(1)),
        forged,
        request(event(2)),
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        request(event(3)),
    ]
    with line(door.receiver) as opened:
        opened.sendall(b"".join(several))
        opened.shutdown(socket.SHUT_WR)
        assert statuses(everything(opened)) == [202, 401, 202, 200, 202]
    assert door.count("events") == 3


@pytest.mark.parametrize(
    "garbage",
    [
        b"NONSENSE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 400_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_garbage_behind_a_good_request_takes_nothing_from_its_answer(door: Door, garbage: bytes) -> None:
    with line(door.receiver) as opened:
        opened.sendall(request(EVENT) + garbage)
        assert statuses(everything(opened)) == [202]
    with line(door.receiver) as opened:
        opened.sendall(garbage)
        assert statuses(everything(opened)) in ([400], [431])
    assert door.bodies() == [EVENT]


BAD_FRAMINGS = {
    "no hex": (["Transfer-Encoding: chunked"], b"zz\r\n" + EVENT),
    "a negative chunk": (["Transfer-Encoding: chunked"], b"-5\r\n" + EVENT),
    "a chunk longer than it says": (["Transfer-Encoding: chunked"], b"3\r\n" + EVENT + b"\r\n0\r\n\r\n"),
    "a chunk of 2^70": (["Transfer-Encoding: chunked"], b"ffffffffffffffffff\r\n" + EVENT),
    "two lengths": (["Content-Length: 24", "Content-Length: 25"], EVENT),
    "a length and chunks": (
        ["Content-Length: 24", "Transfer-Encoding: chunked"],
        b"18\r\n" + EVENT + b"\r\n0\r\n\r\n",
    ),
    "a negative length": (["Content-Length: -1"], EVENT),
    "a length of words": (["Content-Length: all"], EVENT),
    "a length of 2^70": (["Content-Length: 1180591620717411303424"], EVENT),
    "chunks that are not last": (["Transfer-Encoding: chunked, gzip"], EVENT),
    "a length behind thousands of zeros": ([f"Content-Length: {len(EVENT):05000}"], EVENT),
    "the same on the long way": (
        [f"Content-Length: {len(EVENT):05000}", "Content-Encoding: identity"],
        EVENT,
    ),
    "a header over two lines": (["Content-Length: 24", "X-Folded: a\r\n b"], EVENT),
    "a header without a colon": (["Content-Length: 24", "Nonsense"], EVENT),
    "a blank ahead of the colon": (["Content-Length: 24", "X-Blank : a"], EVENT),
    "an empty name": (["Content-Length: 24", ": a"], EVENT),
}


@pytest.mark.parametrize(("fields", "rest"), BAD_FRAMINGS.values(), ids=list(BAD_FRAMINGS))
def test_a_bad_framing_is_the_senders_fault(door: Door, fields: list[str], rest: bytes) -> None:
    with line(door.receiver) as opened:
        opened.sendall(fix.head(fix.shop(EVENT), *fields) + rest)
        opened.shutdown(socket.SHUT_WR)
        (status,) = statuses(everything(opened))[:1] or [400]
    assert status in (202, 400, 413)
    assert door.bodies() == [EVENT] * (status == 202)
    assert door.receiver.shop(event(2)) == 202
    assert door.receiver.notes("log") == []


def test_every_answer_to_what_is_no_http_reads_like_a_refusal(door: Door) -> None:
    for garbage in (b"NONSENSE\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000):
        with line(door.receiver) as opened:
            opened.sendall(garbage)
            answer = everything(opened)
        assert answer.endswith(b"\r\n\r\nnot accepted\n") and b"connection: close" in answer


def of_size(size: int, *, in_the_target: bool = False, behind: bytes = b"") -> bytes:
    """A head of exactly so many bytes, filled in one place."""
    method, target = (b"GET", b"/healthz?") if in_the_target else (b"GET", b"/healthz")
    fields = b"Host: x\r\nConnection: close\r\n" + (b"" if in_the_target else b"X-Filler: \r\n")
    bare = b"%b %b HTTP/1.1\r\n%b\r\n" % (method, target, fields)
    filler = b"a" * (size - len(bare))
    place = b"?" if in_the_target else b"Filler: "
    return bare.replace(place, place + filler, 1) + behind


@pytest.mark.parametrize("piece", [10**6, 4096, 65_000])
@pytest.mark.parametrize("in_the_target", [False, True])
def test_a_head_may_have_65536_bytes_however_it_comes(door: Door, piece: int, in_the_target: bool) -> None:
    for size, status in ((65_536, 200), (65_537, 431), (90_000, 431), (125_000, 431)):
        head = of_size(size, in_the_target=in_the_target)
        assert len(head) == size
        with line(door.receiver) as opened:
            for at in range(0, size, piece):
                opened.sendall(head[at : at + piece])
            assert statuses(everything(opened)) == [status], size


def test_a_head_behind_another_request_is_measured_alone(door: Door) -> None:
    """All in one send: what belongs to the request ahead of it is none of its bytes."""
    body = b'{"id":"e1","type":"%s"}' % (b"p" * 100)
    for size, given in ((65_536, [202, 200]), (65_537, [202])):
        with line(door.receiver) as opened:
            opened.sendall(request(body) + of_size(size))
            assert statuses(everything(opened)) == given


def test_fields_behind_a_body_in_pieces_count_too(door: Door) -> None:
    pieces = b"%x\r\n%b\r\n0\r\nX-Behind: " % (len(EVENT), EVENT)
    for size, given in ((100, [202]), (66_000, [431])):
        head = fix.head(fix.shop(EVENT), "Transfer-Encoding: chunked", "Connection: close")
        with line(door.receiver) as opened:
            opened.sendall(head + pieces + b"a" * size + b"\r\n\r\n")
            assert statuses(everything(opened)) == given


def test_who_still_writes_hears_why_it_is_turned_away(door: Door) -> None:
    for begin, status in ((b"GET / HTTP/1.1\r\nX: ", 431), (b"NONSENSE\r\n\r\n", 400)):
        with line(door.receiver) as opened:
            opened.sendall(begin + b"a" * 70_000)
            assert opened.recv(12) == b"HTTP/1.1 %d" % status
            for _ in range(40):
                opened.sendall(b"a" * 100_000)
            assert everything(opened).endswith(b"not accepted\n")
    assert door.receiver.notes("log") == []


def test_who_still_writes_a_refused_body_hears_it_too(door: Door) -> None:
    """A sender that wants the line closed, as urllib does, and writes all before it listens."""
    head = fix.head(fix.shop(EVENT), "Content-Length: 20000000", "Connection: close")
    with line(door.receiver) as opened:
        opened.sendall(head)
        assert opened.recv(12) == b"HTTP/1.1 413"
        for _ in range(100):
            opened.sendall(b"a" * 100_000)
        assert everything(opened).endswith(b"not accepted\n")


def test_header_fields_that_are_sent_twice(door: Door) -> None:
    """They are one list (RFC 9110, 5.3), whoever reads it: of signatures, one of which must be right; of words."""
    twice = ["X-Shop-Signature: v1=" + "0" * 64, f"Content-Length: {len(EVENT)}"]
    assert statuses(door.receiver.raw(fix.head(fix.shop(EVENT), *twice) + EVENT)) == [202]
    named = fix.head(fix.plain(b"{}", "e1"), "X-Event: e2", "Content-Length: 2", source="plain")
    assert statuses(door.receiver.raw(named + b"{}")) == [200]
    assert door.rows("SELECT event_key FROM nottwice.events ORDER BY id") == [("paid e1",), ("note e1, e2",)]


def test_methods_that_want_no_body_get_none(door: Door) -> None:
    for method in ("HEAD", "OPTIONS", "TRACE", "CONNECT"):
        for target in ("/webhooks/shop", "*", "/healthz"):
            answer = door.receiver.raw(
                f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
            )
            assert statuses(answer)[0] in (200, 400, 404, 405), (method, target)
    head = door.receiver.raw(b"HEAD /webhooks/shop HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert head.endswith(b"\r\n\r\n")
    assert door.receiver.notes("log") == []


def test_a_sender_that_waits_to_be_told_to_go_on(door: Door) -> None:
    with line(door.receiver) as opened:
        opened.sendall(fix.head(fix.shop(EVENT), f"Content-Length: {len(EVENT)}", "Expect: 100-continue"))
        assert opened.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        opened.sendall(EVENT)
        assert statuses(opened.recv(1000)) == [202]
    for source, fields, status in (("nobody", [], 404), ("shop", ["Content-Encoding: br"], 415)):
        waiting = fix.head({}, "Content-Length: 24", "Expect: 100-continue", *fields, source=source)
        assert statuses(door.receiver.raw(waiting)) == [status]


def test_an_offer_of_another_protocol_is_passed_over(door: Door) -> None:
    """Java's client offers HTTP/2 with its first request."""
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAAB")
    assert statuses(door.receiver.raw(request(EVENT, *offer))) == [202]
    assert statuses(door.receiver.raw(request(event(2), "Connection: Upgrade", "Upgrade: websocket"))) == [
        202
    ]
    assert sorted(door.bodies()) == [EVENT, event(2)]


def test_slow_senders_hold_no_connection_and_slow_nobody(receivers: Start, rows: Rows) -> None:
    limits = "[receiver]\nanswer_within_s = 4.0\nhead_within_s = 4.0\n"
    receiver = receivers(fix.CONFIG + limits)
    starts = [
        b"",
        b"POST /webhooks/sho",
        request(EVENT)[:90],
        fix.head(fix.shop(EVENT), "Content-Length: 5000"),
    ]
    with ExitStack() as stack:
        slow = [stack.enter_context(line(receiver)) for _ in range(12) for _ in starts]
        for number, opened in enumerate(slow):
            opened.sendall(starts[number % len(starts)])
        began = time.monotonic()
        while time.monotonic() - began < 0.5:  # a byte now and then
            assert receiver.shop(event(1)) == 202
            for opened in slow[1::2]:
                opened.sendall(b"a")
        until(lambda: rows(HELD) == [(0,)])
        assert {tuple(statuses(everything(opened))) for opened in slow[0::4]} == {()}
        for begun in (slow[1::4], slow[2::4], slow[3::4]):
            assert {tuple(statuses(everything(opened))) for opened in begun} == {(408,)}
    assert receiver.client.get("/readyz").status_code == 200
    assert rows("SELECT event_key FROM nottwice.events") == [("paid e1",)]


HELD = """
SELECT count(*) FROM pg_stat_activity
WHERE usename = 'nottwice_receiver' AND datname = current_database() AND state <> 'idle'
"""
