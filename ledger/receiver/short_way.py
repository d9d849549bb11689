"""Two ways for a request: the short one for what comes whole, the long one, uvicorn's, for everything else.

Whole is a delivery whose head and body are there when one read of the line has been parsed, with nothing before it
that is not answered yet. As long as that is open nothing has begun: the long way can still be taken.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from ledger.receiver.offers import OfferedProtocol
from ledger.receiver.visit import Turn, Visit, Welcome, source_of


class ShortWayProtocol(OfferedProtocol):
    """uvicorn's protocol, which welcomes a visit itself. `_running` is what is being answered, or was last."""

    def __init__(self, *args: Any, welcome: Welcome, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._welcome = welcome
        self._running: RequestResponseCycle | None = None
        self._source: str | None = None  # whom the request is for that may come whole
        self._body: list[bytes] = []

    # -- the parser's callbacks ---------------------------------------------------------------------------

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
        if self._source is None:
            super().on_message_complete()
        else:
            self._take_the_short_way(self._source)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    # -- the two ways -------------------------------------------------------------------------------------

    @property
    def _is_free(self) -> bool:
        """Whether a request of the usual kind could be answered at once."""
        is_idle = (self.cycle is None or self.cycle.response_complete) and not self.flow.write_paused
        is_usual = not self.expect_100_continue and not self.parser.should_upgrade() and not self._is_deaf
        return is_idle and is_usual and self.parser.get_http_version() == "1.1"

    def _take_the_short_way(self, source: str) -> None:
        turn = Turn(self.transport.write, self.transport.close, self.on_response_complete)
        turn.keep_alive = self.parser.should_keep_alive()
        self.cycle = self._running = cast("RequestResponseCycle", turn)
        body, self._body, self._source = b"".join(self._body), [], None
        answer = partial(turn.answer, fields=self.server_state.default_headers)
        self._welcome(Visit(source, self.url.decode("ascii"), self.headers, body, answer))

    def _take_the_long_way(self) -> None:
        """To be called when a read has been parsed: what is not whole by now has its application run."""
        if self._source is not None:
            body, self._body, self._source = b"".join(self._body), [], None
            super().on_headers_complete()
            if body:
                super().on_body(body)
