"""What the sandbox answers to questions: messages, threads, endpoints. Nothing changes by them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from worker.sandbox import lists
from worker.sandbox.answers import PLAIN, end
from worker.sandbox.apis import Invalid
from worker.sandbox.courier import Courier
from worker.sandbox.faults import Faults
from worker.sandbox.incoming import Incoming
from worker.sandbox.sends import Sends
from worker.sandbox.store import Store


class Reader:
    """What the routes answer that change nothing. A fault strikes them only when it says `reads`."""

    def __init__(
        self,
        store: Store,
        incoming: Incoming,
        faults: Faults,
        courier: Courier | None,
        check_bearer: Callable[[str, Request], None],
        sends: Sends,
    ) -> None:
        self._store, self._incoming, self._faults = store, incoming, faults
        self._courier, self._check_bearer, self._sends = courier, check_bearer, sends

    async def messages(self, request: Request) -> Response:
        found = self._of(unquote(request.path_params["inbox"]))
        return await self._answer(request, lists.messages(found, request.query_params))

    async def message(self, request: Request) -> Response:
        wanted = unquote(request.path_params["message"])
        found = [m for m in self._of(unquote(request.path_params["inbox"])) if m["message_id"] == wanted]
        return await self._answer(request, found[0] if found else None)

    async def thread(self, request: Request) -> Response:
        wanted = unquote(request.path_params["thread"])
        return await self._answer(request, lists.thread(self._store.find(provider="agentmail"), wanted))

    async def endpoints(self, request: Request) -> Response:
        courier = self._courier
        urls = courier.endpoints("agentmail") if courier else {}
        enabled = courier is None or courier.habits.enabled
        return await self._answer(request, lists.endpoints(urls, enabled=enabled, query=request.query_params))

    async def send(self, request: Request) -> Response:
        return await self._answer(request, self._sends.told(unquote(request.path_params["send"])), "mailera")

    def _of(self, inbox: str) -> list[Mapping[str, Any]]:
        mails = self._store.find(provider="agentmail")
        return [*self._incoming.of(inbox), *(lists.sent(m) for m in mails if m.sender == inbox)]

    async def _answer(
        self, request: Request, found: Mapping[str, Any] | None, provider: str = "agentmail"
    ) -> Response:
        self._check_bearer(provider, request)
        fault = self._faults.take(provider, request.url.path, b"", reads=True) or PLAIN
        await asyncio.sleep(fault.delay_s)
        if found is None and fault is PLAIN:
            raise Invalid(404, "not_found", "There is no such thing.")
        return await end(provider, request, fault, found or {})
