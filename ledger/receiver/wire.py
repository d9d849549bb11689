"""HTTP as it comes over the wire: uvicorn's protocol, with a limit for what stands ahead of a body.

httptools has none of its own: without this, one endless header would take the process's memory.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX = 65_536
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Protocol(HttpToolsProtocol):
    """Closes a connection whose request line and headers (or whose trailers) are longer than HEAD_BYTES_MAX."""

    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.transport.write(TOO_LARGE)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        super().on_message_complete()
