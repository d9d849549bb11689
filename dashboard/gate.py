"""In front of Streamlit: who may ask at all, and what every answer says to the browser. Plain ASGI.

A request that does not name this console is refused, so that no foreign page can reach it under a name of its own (DNS
rebinding); a websocket must come from a page of ours; behind a proxy nothing is answered without the proxy's secret.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from dashboard import first_page, kept_files
from dashboard.browser_rules import rules_for
from dashboard.way_back import Way
from ledger.settings.sign_in import is_loopback, origin_of
from ledger.sign_in.admission import comes_from_proxy

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEALTH = "/_stcore/health"  # says "ok" to whoever asks, for supervisors and balancers
SHUT = ("/_stcore/metrics", "/_stcore/agent")  # of Streamlit's own, and nobody here asks for them
REFUSED_SOCKET = 1008  # RFC 6455, section 7.4.1: policy


@dataclass(frozen=True, slots=True)
class Entry:
    """The console's own address (None: this machine, by any name of it), and the proxy's header with its secret."""

    origin: str | None = None
    secret_header: str = ""
    secret: str = ""
    signs_in: bool = False  # here, not at a proxy


class Gate:
    """Everything that reaches Streamlit comes through here."""

    def __init__(self, app: App, entry: Entry) -> None:
        self._app, self._entry = app, entry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
        elif why := _refusal(scope, self._entry):
            await _refuse(scope, receive, send, why)
        elif found := _at_hand(scope, self._entry):
            await _give(_answering(scope, send, self._entry), *found)
        else:
            await self._app(scope, receive, _answering(scope, send, self._entry))


def _refusal(scope: Scope, entry: Entry) -> str:
    """Why this is not answered; "" when it is."""
    path = str(scope["path"])
    if scope["type"] == "http" and path == HEALTH:
        return ""
    if path.startswith(SHUT):
        return "There is nothing here."
    if not _is_our_name(scope, entry):
        return f"This console is not known under that name. Open {entry.origin or 'it on the machine it runs on'}."
    if scope["type"] == "websocket" and not _is_our_page(scope, entry):
        return "Only pages of this console may do that."
    if entry.secret_header and not comes_from_proxy(values(scope, entry.secret_header), entry.secret):
        return f"Sign in first: open {entry.origin}."
    return ""


def _is_our_name(scope: Scope, entry: Entry) -> bool:
    hosts = values(scope, "host")
    if len(hosts) != 1:
        return False
    if entry.origin is None:
        return is_loopback(_host_name(hosts[0]))
    scheme = entry.origin.partition(":")[0]
    return origin_of(f"{scheme}://{hosts[0]}").casefold() == entry.origin.casefold()


def _is_our_page(scope: Scope, entry: Entry) -> bool:
    """A browser always says of which page a websocket is; what says nothing is none of ours."""
    origins = values(scope, "origin")
    ours = entry.origin or f"http://{values(scope, 'host')[0]}"
    return len(origins) == 1 and origins[0].casefold() == ours.casefold()


def _host_name(host: str) -> str:
    """`[::1]:8501` is `::1`."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0].casefold()


def values(scope: Scope, name: str) -> list[str]:
    """All values of a header, as they came."""
    wanted = name.lower().encode()
    return [value.decode("latin-1") for key, value in scope["headers"] if key == wanted]


def _at_hand(scope: Scope, entry: Entry) -> first_page.Answer | None:
    """What needs nothing of Streamlit's server: its files, and the page with which a browser begins."""
    if scope["type"] != "http" or scope.get("method") != "GET":
        return None
    path = str(scope["path"])
    return kept_files.found(path) or first_page.at_address(path, signs_in=entry.signs_in)


async def _give(send: Send, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": HTTPStatus.OK.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _refuse(scope: Scope, receive: Receive, send: Send, why: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": REFUSED_SOCKET})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": HTTPStatus.FORBIDDEN.value, "headers": headers})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})


def _answering(scope: Scope, send: Send, entry: Entry) -> Send:
    """`send`, with the rules for the browser in every answer."""
    if scope["type"] == "websocket":
        return send
    way = Way(scope["path"], scope["query_string"], values(scope, "referer"), values(scope, "cookie"))
    ours = entry.origin or f"http://{values(scope, 'host')[0]}" if values(scope, "host") else ""

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = way.led_back(list(message["headers"]), ours)
            message = {**message, "headers": [*_sealed(headers, ours), *rules_for(ours)]}
        await send(message)

    return answer


def _sealed(headers: list[tuple[bytes, bytes]], ours: str) -> list[tuple[bytes, bytes]]:
    """Cookies of a console that is reached by https travel by https alone. (Streamlit 1.67 leaves that out.)"""
    if not ours.startswith("https://"):
        return headers
    return [
        (
            name,
            value + b"; Secure"
            if name.lower() == b"set-cookie" and b"secure" not in value.lower()
            else value,
        )
        for name, value in headers
    ]
