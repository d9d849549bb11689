"""How an exchange with the sandbox ends: as asked for, or as a fault has it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from worker.sandbox import apis
from worker.sandbox.faults import Fault

PLAIN = Fault()  # no fault: accepted and answered


class Cut(Response):
    """Closes the connection without a byte of an answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["sandbox.connection"].abort()


async def end(provider: str, request: Request, fault: Fault, answer: Mapping[str, Any]) -> Response:
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
    return JSONResponse(dict(answer), status, headers)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _as_is(body: Any, status: int, headers: Mapping[str, str]) -> Response:
    if isinstance(body, str):
        return Response(body, status, headers, media_type="text/html")
    return JSONResponse(body, status, headers)
