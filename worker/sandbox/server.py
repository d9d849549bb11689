"""A stand-in for the providers: the two APIs over HTTP as their published packages call them, with fault switches.

    GET    /sandbox/mails      every e-mail accepted: at, provider, path, idempotency_key, recipients, body_digest, message_id
    GET    /sandbox/requests   every request, noted before it was answered: at, provider, path, idempotency_key, body_digest
    PUT    /sandbox/faults     what happens to the next answers: one object, or a list of them
    GET    /sandbox/faults     the faults that are still armed
    DELETE /sandbox/faults     none any more
    GET    /                   the provider's own log, for a person

A fault: {"provider": "agentmail" | "inboxili" | "" (any), "status": 503, "delay_s": 2.0, "cut": true,
"accept_then_silence": true, "silence_s": 30, "retry_after": "3", "body": …, "count": 3, "rate": 0.5}.
`status` answers without accepting; `cut` closes the line without accepting; `accept_then_silence` accepts, waits
`silence_s` and then closes the line without an answer; `delay_s` alone delays a good answer; `body` replaces a good
answer's body (after accepting). `count` (1 when left out) is how many answers it strikes, `rate` with which chance.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from worker.sandbox.store import Fault, Store, digest

KEY_FORM = re.compile(r"[A-Za-z0-9\-._~]{1,256}")
LOG_ROWS = 200


class Cut(Response):
    """Closes the line without a byte of an answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["sandbox.line"].abort()


class Lines:
    """Hands each request its own connection, so that an answer can be to cut it. Only uvicorn shows it to us."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["sandbox.line"] = send.__self__.transport  # type: ignore[attr-defined]
        await self._app(scope, receive, send)


def create(store: Store, keys: Mapping[str, str] | None = None) -> ASGIApp:
    """The ASGI application. `keys`: the bearer key by provider; without one any key is taken."""
    keys = keys or {}

    async def agentmail(request: Request) -> Response:
        key = request.headers.get("idempotency-key")
        if key is not None and not KEY_FORM.fullmatch(key):
            return _problem(400, "validation_error", "the idempotency key is not well formed")
        return await _answer(store, "agentmail", request, key, keys.get("agentmail"))

    async def inboxili(request: Request) -> Response:
        return await _answer(store, "inboxili", request, None, keys.get("inboxili"))

    async def list_messages(request: Request) -> Response:
        rows = [
            m for m in store.mails if m.provider == "agentmail" and request.path_params["inbox"] in m.path
        ]
        messages = [{"message_id": m.message_id, "thread_id": m.thread_id, "labels": ["sent"]} for m in rows]
        return JSONResponse({"count": len(messages), "messages": messages})

    async def faults(request: Request) -> Response:
        if request.method == "PUT":
            given = await request.json()
            try:
                store.faults = [Fault(**one) for one in (given if isinstance(given, list) else [given])]
            except TypeError as error:
                return JSONResponse({"error": str(error)}, 400)
        elif request.method == "DELETE":
            store.faults = []
        return JSONResponse([asdict(fault) for fault in store.faults])

    inbox = "/v0/inboxes/{inbox:path}/messages"

    async def mails(_: Request) -> Response:
        return JSONResponse([asdict(mail) for mail in store.mails])

    async def requests(_: Request) -> Response:
        return JSONResponse(list(store.requests))

    async def log(_: Request) -> Response:
        return _log(store)

    app = Starlette(
        routes=[
            Route(f"{inbox}/send", agentmail, methods=["POST"]),
            Route(f"{inbox}/{{message:path}}/reply", agentmail, methods=["POST"]),
            Route(f"{inbox}/{{message:path}}/reply-all", agentmail, methods=["POST"]),
            Route(inbox, list_messages),
            Route("/api/v1/transactional/send", inboxili, methods=["POST"]),
            Route("/sandbox/mails", mails),
            Route("/sandbox/requests", requests),
            Route("/sandbox/faults", faults, methods=["GET", "PUT", "DELETE"]),
            Route("/", log),
        ]
    )
    return Lines(app)


async def _answer(
    store: Store, provider: str, request: Request, key: str | None, bearer: str | None
) -> Response:
    body, path = await request.body(), request.url.path
    store.saw(provider, path, key, body)
    if bearer is not None and request.headers.get("authorization") != f"Bearer {bearer}":
        return _problem(401, "unauthorized", "the key is not known")
    fault = store.fault(provider)
    if fault is not None and (fault.status or fault.cut):
        return await _fail(fault)
    try:
        content = json.loads(body)
    except ValueError:
        return _problem(400, "validation_error", "the body is not JSON")
    request_digest = digest(path.encode() + b"\n" + body)
    known = store.begin(key, request_digest)
    if isinstance(known, str):
        return _problem(409, "conflict", known)
    if fault is not None and fault.delay_s:
        await asyncio.sleep(fault.delay_s)
    answer = known or store.accept(provider, path, key, request_digest, body, content)
    if fault is not None and fault.accept_then_silence:
        await asyncio.sleep(fault.silence_s)
        return Cut()
    if fault is not None and fault.body is not None:
        return _as_is(fault.body)
    return JSONResponse(answer if provider == "agentmail" else {"status": "sent", **answer})


async def _fail(fault: Fault) -> Response:
    if fault.delay_s:
        await asyncio.sleep(fault.delay_s)
    if fault.cut:
        return Cut()
    headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
    if fault.body is not None:
        return _as_is(fault.body, fault.status, headers)
    return _problem(fault.status, "sandbox_fault", "a fault of the sandbox", headers)


def _as_is(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    if isinstance(body, str):
        return Response(body, status, headers, media_type="text/html")
    return JSONResponse(body, status, headers)


def _problem(status: int, code: str, words: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error both packages can read: AgentMail's members at the top, Inboxili's under `error`."""
    body = {"name": code, "code": code, "message": words, "error": {"code": code, "message": words}}
    return JSONResponse(body, status, headers)


STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color-scheme:light dark}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .7rem .35rem 0;border-bottom:1px solid #8884}
th{font-size:.85rem;font-weight:600}"""


def _log(store: Store) -> Response:
    """The provider's own log: what a person opens to find out whether a message went out."""
    rows = "".join(
        f"<tr><td>{html.escape(m.at[11:19])}</td><td>{html.escape(m.provider)}</td>"
        f"<td>{html.escape(', '.join(m.recipients))}</td><td>{html.escape(m.subject)}</td>"
        f"<td><code>{html.escape(m.message_id)}</code></td></tr>"
        for m in reversed(store.mails[-LOG_ROWS:])
    )
    return HTMLResponse(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Sandbox provider: its log</title><style>{STYLE}</style>"
        f"<h1>The sandbox provider's own log</h1><p>The last {LOG_ROWS} of {len(store.mails)} e-mails it accepted, newest "
        "first. What is not here did not go out.</p><table><tr><th>UTC<th>Provider<th>To<th>Subject<th>Message number</tr>"
        f"{rows}</table></html>"
    )
