"""Many connections to one receiver, each with one request at a time. Written by hand: no client would send these."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from tests.fuzz.deliveries import Kind, Request

WITHIN_S = 60.0
CLOSED = 0  # the receiver hung up without an answer


def head(request: Request) -> bytes:
    lines = [f"{request.method} {request.path} HTTP/1.1", "Host: fuzz"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    lines.append("Transfer-Encoding: chunked" if request.chunks else f"Content-Length: {len(request.body)}")
    raw = [line.encode("latin-1", "replace") for line in lines]
    return b"\r\n".join([*raw, *request.more, b"", b""])


def framed(request: Request) -> bytes:
    if not request.chunks:
        return request.body
    pieces, rest = [], request.body
    for size in request.chunks:
        pieces.append(rest[:size])
        rest = rest[size:]
    pieces.append(rest)
    return b"".join(b"%x;a=b\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"


class Line:
    """One connection, opened again when it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def status(self, request: Request) -> int:
        """Of the answer; CLOSED when there was none."""
        for _ in range(2):  # a line that was closed meanwhile is no answer
            is_new = self._streams is None
            status = await asyncio.wait_for(self._status(request), WITHIN_S)
            if status != CLOSED or is_new:
                break
        if request.kind is Kind.WILD:
            await self.close()
        return status

    async def _status(self, request: Request) -> int:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        try:
            writer.write(head(request) + framed(request))
            await writer.drain()
            return await self._answer(reader, request.method)
        except (OSError, asyncio.IncompleteReadError):
            await self.close()
            return CLOSED

    async def _answer(self, reader: asyncio.StreamReader, method: str) -> int:
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        status = int(lines[0].split()[1])
        if status == 100:
            return await self._answer(reader, method)
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        if method != "HEAD":
            await reader.readexactly(length)
        if b"connection: close" in lines:
            await self.close()
        return status

    async def close(self) -> None:
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


class Lines:
    """So many connections at once, kept from call to call."""

    def __init__(self, port: int, size: int) -> None:
        self._lines = [Line(port) for _ in range(size)]

    async def statuses(self, requests: Sequence[Request]) -> list[int]:
        """In the order of the requests, which are sent side by side."""
        found = [CLOSED] * len(requests)
        waiting = iter(enumerate(requests))

        async def work(line: Line) -> None:
            for place, request in waiting:
                found[place] = await line.status(request)

        await asyncio.gather(*map(work, islice(self._lines, len(requests))))
        return found

    async def close(self) -> None:
        await asyncio.gather(*(line.close() for line in self._lines))
