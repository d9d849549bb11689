"""What a test or a person asks the sandbox itself: what it accepted and saw, its faults, its webhooks, its log."""

from __future__ import annotations

import json
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from worker.sandbox.courier import Courier, changed
from worker.sandbox.faults import Faults, parse, shown
from worker.sandbox.incoming import Incoming
from worker.sandbox.page import log_page
from worker.sandbox.store import Store


class Switchboard:
    """The routes under /sandbox/, and the log. `server.py` says what each is for."""

    def __init__(self, store: Store, faults: Faults, courier: Courier | None, incoming: Incoming) -> None:
        self._store, self._faults, self._courier, self._incoming = store, faults, courier, incoming

    async def switches(self, request: Request) -> Response:
        if request.method in ("PUT", "POST"):
            try:
                given = parse(await request.json())
            except ValueError as error:  # no JSON, or NotAFault
                return JSONResponse({"error": str(error)}, 400)
            self._faults.armed = [*(self._faults.armed if request.method == "POST" else ()), *given]
        elif request.method == "DELETE":
            self._faults.armed = []
        return JSONResponse(shown(self._faults.armed))

    async def webhooks(self, request: Request) -> Response:
        if self._courier is None:
            return JSONResponse({"error": "This sandbox has no receiver to tell."}, 404)
        if request.method == "PUT":
            try:
                self._courier.habits = changed(self._courier.habits, await request.json())
            except ValueError as error:  # no JSON, or NotAHabit
                return JSONResponse({"error": str(error)}, 400)
        elif request.method == "POST":
            await self._courier.release()
        return JSONResponse(self._courier.shown())

    async def incoming(self, request: Request) -> Response:
        body, courier = await request.body(), self._courier
        try:
            self._incoming.arrive(json.loads(body))
        except ValueError as error:  # no JSON, or NotAnEvent
            return JSONResponse({"error": str(error)}, 400)
        if courier is not None and request.query_params.get("deliver") == "true":
            await courier.pass_on("agentmail", body)
        return JSONResponse({"enabled": courier is None or courier.habits.enabled})

    async def mails(self, request: Request) -> Response:
        query = {name: request.query_params.get(name, "") for name in ("provider", "to", "key")}
        return JSONResponse([asdict(mail) for mail in self._store.find(**query)])

    async def requests(self, request: Request) -> Response:
        return JSONResponse(list(self._store.requests))

    async def forget_keys(self, request: Request) -> Response:
        return JSONResponse({"forgotten": self._store.forget_keys()})

    async def log(self, request: Request) -> Response:
        return log_page(self._store, request.query_params)
