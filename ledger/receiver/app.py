"""The front door: `POST /webhooks/{source}`, `/healthz`, `/readyz`. Nothing slow happens before the answer.

Answers: the source's success code after the commit; 400 not a document, or empty; 401 not authentic; 404, 405, 413;
503 could not be stored, so that the sender tries again. No answer says why a signature failed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ledger import faults, payload
from ledger.database import Database
from ledger.receiver.batcher import Batcher
from ledger.receiver.log import note
from ledger.receiver.sources import adapters
from ledger.receiver.sources.adapter import Forged
from ledger.records import Acceptance
from ledger.settings import Settings

READY_FOR_S = 1.0  # how long one look at the database answers /readyz
READY_WITHIN_S = 2.0
REJECTED = "not accepted\n"


@dataclass(slots=True)
class Door:
    """What the routes share. `opener` may fail for as long as the database is away; it is tried again."""

    settings: Settings
    opener: Callable[[], Database]
    batcher: Batcher | None = None
    database: Database | None = None
    ready: tuple[float, bool] = (0.0, False)
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def store(self) -> Batcher:
        """The batcher, once the database could be opened. Raises Unavailable."""
        async with self.opening:
            if self.batcher is None:
                database = await asyncio.to_thread(self.opener)
                batcher = Batcher(database, self.settings.receiver)
                batcher.start()
                self.database, self.batcher = database, batcher
            return self.batcher


def create(settings: Settings, opener: Callable[[], Database] | None = None) -> Starlette:
    """The ASGI application. Raises Misconfigured for a source that cannot work as configured."""
    size = settings.receiver.writers + 2
    door = Door(settings, opener or (lambda: settings.open_database("receiver", pool_size=size)))
    sources = adapters(settings)

    async def webhook(request: Request) -> Response:
        name = request.path_params["source"]
        adapter = sources.get(name)
        if adapter is None:
            raise HTTPException(404)
        body = await _body(request, settings.receiver.body_bytes_max)
        headers = {key.lower(): value for key, value in request.headers.items()}
        try:
            items = adapter.read(headers, body, datetime.now(UTC))
        except Forged:
            note("rejected", source=name, status=401)
            raise HTTPException(401) from None
        except payload.Malformed:
            note("rejected", source=name, status=400)
            raise HTTPException(400) from None
        return await _stored(door, name, items)

    async def ready(_: Request) -> Response:
        return await _ready(door)

    routes = [
        Route("/webhooks/{source}", webhook, methods=["POST"]),
        Route("/webhooks/{source}/", webhook, methods=["POST"]),
        Route("/healthz", _alive),
        Route("/readyz", ready),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={HTTPException: _rejected, ClientDisconnect: _gone},  # type: ignore[dict-item]
        lifespan=lambda app: _lifespan(door, app),
    )


async def _stored(door: Door, name: str, items: list) -> Response:  # type: ignore[type-arg]
    try:
        batcher = await door.store()
        answers = await batcher.store(items)
    except Exception as error:  # noqa: BLE001 - whatever kept it from being stored, the sender shall try again
        note("not stored", source=name, error=type(error).__name__)
        return PlainTextResponse(REJECTED, 503, {"Retry-After": "5"})
    for answer in answers:
        note("stored", source=name, became=answer.kind.value, event_id=answer.event_id)
    response = PlainTextResponse("ok\n", _success(door, name, answers))
    if response.status_code == 204:
        response = PlainTextResponse(status_code=204)
    response.background = _AfterAnswer()  # type: ignore[assignment]
    return response


class _AfterAnswer:
    async def __call__(self) -> None:
        faults.point("receiver.after_answer")


def _success(door: Door, name: str, answers: list[Acceptance]) -> int:
    return door.settings.sources[name].success_status or 200


async def _body(request: Request, bytes_max: int) -> bytes:
    """The exact bytes. Too many are refused before they are read: 413; none at all: still for the signature to judge."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > bytes_max:
        raise HTTPException(413)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > bytes_max:
            raise HTTPException(413)
        parts.append(part)
    return b"".join(parts)


async def _alive(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _ready(door: Door) -> Response:
    looked_at, is_ready = door.ready
    if time.monotonic() - looked_at > READY_FOR_S:
        is_ready = await _look(door)
        door.ready = (time.monotonic(), is_ready)
    return PlainTextResponse(
        "ready\n" if is_ready else "the database cannot be reached\n", 200 if is_ready else 503
    )


async def _look(door: Door) -> bool:
    def look() -> None:
        if door.database is not None:
            with door.database.transaction() as tx:
                tx.one("SELECT 1")

    try:
        await door.store()
        await asyncio.wait_for(asyncio.to_thread(look), READY_WITHIN_S)
        return True
    except Exception:  # noqa: BLE001 - not ready is the answer, whatever the reason
        return False


async def _rejected(_: Request, error: HTTPException) -> Response:
    return PlainTextResponse(REJECTED, error.status_code, error.headers)


async def _gone(_: Request, __: ClientDisconnect) -> Response:
    return PlainTextResponse(REJECTED, 400)


@asynccontextmanager
async def _lifespan(door: Door, _: Starlette) -> AsyncIterator[None]:
    yield
    if door.batcher is not None:
        await door.batcher.stop()
    if door.database is not None:
        door.database.close()
