"""What is read at a glance is what the parser would have read; whatever is unusual is left to it."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.receiver.glance import BYTES_MAX, glance

BODY = b'{"id":"e"}'
USUAL = b"POST /webhooks/shop HTTP/1.1\r\nHost: a\r\nX-Id: b c\r\nContent-Length: 10\r\n\r\n" + BODY


class Read:
    """The one request that httptools finds."""

    def __init__(self, data: bytes) -> None:
        self.url, self.body, self.headers, self.ended = b"", b"", list[tuple[str, str]](), 0
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode().lower(), value.decode()))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.ended += 1


def test_the_usual_request_is_seen() -> None:
    seen = glance(USUAL)
    assert seen is not None
    assert (seen.source, seen.target, seen.body) == ("shop", "/webhooks/shop", BODY)
    assert seen.headers == {"host": "a", "x-id": "b c", "content-length": "10"}


@pytest.mark.parametrize(
    ("usual", "unusual"),
    [
        (b"POST", b"GET"),
        (b"shop ", b"shop?a=b "),
        (b"shop ", b"sh%6Fp "),
        (b"/webhooks/", b"/webhook/"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"X-Id: b c", b"X-Id : b c"),
        (b"X-Id: b c", b"X-Id: b\r\n c"),
        (b"X-Id: b c", b"X-Id: b c "),
        (b"X-Id: b c", b"X-Id: b\nc"),
        (b"X-Id: b c", b"X-Id: b\0c"),
        (b"X-Id: b c", b"X-Id: \xe9"),
        (b"X-Id: b c", b"X-Id:"),
        (b"X-Id: b c", b"host: other"),
        (b"X-Id: b c", b"Content-Length: 10"),
        (b"X-Id: b c", b"Transfer-Encoding: chunked"),
        (b"X-Id: b c", b"Content-Encoding: gzip"),
        (b"X-Id: b c", b"Expect: 100-continue"),
        (b"X-Id: b c", b"Connection: close"),
        (b"X-Id: b c", b"Connection: Upgrade, HTTP2-Settings"),
        (b"X-Id: b c", b"Upgrade: h2c"),
        (b": 10\r\n", b": 9\r\n"),
        (b": 10\r\n", b": 11\r\n"),
        (b": 10\r\n", b": +10\r\n"),
        (b": 10\r\n", b": " + b"0" * 5000 + b"10\r\n"),
        (b"Content-Length: 10\r\n", b""),
        (b"\r\n\r\n", b"\r\n"),
        (b'"e"}', b'"e"}' + USUAL),
    ],
)
def test_what_is_unusual_is_left_to_the_parser(usual: bytes, unusual: bytes) -> None:
    assert USUAL.count(usual) == 1
    assert glance(USUAL.replace(usual, unusual)) is None


def test_what_takes_long_to_read_is_left_to_the_parser() -> None:
    body = b"x" * BYTES_MAX
    assert glance(USUAL.replace(b": 10", b": %d" % len(body)).replace(BODY, body)) is None


fields = st.tuples(
    st.sampled_from(
        [b"X-A", b"x_b", b"Host", b"Content-Length", b"content-type", b"Connection", b"Upgrade", b""]
    ),
    st.sampled_from([b": ", b":", b" : ", b":\t", b": \r\n "]),
    st.sampled_from(
        [b"a", b"10", b"keep-alive", b"close", b"chunked", b"a: b", b"a ", b'"a,b"', b"", b"\x7f", b"\xff"]
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(fields, max_size=4), st.sampled_from([b"\r\n", b"\n"]), st.sampled_from([BODY, BODY[:-1]]))
def test_what_is_seen_is_what_the_parser_reads(
    more: list[tuple[bytes, bytes, bytes]], end: bytes, body: bytes
) -> None:
    spelled = b"".join(b"".join(field) + end for field in more)
    data = USUAL.replace(b"X-Id: b c\r\n", spelled).replace(BODY, body)
    seen = glance(data)
    if seen is not None:
        read = Read(data)
        assert read.ended == 1 and read.parser.should_keep_alive() and not read.parser.should_upgrade()
        assert (seen.target.encode(), seen.body) == (read.url, read.body)
        assert list(seen.headers.items()) == read.headers
