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
    DELETE /sandbox/keys       every idempotency key is forgotten, as after its window
    GET    /                   the provider's own log, for a person; `?to=` and `?provider=` narrow it
    GET    /healthz            200

A fault is a JSON object; `faults.py` says what it can do. `{"provider": "inboxili", "accept_then_silence": true}`:
the next e-mail through Inboxili is accepted, and its sender never learns it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from worker.sandbox import apis
from worker.sandbox.apis import Invalid
from worker.sandbox.courier import Courier
from worker.sandbox.faults import Fault, Faults
from worker.sandbox.store import Conflict, Store, digest
from worker.sandbox.switchboard import Switchboard

INBOX = "/v0/inboxes/{inbox}"
PLAIN = Fault()  # no fault: accepted and answered


class Cut(Response):
    """Closes the connection without a byte of an answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["sandbox.connection"].abort()


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
) -> ASGIApp:
    """The ASGI application. `keys`: the bearer key by provider; without one any key is taken.

    Without a courier nobody is told what became of an e-mail.
    """
    faults = faults or Faults()
    desk, board = Desk(store, keys or {}, faults, courier), Switchboard(store, faults, courier)
    routes = [
        Route(f"{INBOX}/messages/send", desk.agentmail, methods=["POST"]),
        Route(f"{INBOX}/messages/{{message}}/reply", desk.agentmail, methods=["POST"]),
        Route(f"{INBOX}/messages/{{message}}/reply-all", desk.agentmail, methods=["POST"]),
        Route(f"{INBOX}/messages", desk.messages),
        Route(f"{INBOX}/messages/{{message}}", desk.message),
        Route("/v0/threads/{thread}", desk.thread),
        Route(f"{INBOX}/threads/{{thread}}", desk.thread),
        Route("/api/v1/transactional/send", desk.inboxili, methods=["POST"]),
        Route("/sandbox/mails", board.mails),
        Route("/sandbox/requests", board.requests),
        Route("/sandbox/faults", board.switches, methods=["GET", "PUT", "POST", "DELETE"]),
        Route("/sandbox/webhooks", board.webhooks, methods=["GET", "PUT", "POST"]),
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
        self._check_bearer(provider, request)
        fault = self._faults.take(provider, path, body) or PLAIN
        answer = await self._accept(provider, path, key, body, read(body)) if fault.accepts else {}
        try:
            await asyncio.sleep(fault.delay_s)
        finally:  # also when the sandbox is stopped meanwhile
            if fault.accepts:
                self._store.complete(key)
        return await _end(provider, request, fault, answer)

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

    def _check_bearer(self, provider: str, request: Request) -> None:
        request.state.provider = provider
        wanted = self._bearers.get(provider)
        if wanted is not None and request.headers.get("authorization") != f"Bearer {wanted}":
            raise Invalid(401, "unauthorized", "The API key is not known.")

    async def messages(self, request: Request) -> Response:
        self._check_bearer("agentmail", request)
        inbox, mails = unquote(request.path_params["inbox"]), self._store.find(provider="agentmail")
        found = apis.agentmail_messages(mails, inbox, request.query_params)
        return JSONResponse(found)

    async def message(self, request: Request) -> Response:
        self._check_bearer("agentmail", request)
        wanted = unquote(request.path_params["message"])
        for mail in self._store.find(provider="agentmail"):
            if mail.message_id == wanted:
                return JSONResponse(apis.agentmail_item(mail))
        raise Invalid(404, "not_found", "There is no such message.")

    async def thread(self, request: Request) -> Response:
        self._check_bearer("agentmail", request)
        wanted = unquote(request.path_params["thread"])
        found = apis.agentmail_thread(self._store.find(provider="agentmail"), wanted)
        if found is None:
            raise Invalid(404, "not_found", "There is no such thread.")
        return JSONResponse(found)


async def _end(provider: str, request: Request, fault: Fault, answer: Mapping[str, Any]) -> Response:
    """How the exchange ends, once everything that happens has happened."""
    if fault.is_silent:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(_hung_up(request), fault.silence_s)
        return Cut()
    if fault.cut:
        return Cut()
    headers = fault.headers | ({"Retry-After": fault.retry_after} if fault.retry_after else {})
    status = fault.status or 200
    if fault.body is not None:
        return _as_is(fault.body, status, headers)
    if status >= 300:
        problem = apis.problem(provider, fault.code or "sandbox_fault", "A fault of the sandbox.")
        return JSONResponse(problem, status, headers)
    spelled = (
        {"status": "sent", "message_id": answer.get("message_id")} if provider == "inboxili" else dict(answer)
    )
    return JSONResponse(spelled, status, headers)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _as_is(body: Any, status: int, headers: Mapping[str, str]) -> Response:
    if isinstance(body, str):
        return Response(body, status, headers, media_type="text/html")
    return JSONResponse(body, status, headers)


async def _invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, Invalid):
        raise error
    provider = getattr(request.state, "provider", "agentmail")
    return JSONResponse(apis.problem(provider, error.code, str(error)), error.status)
