"""`urllib.request.urlopen` as a provider's call wants it: no redirects, its socket held by the call's line.

For packages whose transport is urllib's own. `install_opener` would change every other user of urllib in this
process; these names are given to the one module that needs them.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

from worker.providers import wire


class NotConnected(OSError):
    """The connection never stood, TLS and a proxy's tunnel included: the request cannot have left."""


def names() -> dict[str, Any]:
    """What stands in for the module `urllib`."""
    request = SimpleNamespace(Request=urllib.request.Request, urlopen=urlopen)
    return {"request": request, "error": urllib.error}


def urlopen(request: urllib.request.Request, *, timeout: float) -> Any:
    """The answer to one request. A 3xx is an HTTPError like any other; NotConnected is the reason of a URLError."""
    proxies: dict[str, str] | None = {} if wire.is_loopback(request.full_url) else None
    opener = (
        urllib.request.OpenerDirector()
    )  # bare: the usual one follows redirects, with our key in the headers
    parts: tuple[urllib.request.BaseHandler, ...] = (
        urllib.request.ProxyHandler(proxies),
        _Http(),
        _Https(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    )
    for part in parts:
        opener.add_handler(part)
    return opener.open(request, timeout=timeout)


class _Answer(http.client.HTTPResponse):
    def _read_status(self) -> tuple[str, int, str]:
        """Past what comes ahead of the answer (RFC 9110, 15.2): http.client takes a 102 or 103 for the answer itself."""
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not 101 < status < 200:
                return version, status, reason
            http.client.parse_headers(self.fp)

    def read(self, amt: int | None = None) -> bytes:
        """As it comes, but never more than an answer can have."""
        if amt is not None or (self.length is not None and self.length <= wire.BODY_BYTES_MAX):
            return super().read(amt)
        body = super().read(wire.BODY_BYTES_MAX + 1)
        if len(body) > wire.BODY_BYTES_MAX:
            raise http.client.IncompleteRead(body[:0])
        return body


class _Plain(http.client.HTTPConnection):
    response_class = _Answer

    def connect(self) -> None:
        _connect(self, super().connect)


class _Secure(http.client.HTTPSConnection):
    response_class = _Answer

    def connect(self) -> None:
        _connect(self, super().connect)


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Plain, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Secure, req, context=_tls())


def _connect(connection: http.client.HTTPConnection, connect: Callable[[], None]) -> None:
    whole_s = float(connection.timeout or wire.CONNECT_S_MAX)
    try:
        connection.timeout = wire.connect_s(whole_s)
        connect()
        sock: socket.socket = connection.sock
        sock.settimeout(wire.read_s(whole_s))
        wire.current.get().hold(sock)
    except OSError as error:
        raise NotConnected(type(error).__name__) from error


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
