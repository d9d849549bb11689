"""Two ways for a request: the short one for what comes whole, the long one, uvicorn's, for everything else.

Whole is a delivery whose head and body are there when one read of the line has been parsed, with nothing before it
that is not answered yet. As long as that is open nothing has begun: the long way can still be taken.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from ledger.receiver.accepted import after_answer
from ledger.receiver.arriving import headers_of
from ledger.receiver.glance import glance
from ledger.receiver.idleness import Idleness
from ledger.receiver.line import Line
from ledger.receiver.offers import OfferedProtocol
from ledger.receiver.visit import Turn, Visit, Welcome, source_of, spelled


class ShortWayProtocol(OfferedProtocol):
    """uvicorn's protocol, which welcomes a visit itself. `_running` is what is being answered, or was last."""

    def __init__(self, *args: Any, welcome: Welcome, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._welcome = welcome
        self._running: RequestResponseCycle | None = None
        self._is_between = True  # the parser has begun nothing that it has not ended
        self._source: str | None = None  # whom the request is for that may come whole
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._line = Line(transport, self._listens_on)
        super().connection_made(cast("asyncio.Transport", self._line))
        self._idleness = Idleness(self.loop, self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self._idleness.stop()
        super().connection_lost(exc)

    def _listens_on(self) -> bool:
        return False

    def _unset_keepalive_if_required(self) -> None:
        """In place of uvicorn's timer."""
        self._idleness.end()

    # -- the parser's callbacks ---------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._is_between = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self._is_free:
            self._source = source_of(self.parser.get_method(), self.url, self.headers)
        if self._source is None:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._source is None:
            super().on_body(body)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        self._is_between = True
        if self._source is None:
            super().on_message_complete()
        else:
            self._take_the_short_way(self._source)

    def on_response_complete(self) -> None:
        self._line.flush()
        if self.pipeline:
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        if not self._line.is_closing():
            self.flow.resume_reading()
            self._idleness.begin()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    # -- the two ways -------------------------------------------------------------------------------------

    def _sees(self, data: bytes) -> bool:
        """Whether it is a whole request of the usual spelling; then it is being answered."""
        if not (self._is_between and self._is_idle) or self._line.is_closing():
            return False
        seen = glance(data)
        if seen is not None:
            self._welcome(Visit(*seen, self._turn(keep_alive=True).answer))
        return seen is not None

    @property
    def _is_idle(self) -> bool:
        """Whether a request could be answered at once."""
        return (self.cycle is None or self.cycle.response_complete) and not self.flow.write_paused

    @property
    def _is_free(self) -> bool:
        """Whether one of the usual kind could."""
        is_usual = not self.expect_100_continue and not self.parser.should_upgrade() and not self._is_deaf
        return self._is_idle and is_usual and self.parser.get_http_version() == "1.1"

    def _turn(self, *, keep_alive: bool) -> Turn:
        turn = Turn(self._say, keep_alive=keep_alive)
        self.cycle = self._running = cast("RequestResponseCycle", turn)
        return turn

    def _say(self, response: Response, *, keep_alive: bool) -> None:
        self._line.write(spelled(response, self.server_state.default_headers, keep_alive=keep_alive))
        if not keep_alive:
            self._line.close()
        self.on_response_complete()
        if response.background is not None:
            after_answer()

    def _take_the_short_way(self, source: str) -> None:
        turn = self._turn(keep_alive=self.parser.should_keep_alive())
        body, self._body, self._source = b"".join(self._body), [], None
        self._welcome(Visit(source, self.url.decode("ascii"), headers_of(self.headers), body, turn.answer))

    def _take_the_long_way(self) -> None:
        """To be called when a read has been parsed: what is not whole by now has its application run."""
        if self._source is not None:
            body, self._body, self._source = b"".join(self._body), [], None
            super().on_headers_complete()
            if body:
                super().on_body(body)
