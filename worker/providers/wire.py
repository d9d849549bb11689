"""One call with a total deadline, whatever the other side does.

The published packages bound each read, not the call: a server that drips a byte a second holds them for ever, and
looking up a name cannot be bounded at all. So a call runs on a thread of its own; at the deadline it is given up and
its socket shut down, which ends the thread too. A socket that was never connected proves that nothing was sent, and
none is connected after the cut. What bounds a single read in a package is longer than the call, so that the two never
race for what is said of a server that does not answer.
"""

from __future__ import annotations

import contextlib
import ipaddress
import queue
import socket
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar
from urllib.parse import urlsplit

from ledger.database import refuse_inside_transaction
from ledger.errors import Misconfigured

T = TypeVar("T")
CONNECT_S_MAX = 10.0
BEYOND_S = 10.0
BODY_BYTES_MAX = 16 * 2**20  # of an answer: a full page of a list has a tenth of it


class Line:
    """The connection of one call, so that it can be cut from outside, and what it said first.

    With `keeps_body` the answer's bytes are kept too, as they were written.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.retry_after: str | None = None
        self.keeps_body, self.body = False, b""
        self._sockets: list[socket.socket] = []
        self._cut = self._may_have_left = False
        self._lock = threading.Lock()

    def hold(self, connected: socket.socket, *, leaves: bool = True) -> None:
        """Call with the connected socket before anything is sent. After the cut: closes it, raises OSError.

        Not `leaves`: what is sent next sends no e-mail yet; call `leave` before what does.
        """
        with self._lock:
            self._go_on(connected)
            self._sockets.append(connected)
            self._may_have_left = leaves

    def leave(self) -> None:
        """From here on an e-mail may have left. After the cut: raises OSError."""
        with self._lock:
            self._go_on(*self._sockets)
            self._may_have_left = True

    def _go_on(self, *sockets: socket.socket) -> None:
        if self._cut:
            for one in sockets:
                one.close()
            raise ConnectionAbortedError("The call was given up before anything left.")

    def end(self, say: Callable[[], None]) -> None:
        """Says what came of the call, unless it was cut before: what follows a cut is the cut's own doing."""
        with self._lock:
            if not self._cut:
                say()

    def cut(self) -> bool:
        """End the call; whether anything can have left."""
        with self._lock:
            self._cut = True
            for held in self._sockets:
                with contextlib.suppress(OSError):  # closed already, or handed on to its TLS
                    socket.socket.shutdown(held, socket.SHUT_RDWR)
            return self._may_have_left


current: ContextVar[Line] = ContextVar("line")


def within(deadline_s: float, call: Callable[[Line], T], given_up: Callable[[bool], T]) -> T:
    """What `call` says, or what is known without it at the deadline. `call` does not raise for what the wire does.

    `given_up` is told whether anything can have left. Raises CallInsideTransaction when this thread holds a
    transaction open.
    """
    refuse_inside_transaction()
    line: Line = Line()
    answers: queue.SimpleQueue[T] = queue.SimpleQueue()
    threading.Thread(target=_run, args=(call, line, answers), name="provider-call", daemon=True).start()
    with contextlib.suppress(queue.Empty):
        return answers.get(timeout=deadline_s)
    may_have_left = line.cut()
    with contextlib.suppress(queue.Empty):
        return answers.get_nowait()  # it came just before the cut
    return given_up(may_have_left)


def _run(call: Callable[[Line], T], line: Line, answers: queue.SimpleQueue[T]) -> None:
    current.set(line)
    answer = call(line)
    line.end(lambda: answers.put(answer))


def connect_s(deadline_s: float) -> float:
    """How long a connection may take: less than the call, so that its failure is seen as what it is."""
    return min(deadline_s / 2, CONNECT_S_MAX)


def read_s(deadline_s: float) -> float:
    """How long a single read may take: past the call's end, for a socket that the cut did not reach."""
    return deadline_s + BEYOND_S


def checked(base_url: str, provider: str) -> str:
    """The address without its last slash. Raises Misconfigured for what is no HTTP address."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Misconfigured(
            f"[providers.{provider}] base_url is {base_url!r}; write it as https://host, with a path if need be."
        )
    return base_url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Whether an address is this machine itself; then no proxy of the environment stands in between."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
