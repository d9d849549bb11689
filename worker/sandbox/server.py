"""A stand-in for the providers: the two APIs over HTTP as their published packages call them, with fault switches.

    GET    /sandbox/mails      every e-mail accepted: time, provider, path, idempotency_key, recipients, body_digest,
                               message_id, subject …; `?provider=`, `?to=` and `?key=` narrow it
    GET    /sandbox/requests   every send asked for, noted before it was answered: time, provider, path,
                               idempotency_key, body_digest (the last 10,000)
    PUT    /sandbox/faults     what happens to the next answers: one fault, a list, or {"faults": [...]}; replaces all
    POST   /sandbox/faults     the same, added after those that are armed
    GET    /sandbox/faults     the faults that are still armed
    DELETE /sandbox/faults     none any more
    GET    /sandbox/webhooks   how webhooks about accepted e-mails travel, and what became of them
    PUT    /sandbox/webhooks   another habit of theirs; `courier.py` says which there are
    POST   /sandbox/webhooks   post what is held
    POST   /sandbox/incoming   a message arrives at an inbox: a `message.received` as its webhook tells it, which is
                               posted only with `?deliver=true`; answers whether AgentMail's endpoint is switched on
    DELETE /sandbox/keys       every idempotency key is forgotten, as after its window
    GET    /                   the provider's own log, for a person; `?to=` and `?provider=` narrow it
    GET    /healthz            200

A fault is a JSON object; `faults.py` says what it can do. `{"provider": "inboxili", "accept_then_silence": true}`:
the next e-mail through Inboxili is accepted, and its sender never learns it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from worker.sandbox import apis
from worker.sandbox.answers import PLAIN, end
from worker.sandbox.apis import Invalid
from worker.sandbox.courier import Courier
from worker.sandbox.faults import Faults
from worker.sandbox.incoming import Incoming
from worker.sandbox.reader import Reader
from worker.sandbox.store import Conflict, Store, digest
from worker.sandbox.switchboard import Switchboard

INBOX = "/v0/inboxes/{inbox}"


class Door:
    """Gives each request its own connection, so that an answer can be to cut it (only uvicorn shows it to us), and

    routes by the path as it was sent: a quoted slash in an id is not a slash.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["sandbox.connection"] = send.__self__.transport  # type: ignore[attr-defined]
            scope["path"] = scope["raw_path"].decode("ascii")
        await self._app(scope, receive, send)


def create(
    store: Store,
    keys: Mapping[str, str] | None = None,
    faults: Faults | None = None,
    courier: Courier | None = None,
    incoming: Incoming | None = None,
) -> ASGIApp:
    """The ASGI application. `keys`: the bearer key by provider; without one any key is taken.

    Without a courier nobody is told what became of an e-mail.
    """
    faults, incoming = faults or Faults(), incoming or Incoming()
    desk, board = Desk(store, keys or {}, faults, courier), Switchboard(store, faults, courier, incoming)
    read = Reader(store, incoming, faults, courier, desk.check_bearer)
    routes = [
        Route(f"{INBOX}/messages/send", desk.agentmail, methods=["POST"]),
        Route(f"{INBOX}/messages/{{message}}/reply", desk.agentmail, methods=["POST"]),
        Route(f"{INBOX}/messages/{{message}}/reply-all", desk.agentmail, methods=["POST"]),
        Route(f"{INBOX}/messages", read.messages),
        Route(f"{INBOX}/messages/{{message}}", read.message),
        Route("/v0/threads/{thread}", read.thread),
        Route(f"{INBOX}/threads/{{thread}}", read.thread),
        Route("/v0/webhooks", read.endpoints),
        Route("/api/v1/transactional/send", desk.inboxili, methods=["POST"]),
        Route("/sandbox/mails", board.mails),
        Route("/sandbox/requests", board.requests),
        Route("/sandbox/faults", board.switches, methods=["GET", "PUT", "POST", "DELETE"]),
        Route("/sandbox/webhooks", board.webhooks, methods=["GET", "PUT", "POST"]),
        Route("/sandbox/incoming", board.incoming, methods=["POST"]),
        Route("/sandbox/keys", board.forget_keys, methods=["DELETE"]),
        Route("/sandbox/log", lambda _: RedirectResponse("/")),
        Route("/healthz", lambda _: Response("ok")),
        Route("/", board.log),
    ]
    return Door(Starlette(routes=routes, exception_handlers={Invalid: _invalid}))


class Desk:
    """What the routes do."""

    def __init__(
        self, store: Store, bearers: Mapping[str, str], faults: Faults, courier: Courier | None
    ) -> None:
        self._store, self._bearers, self._faults, self._courier = store, bearers, faults, courier

    async def agentmail(self, request: Request) -> Response:
        key, ids = request.headers.get("idempotency-key"), request.path_params
        return await self._send(
            "agentmail",
            request,
            key,
            lambda body: apis.agentmail_message(body, ids["inbox"], ids.get("message"), key),
        )

    async def inboxili(self, request: Request) -> Response:
        return await self._send("inboxili", request, None, apis.inboxili_message)

    async def _send(
        self, provider: str, request: Request, key: str | None, read: Callable[[bytes], dict[str, Any]]
    ) -> Response:
        body, path = await request.body(), request.url.path
        self._store.saw(provider, path, key, body)
        self.check_bearer(provider, request)
        fault = self._faults.take(provider, path, body) or PLAIN
        answer = await self._accept(provider, path, key, body, read(body)) if fault.accepts else {}
        try:
            await asyncio.sleep(fault.delay_s)
        finally:  # also when the sandbox is stopped meanwhile
            if fault.accepts:
                self._store.complete(key)
        return await end(provider, request, fault, answer)

    async def _accept(
        self, provider: str, path: str, key: str | None, body: bytes, content: Mapping[str, Any]
    ) -> dict[str, Any]:
        asked = digest(path.encode() + b"\n" + body)
        try:
            known = self._store.begin(key, asked) if key else None
        except Conflict as conflict:
            raise Invalid(409, "conflict", str(conflict)) from None
        if known:
            return known
        mail = self._store.accept(provider, path, key, asked, body, content)
        if self._courier:
            await self._courier.tell(mail)
        return mail.answer

    def check_bearer(self, provider: str, request: Request) -> None:
        request.state.provider = provider
        wanted = self._bearers.get(provider)
        if wanted is not None and request.headers.get("authorization") != f"Bearer {wanted}":
            raise Invalid(401, "unauthorized", "The API key is not known.")


async def _invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, Invalid):
        raise error
    provider = getattr(request.state, "provider", "agentmail")
    return JSONResponse(apis.problem(provider, error.code, str(error)), error.status)
