"""An httpx client for one call: no redirects, its socket held by the call's line, the answer's head noted.

On a connection of its own: a kept one that the server just closed makes a send uncertain. For packages that take
an httpx client, and for APIs without a package.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from worker.providers.content import Unsendable
from worker.providers.wire import Line, connect_s, is_loopback

# The connection never stood (TLS included), or the proxy did not open it: the request cannot have left.
NEVER_LEFT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)


def connected(url: str, tls: ssl.SSLContext, line: Line, deadline_s: float) -> httpx.Client:
    """A client for one call to `url`, to be closed by the caller."""

    def watch(request: httpx.Request) -> None:
        request.extensions["trace"] = lambda step, facts: _hold(line, step, facts)

    def begun(response: httpx.Response) -> None:
        line.status, line.retry_after = response.status_code, response.headers.get("retry-after")
        if line.keeps_body:
            line.body = response.read()

    return httpx.Client(
        timeout=httpx.Timeout(deadline_s, connect=connect_s(deadline_s)),
        follow_redirects=False,
        verify=tls,
        trust_env=not is_loopback(url),
        event_hooks={"request": [watch], "response": [begun]},
    )


def part(given: str) -> str:
    """An id as one part of the path. Quoting leaves dots alone, and two of them climb out of where it stands."""
    if given in (".", ".."):
        raise Unsendable(f"{given!r} is no id.")
    return quote(given, safe="")


def _hold(line: Line, step: str, facts: Mapping[str, Any]) -> None:
    """httpcore's steps, by its documented `trace` extension."""
    if step.endswith(("connect_tcp.complete", "start_tls.complete")):
        line.hold(facts["return_value"].get_extra_info("socket"))
