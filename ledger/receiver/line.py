"""One connection's way out: an answer leaves in one piece.

uvicorn writes head and body apart; each write is a system call, a packet and a wake-up of the sender. This took a
third of the event loop's time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

GO_ON = b"HTTP/1.1 100"  # is waited for, so it is not held


class Line:
    """A transport that holds what is written until the answer is whole, or the line is closed."""

    def __init__(self, transport: asyncio.Transport, listens_on: Callable[[], bool]) -> None:
        """`listens_on`: whether what the other side still says is read, although it is to be closed."""
        self._transport, self._listens_on = transport, listens_on
        self._held: list[bytes] = []
        self.is_closing = transport.is_closing  # asked several times a request

    def write(self, data: bytes) -> None:
        if data.startswith(GO_ON):
            self._transport.write(data)
        else:
            self._held.append(data)

    def flush(self) -> None:
        if self._held:
            whole, self._held = b"".join(self._held), []
            self._transport.write(whole)

    def end(self) -> None:
        """Says what is held, and that no more will come; what the other side says is still read."""
        self.flush()
        self._transport.write_eof()

    def close(self) -> None:
        if self._listens_on():
            self.end()
        else:
            self.flush()
            self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
