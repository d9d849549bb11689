"""Where a send is taken in: its key, its fault, the e-mail that goes out, and how the answer is spelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from worker.sandbox import apis
from worker.sandbox.answers import PLAIN, end
from worker.sandbox.apis import Invalid
from worker.sandbox.courier import Courier
from worker.sandbox.faults import Fault, Faults
from worker.sandbox.sends import Sends
from worker.sandbox.store import Conflict, Store, digest


@dataclass(frozen=True, slots=True)
class Asked:
    """One request for a send."""

    provider: str
    path: str
    key: str | None
    body: bytes

    @property
    def digest(self) -> str:
        """What a repeat under the same key must have in common with it."""
        return digest(self.path.encode() + b"\n" + self.body)


class Desk:
    """What the routes do."""

    def __init__(
        self, store: Store, bearers: Mapping[str, str], faults: Faults, courier: Courier | None
    ) -> None:
        self._store, self._bearers, self._faults, self._courier = store, bearers, faults, courier
        self.sends = Sends(lambda named: any(m.message_id == named for m in store.find(provider="mailera")))

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

    async def mailera(self, request: Request) -> Response:
        key, mailbox = request.headers.get("idempotency-key"), request.path_params["mailbox"]
        return await self._send("mailera", request, key, lambda body: apis.mailera_message(body, mailbox))

    async def _send(
        self, provider: str, request: Request, key: str | None, read: Callable[[bytes], dict[str, Any]]
    ) -> Response:
        body, path = await request.body(), request.url.path
        self._store.saw(provider, path, key, body)
        self.check_bearer(provider, request)
        fault = self._faults.take(provider, path, body) or PLAIN
        asked = Asked(provider, path, key, body)
        answer = await self._dealt_with(asked, read(body), fault) if fault.is_dealt_with else {}
        try:
            await asyncio.sleep(fault.delay_s)
        finally:  # also when the sandbox is stopped meanwhile
            if fault.is_dealt_with:
                self._store.complete(key)
        return await end(provider, request, fault, answer)

    async def _dealt_with(self, asked: Asked, content: Mapping[str, Any], fault: Fault) -> dict[str, Any]:
        """The answer, be it the first or once more. Raises Invalid."""
        try:
            known = self._store.begin(asked.key, asked.digest) if asked.key else None
        except Conflict as conflict:
            code = apis.conflict(asked.provider, other=conflict.other)
            raise Invalid(409, code, str(conflict)) from None
        answer = known or await self._first(asked, content, fault)
        return self._spelled(asked.provider, answer)

    async def _first(self, asked: Asked, content: Mapping[str, Any], fault: Fault) -> dict[str, Any]:
        if fault.accepts:
            mail = self._store.accept(
                asked.provider, asked.path, asked.key, asked.digest, asked.body, content
            )
            answer = mail.answer
        else:
            mail, answer = None, self._store.answer_without_mail(asked.provider, asked.key)
        if asked.provider == "mailera":
            self.sends.begin(answer["message_id"], fault.state, fault.then)
        if mail is not None and self._courier:
            await self._courier.tell(mail)
        return answer

    def _spelled(self, provider: str, answer: Mapping[str, Any]) -> dict[str, Any]:
        match provider:
            case "inboxili":
                return {"status": "sent", "message_id": answer["message_id"]}
            case "mailera":
                return self.sends.told(answer["message_id"]) or {}
            case _:
                return dict(answer)

    def check_bearer(self, provider: str, request: Request) -> None:
        request.state.provider = provider
        wanted = self._bearers.get(provider)
        if wanted is not None and request.headers.get("authorization") != f"Bearer {wanted}":
            raise Invalid(401, "unauthorized", "The API key is not known.")
