"""Offers to speak another protocol, which Java's client makes with its first request. They are passed over.

httptools takes a head with such an offer for the end of HTTP: it gives no body, and an event would be refused as forged.
"""

from __future__ import annotations

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

FRAMING = (b"content-length", b"transfer-encoding")


class OfferedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which reads on behind an offer."""

    _is_deaf = False

    def parse(self, data: bytes) -> bytes:
        """What is still to be parsed. Raises HttpParserError."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._read_on()
            return data[offer.args[0] :]
        return b""

    def _read_on(self) -> None:
        """Another parser goes on behind a head that says the same about the body and offers nothing."""
        framing = [(n, v) for n, v in self.cycle.scope["headers"] if n in FRAMING]
        self.parser, self._is_deaf = httptools.HttpRequestParser(self), True
        self.parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % field for field in framing))
        self.cycle.more_body = True
        self.parser.feed_data(b"\r\n")

    # -- the parser's callbacks: deaf to that other head --------------------------------------------------

    def on_message_begin(self) -> None:
        if not self._is_deaf:
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._is_deaf:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """As uvicorn's, which is not called: there are several a request."""
        if not self._is_deaf:
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if not self._is_deaf:
            super().on_headers_complete()
        self._is_deaf = False
