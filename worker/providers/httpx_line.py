"""An httpx client for one call: no redirects, its socket held by the call's line, the answer's head noted.

On a connection of its own: a kept one that the server just closed makes a send uncertain. For packages that take
an httpx client, and for APIs without a package.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast
from urllib.parse import quote

import httpx

from worker.providers.content import Unsendable
from worker.providers.wire import BODY_BYTES_MAX, Line, connect_s, is_loopback, read_s

# The connection never stood (TLS included), or the proxy did not open it: the request cannot have left.
NEVER_LEFT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)


@cache
def trusted() -> ssl.SSLContext:
    """Whose certificates we take: httpx's own choice. One for all accounts: reading the store is 30 ms of CPU."""
    return httpx.create_ssl_context()


def connected(url: str, tls: ssl.SSLContext, line: Line, deadline_s: float) -> httpx.Client:
    """A client for one call to `url`, to be closed by the caller."""

    def watch(request: httpx.Request) -> None:
        request.extensions["trace"] = lambda step, facts: _hold(line, step, facts)

    def begun(response: httpx.Response) -> None:
        line.status, line.retry_after = response.status_code, response.headers.get("retry-after")
        response.stream = _Bounded(cast(httpx.SyncByteStream, response.stream))
        if line.keeps_body:
            line.body = response.read()

    return httpx.Client(
        timeout=httpx.Timeout(read_s(deadline_s), connect=connect_s(deadline_s)),
        follow_redirects=False,
        verify=tls,
        trust_env=not is_loopback(url),
        event_hooks={"request": [watch], "response": [begun]},
    )


class _Bounded(httpx.SyncByteStream):
    """What is read of an answer, and no more than an answer can have."""

    def __init__(self, stream: httpx.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._stream:
            size += len(piece)
            if size > BODY_BYTES_MAX:
                raise httpx.ReadError("The answer does not come to an end.")
            yield piece

    def close(self) -> None:
        self._stream.close()


def part(given: str) -> str:
    """An id as one part of the path. Quoting leaves dots alone, and two of them climb out of where it stands."""
    if given in (".", ".."):
        raise Unsendable(f"{given!r} is no id.")
    return quote(given, safe="")


def _hold(line: Line, step: str, facts: Mapping[str, Any]) -> None:
    """httpcore's steps, by its documented `trace` extension."""
    if step.endswith(("connect_tcp.complete", "start_tls.complete")):
        line.hold(facts["return_value"].get_extra_info("socket"))
