"""The short way through the door, for the usual request: one that came whole, head and body together.

It is read and put in line at once, without a task, a scope or an ASGI message of its own: these took a third of the
event loop's time. What it is told is what the long way (`app.Door` as an ASGI application) would have told it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ledger.receiver.sources.terms import Headers

WEBHOOKS = b"/webhooks/"
BODY_BYTES_MAX = 65_536  # a body that takes longer than a millisecond to read goes the long way
Fields = list[tuple[bytes, bytes]]  # names in lower case


class Visit(NamedTuple):
    """One request as it came whole; `answer` is called once."""

    source: str
    target: str
    headers: Headers
    body: bytes
    answer: Callable[[Response], None]


Welcome = Callable[[Visit], None]


class Say(Protocol):
    """Writes an answer to the line, and closes the line behind it unless it is kept."""

    def __call__(self, response: Response, *, keep_alive: bool) -> None: ...


def source_of(method: bytes, url: bytes, fields: Fields) -> str | None:
    """Whom a usual delivery is for; None for whatever the long way must look at."""
    if method != b"POST" or not url.startswith(WEBHOOKS) or b"%" in url or b"?" in url:
        return None
    name = url.removeprefix(WEBHOOKS).removesuffix(b"/")
    given = dict(fields)  # the length is there once, or it is no HTTP
    length = given.get(b"content-length", b"")
    if b"/" in name or not name.isascii() or b"content-encoding" in given or not length.isdigit():
        return None
    return name.decode() if int(length.lstrip(b"0") or b"0") <= BODY_BYTES_MAX else None


class _Nobody:
    """For whom uvicorn's cycles have an event: nobody waits here."""

    def set(self) -> None:
        pass


class Turn:
    """A visit's place on its line. Has what uvicorn asks of a cycle, so that what comes behind it waits its turn."""

    __slots__ = ("_say", "disconnected", "keep_alive", "response_complete", "response_started")
    more_body = waiting_for_100_continue = False
    message_event = _Nobody()

    def __init__(self, say: Say, *, keep_alive: bool) -> None:
        self._say, self.keep_alive = say, keep_alive
        self.response_started = self.response_complete = self.disconnected = False

    def answer(self, response: Response) -> None:
        self.response_started = self.response_complete = True
        if not self.disconnected:
            self._say(response, keep_alive=self.keep_alive)


class Spelling:
    """Answers as they go over the wire. Those that are given again and again are spelled once for each date."""

    def __init__(self) -> None:
        self._fields: Fields = []
        self._known: dict[tuple[Response, bool], bytes] = {}

    def of(self, response: Response, fields: Fields, *, keep_alive: bool) -> bytes:
        """The whole answer; `fields` stand in every answer's head."""
        if fields is not self._fields:
            self._fields, self._known = fields, {}
        known = self._known.get((response, keep_alive))
        if known is None:
            known = _spelled(response, fields, keep_alive)
            if response.background is not None:  # a success, of which there are few
                self._known[response, keep_alive] = known
        return known


spelled = Spelling().of  # one for all lines: they share the server's fields


def _spelled(response: Response, fields: Fields, keep_alive: bool) -> bytes:
    head = [b"%b: %b\r\n" % field for field in (*fields, *response.raw_headers)]
    if not keep_alive:
        head.append(b"connection: close\r\n")
    return b"".join((STATUS_LINE[response.status_code], *head, b"\r\n", bytes(response.body)))
