"""HTTP as it comes over the wire: uvicorn's protocol, with limits for what stands ahead of a body, and for its time.

httptools has none of its own: without them, one endless header would take the process's memory, and slow ones its
connections. What is no HTTP at all is counted, not logged: a stranger could fill the disk with it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httptools

from ledger.figures.refusals import Refusal
from ledger.receiver.head import HEAD_BYTES_MAX, TooLarge, require_a_short_head
from ledger.receiver.pulse import Tally
from ledger.receiver.refused import REFUSED
from ledger.receiver.short_way import ShortWayProtocol


def _answer(status_line: str) -> bytes:
    head = f"HTTP/1.1 {status_line}\r\ncontent-type: text/plain; charset=utf-8\r\n"
    return f"{head}content-length: {len(REFUSED)}\r\nconnection: close\r\n\r\n{REFUSED}".encode()


NOT_HTTP = _answer("400 Bad Request")
TOO_SLOW = _answer("408 Request Timeout")
TOO_LARGE = _answer("431 Request Header Fields Too Large")


class Protocol(ShortWayProtocol):
    """One connection. An answer that is still owed to an earlier request is given before anything is closed."""

    def __init__(self, *args: Any, tally: Tally, head_within_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tally, self._head_within_s = tally, head_within_s
        self._head_bytes = 0  # that came since the read with the last whole head, or piece of a body
        self._read_bytes = self._shared_bytes = (
            0  # of this read, and of that one: a part of it is this head's
        )
        self._is_over = False  # turned away: what still comes is thrown away
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._unset_keepalive_if_required()
        if not self._head_bytes and self._sees(data):
            self._read_bytes = 0  # nothing of it is the next one's
            self._head_came()
            return
        self._read_bytes = len(data)
        self._head_bytes += self._read_bytes
        while data and not self._has_ended:
            data = self._feed(data)
        self._take_the_long_way()
        if not self._has_ended:
            self._bound_the_head()

    def _feed(self, data: bytes) -> bytes:
        """What is still to be parsed."""
        try:
            return self.parse(data)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, TooLarge):
                self._turn_away(TOO_LARGE, Refusal.TOO_LARGE)
            else:
                self._turn_away(NOT_HTTP, Refusal.NOT_HTTP)
        return b""

    @property
    def _has_ended(self) -> bool:
        return self._is_over or self.transport.is_closing()

    def _bound_the_head(self) -> None:
        """Of one that is not whole yet, by what is surely its own."""
        if self._head_bytes > HEAD_BYTES_MAX:
            self._turn_away(TOO_LARGE, Refusal.TOO_LARGE)
        elif self._head_bytes and self._head_timer is None:
            self._await_head()

    def eof_received(self) -> bool:  # type: ignore[override]
        """A sender may close its half when it has said everything: it still gets its answers."""
        if self._owes_an_answer:
            self._end_after_answers()
        return self._owes_an_answer

    # -- the parser's callbacks ---------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        self._measure()
        self._head_came()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_came()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._measure()  # fields may stand behind a body in pieces too
        self._head_came()
        super().on_message_complete()

    def _measure(self) -> None:
        """Raises TooLarge. Counted field by field only where more than the limit came: it takes its time."""
        if self._shared_bytes + self._head_bytes > HEAD_BYTES_MAX:
            require_a_short_head(self.parser.get_method(), self.url, self.headers)

    # -- endings ------------------------------------------------------------------------------------------

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self._head_within_s, self._head_is_late)

    def _head_came(self) -> None:
        self._head_bytes, self._shared_bytes = 0, self._read_bytes
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._owes_an_answer:
            self._await_head()
        elif self._head_bytes:
            self._turn_away(TOO_SLOW, Refusal.TOO_SLOW)
            self.transport.close()
        else:  # nothing was begun, or it was turned away
            self.transport.close()

    @property
    def _owes_an_answer(self) -> bool:
        """To a request that came whole."""
        running = self._running
        if running is None or running.response_complete:
            return False
        return running is not self.cycle or not running.more_body

    def _end_after_answers(self) -> None:
        """What came whole is answered; the rest of the line is given up."""
        whole = [cycle for cycle, _ in self.pipeline if not cycle.more_body]
        self.pipeline = type(self.pipeline)(entry for entry in self.pipeline if not entry[0].more_body)
        last = whole[0] if whole else self._running  # the newest stands first
        assert last is not None  # noqa: S101 - for the type checker: an answer is owed
        last.keep_alive = False

    def _turn_away(self, answer: bytes, reason: Refusal) -> None:
        self._is_over = True
        self._tally.add(reason)
        if self._owes_an_answer:
            self._end_after_answers()
            return
        is_given = self.cycle is not None and self.cycle.more_body and self.cycle.response_started
        if not is_given:  # else it had its answer before its body came
            self.transport.write(answer)
        self._listen_on()

    def _listens_on(self) -> bool:
        """Where it is to be closed behind an answer that was given ahead of the end of the body."""
        cycle = self._running
        if self._is_over or cycle is None or not (cycle.response_complete and cycle.more_body):
            return False
        self._is_over = True
        self._head_came()
        self._await_head()
        return True

    def _listen_on(self) -> None:
        """Nothing more is said. Closed at once, whoever still writes would lose the answer (RFC 9112, 9.6)."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._line.end()
        self._head_came()
        self._await_head()

    def shutdown(self) -> None:
        """The server stops: nobody waits for a sender that was turned away."""
        if self._is_over and not self._owes_an_answer:
            self.transport.close()
        else:
            super().shutdown()
