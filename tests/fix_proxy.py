"""A line between receiver and database that loses the commit of what was accepted, or the commit's answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum

import sqlalchemy as sa

COMMIT = b"COMMIT\0"  # as it is sent, by itself or to be prepared
STORES = (
    b"INTO nottwice.events"  # a commit counts when this was sent before it: a sign of life has commits too
)


class Loss(StrEnum):
    COMMIT = "commit"  # the server never hears of it, and the session ends
    ANSWER = "answer"  # the server has committed, and nobody is told


class Proxy:
    """Listens on a port of its own. `lose` says what befalls the next commits; `lost` how many it befell.

    While `takes` is not set, what a client sends is not taken from the line: as from a network that is gone.
    """

    def __init__(self, server_socket: str) -> None:
        self._server_socket = server_socket
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._loss: Loss | None = None
        self._left = self.lost = 0
        self._lock = threading.Lock()
        self.takes = threading.Event()
        self.takes.set()
        self._lines: list[_Line] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def lose(self, what: Loss, times: int) -> None:
        with self._lock:
            self._loss, self._left, self.lost = what, times, 0

    def close(self) -> None:
        """Whoever still talks is cut off."""
        self.takes.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        for line in self._lines:
            line.close()

    def befalls(self) -> Loss | None:
        """What befalls the commit that goes through now."""
        with self._lock:
            if not self._left:
                return None
            self._left, self.lost = self._left - 1, self.lost + 1
            return self._loss

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server_socket)
                self._lines.append(_Line(self, client, server))


class _Line:
    """One session."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._sent = b""  # since the last commit
        self._is_mute = False
        self._threads = [threading.Thread(target=way) for way in (self._there, self._back)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._cut()
        for thread in self._threads:
            thread.join()
        self._client.close()
        self._server.close()

    def _there(self) -> None:
        with suppress(OSError):
            while self._proxy.takes.wait() and (data := self._client.recv(65_536)):
                self._sent += data
                loss = self._proxy.befalls() if self._stores() else None
                if loss is Loss.COMMIT:
                    break
                self._is_mute = loss is Loss.ANSWER
                self._server.sendall(data)
        self._cut()

    def _back(self) -> None:
        with suppress(OSError):
            while (data := self._server.recv(65_536)) and not self._is_mute:
                self._client.sendall(data)
        self._cut()

    def _stores(self) -> bool:
        if COMMIT not in self._sent:
            return False
        stores, self._sent = STORES in self._sent, b""
        return stores

    def _cut(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def between(url: str) -> Iterator[tuple[Proxy, str]]:
    """The proxy ahead of an embedded server, and the URL that leads through it."""
    parts = sa.make_url(url)
    proxy = Proxy(f"{parts.query['host']}/.s.PGSQL.{parts.query['port']}")
    through = parts.set(host="127.0.0.1", port=proxy.port, query={})
    try:
        yield proxy, through.render_as_string(hide_password=False)
    finally:
        proxy.close()
