"""A proxy in front of a console, as those that sign people in are: it replaces headers in each request, and passes on the rest."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

HEAD_END = b"\r\n\r\n"


class Gateway(socketserver.ThreadingTCPServer):
    """`says` replaces headers of the same name in every request; `behind` is the console's address."""

    daemon_threads = True
    allow_reuse_address = True
    behind = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.says: Mapping[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def replaced(self, head: bytes) -> bytes:
        """One request a connection, so that no other passes unread; a websocket keeps its own."""
        line, *headers = head.decode("latin-1").split("\r\n")
        upgrades = any(one.lower().startswith("upgrade:") for one in headers)
        ours = dict(self.says) if upgrades else {"Connection": "close", **self.says}
        names = tuple(f"{name.lower()}:" for name in ours)
        kept = [one for one in headers if not one.lower().startswith(names)]
        return "\r\n".join([line, *kept, *(f"{name}: {value}" for name, value in ours.items())]).encode(
            "latin-1"
        )


class _Passing(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Gateway)
        data = b""
        while HEAD_END not in data:
            if not (more := self.request.recv(65_536)):
                return
            data += more
        head, _, rest = data.partition(HEAD_END)
        there = urlsplit(self.server.behind)
        with socket.create_connection((there.hostname or "", there.port or 0)) as console:
            console.sendall(self.server.replaced(head) + HEAD_END + rest)
            back = threading.Thread(target=_pass_on, args=(console, self.request), daemon=True)
            back.start()
            _pass_on(self.request, console)
            back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def gateway() -> Iterator[Gateway]:
    """Ends with the block."""
    with Gateway() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
