"""The front door: `POST /webhooks/{source}`, `/healthz`, `/readyz`. Nothing slow happens before the answer.

Answers: the source's success code after the commit; 400 not a document, or empty; 401 not authentic; 404, 405; 408
the body did not come in time; 413 too large; 415 compressed in a way that this source does not take; 503 could not be
stored, so that the sender tries again. All refusals read the same: none says why, or what exists.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ledger.database import Database
from ledger.errors import LedgerError
from ledger.payload import Malformed
from ledger.receiver.accepted import OK, proof
from ledger.receiver.body import Hand, Hands, TooMuch
from ledger.receiver.coding import Unsupported, is_coded
from ledger.receiver.log import note, note_decisions
from ledger.receiver.pulse import Tally
from ledger.receiver.reading import Reader
from ledger.receiver.refused import REFUSED, RETRY_AFTER, Refused
from ledger.receiver.sources import adapters
from ledger.receiver.sources.adapter import Adapter, Arrival, Forged, Headers, Item
from ledger.receiver.store import Store
from ledger.refusals import Refusal
from ledger.settings import Settings

SHARE_OF_WAIT = 0.8  # of what a sender waits; the rest is for the way there and back
WEBHOOKS = "/webhooks/"
FIELDS_JOINED = ", "

log = logging.getLogger(__name__)


class Door:
    """The ASGI application. Deliveries pass no router and no layer: these took a sixth of the event loop's time."""

    def __init__(self, settings: Settings, opener: Callable[[], Database] | None = None) -> None:
        """Raises Misconfigured for a source that cannot work as configured. Touches no database."""
        self.sources = adapters(settings)
        self.tally = Tally()
        self.store = Store(settings, self.tally, opener)
        self.ended_well = True
        self._limits = settings.receiver
        self._hands, self._reader = Hands(settings.receiver), Reader()
        self._others = Starlette(
            routes=[Route("/healthz", self._healthz), Route("/readyz", self._readyz)],
            exception_handlers={HTTPException: self._refuse, Exception: self._fail},
            lifespan=self._lifespan,
        )
        self._others.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_delivery = scope["type"] == "http" and scope["path"].startswith(WEBHOOKS)
        await (self._deliver if is_delivery else self._others)(scope, receive, send)

    async def _deliver(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            response = await self._webhook(request, _source(scope))
        except HTTPException as error:
            response = await self._refuse(request, error)
        except Exception as error:
            log.exception("a request failed")
            response = await self._fail(request, error)
        await response(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        await self.store.start()
        yield
        self.ended_well = await self.store.stop(self._limits.grace_s)
        self._reader.close()

    async def _webhook(self, request: Request, source: str) -> Response:
        adapter = self.sources.get(source)
        if adapter is None:
            raise HTTPException(404)
        received_at, headers = datetime.now(UTC), _headers(request)
        try:
            coded = is_coded(headers, taken=adapter.coded != "refused")
        except Unsupported:
            raise Refused(Refusal.CODED, adapter) from None
        late = Refusal.TOO_SLOW
        try:
            async with asyncio.timeout(min(self._limits.answer_within_s, adapter.ack_s * SHARE_OF_WAIT)):
                with self._hands.free() as hand:
                    body = await hand.take(request)
                    late = Refusal.NOT_STORED
                    arrival = Arrival(headers, body, received_at, _target(request.scope))
                    if (token := adapter.handshake(arrival)) is not None:
                        return proof(token)
                    items = await self._read(adapter, arrival, hand, coded)
                    return await self._answer(adapter, items)
        except TimeoutError:
            raise Refused(late, adapter, "not in time") from None
        except TooMuch as error:
            raise Refused(error.reason, adapter) from None
        except ClientDisconnect:
            raise Refused(Refusal.CUT_SHORT, adapter) from None

    async def _read(self, adapter: Adapter, arrival: Arrival, hand: Hand, coded: bool) -> list[Item]:
        try:
            return await self._reader.read(adapter, arrival, hand, is_coded=coded)
        except Forged:
            raise Refused(Refusal.BAD_SIGNATURE, adapter) from None
        except Malformed as error:
            raise Refused(Refusal.MALFORMED, adapter, str(error)) from None

    async def _answer(self, adapter: Adapter, items: Sequence[Item]) -> Response:
        try:
            stored = await self.store.save(items)
        except Exception as error:  # noqa: BLE001 - whatever kept it from being stored, the sender shall try again
            reason = str(error) if isinstance(error, LedgerError) else type(error).__name__
            raise Refused(Refusal.NOT_STORED, adapter, reason) from None
        note_decisions(items, stored)
        return OK[adapter.success_status]

    async def _refuse(self, _: Request, error: Exception) -> Response:
        """The sender learns the status alone. Reasons are noted, and quote nothing that was received."""
        assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker: registered for these only
        if isinstance(error, Refused):
            self.tally.add(error.reason, error.source)
            because = {"because": error.because} if error.because else {}
            note(
                "refused", source=error.source, status=error.status_code, reason=error.reason.value, **because
            )
        else:
            self.tally.add(Refusal.WRONG_METHOD if error.status_code == 405 else Refusal.UNKNOWN_SOURCE)
        return PlainTextResponse(REFUSED, error.status_code, error.headers)

    async def _fail(self, _: Request, __: Exception) -> Response:
        """A fault of ours. It cannot be known to be the content's, so the sender shall try again."""
        self.tally.add(Refusal.NOT_STORED)
        return PlainTextResponse(REFUSED, 503, RETRY_AFTER)

    async def _healthz(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, _: Request) -> Response:
        if await self.store.is_ready():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("the database cannot be reached\n", 503, RETRY_AFTER)


def _source(scope: Scope) -> str:
    """The source that is posted to, by its address with or without a slash at the end. Raises HTTPException."""
    name: str = scope["path"].removeprefix(WEBHOOKS).removesuffix("/")
    if not name or "/" in name:
        raise HTTPException(404)
    if scope["method"] != "POST":
        raise HTTPException(405, headers={"Allow": "POST"})
    return name


def _headers(request: Request) -> Headers:
    """By lower-case name; a field that was sent several times as one, as RFC 9110 (5.3) reads it."""
    found: dict[str, str] = {}
    for name, value in request.headers.items():
        found[name] = found[name] + FIELDS_JOINED + value if name in found else value
    return found


def _target(scope: Scope) -> str:
    """Path and query as the request's first line spelled them, for signatures that cover the address."""
    path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path
