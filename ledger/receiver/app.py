"""The front door: `POST /webhooks/{source}`, `/healthz`, `/readyz`. Nothing slow happens before the answer.

Answers: the source's success code after the commit; 400 not a document, or empty; 401 not authentic; 404, 405; 408
the body did not come in time; 413 too large; 415 compressed in a way that this source does not take; 503 could not be
stored, so that the sender tries again. All refusals read the same: none says why, or what exists.
"""

from __future__ import annotations

import asyncio
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
from ledger.figures.refusals import Refusal
from ledger.payload import Malformed
from ledger.receiver.accepted import OK, proof
from ledger.receiver.arriving import as_refusal, headers_of, time_for
from ledger.receiver.body import Hand, Hands, TooMuch
from ledger.receiver.coding import Unsupported, is_coded
from ledger.receiver.log import note_decisions
from ledger.receiver.pulse import Tally
from ledger.receiver.reading import Reader
from ledger.receiver.reception import Reception
from ledger.receiver.refused import RETRY_AFTER, Refused, Refuser, not_stored
from ledger.receiver.sources import adapters
from ledger.receiver.sources.adapter import Adapter, Arrival, Forged, Item
from ledger.receiver.store import Store
from ledger.settings import Settings

WEBHOOKS = "/webhooks/"


class Door:
    """The ASGI application. Deliveries pass no router and no layer: these took a sixth of the event loop's time."""

    def __init__(self, settings: Settings, opener: Callable[[], Database] | None = None) -> None:
        """Raises Misconfigured for a source that cannot work as configured. Touches no database."""
        self.sources = adapters(settings)
        self.tally = Tally()
        self.store = Store(settings, self.tally, opener, sources=lambda: self.sources)
        self.ended_well = True
        self._limits = settings.receiver
        self._hands, self._reader = Hands(settings.receiver), Reader()
        self._refuser = Refuser(self.tally)
        reception = Reception(
            self._adapter, self._hands, self.store, self._refuser, self._limits.answer_within_s
        )
        self.welcome = reception.welcome  # the short way, for what comes whole
        self._others = Starlette(
            routes=[Route("/healthz", self._healthz), Route("/readyz", self._readyz)],
            exception_handlers={HTTPException: self._refuse, Exception: self._refuse},
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
        except Exception as error:  # noqa: BLE001 - every request is answered
            response = self._refuser.answer(error)
        await response(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        await self.store.start()
        yield
        self.ended_well = await self.store.stop(self._limits.grace_s)
        self._reader.close()

    async def _webhook(self, request: Request, source: str) -> Response:
        adapter, received_at = self._adapter(source), datetime.now(UTC)
        headers = headers_of(request.headers.raw)
        try:
            coded = is_coded(headers, taken=adapter.coded != "refused")
        except Unsupported:
            raise Refused(Refusal.CODED, adapter) from None
        late = Refusal.TOO_SLOW
        try:
            async with asyncio.timeout(time_for(adapter, self._limits.answer_within_s)):
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
        except (Forged, Malformed) as error:
            raise as_refusal(adapter, error) from None

    async def _answer(self, adapter: Adapter, items: Sequence[Item]) -> Response:
        try:
            stored = await self.store.save(items)
        except Exception as error:  # noqa: BLE001 - whatever kept it from being stored, the sender shall try again
            raise not_stored(adapter, error) from None
        note_decisions(items, stored)
        return OK[adapter.success_status]

    async def _refuse(self, _: Request, error: Exception) -> Response:
        return self._refuser.answer(error)

    def _adapter(self, source: str) -> Adapter:
        adapter = self.sources.get(source)
        if adapter is None:
            raise HTTPException(404)
        return adapter

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


def _target(scope: Scope) -> str:
    """Path and query as the request's first line spelled them, for signatures that cover the address."""
    path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path
