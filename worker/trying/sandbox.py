"""The sandbox provider in this process, with real HTTP and SMTP in between."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import uvicorn

from ledger.settings import ProviderSettings
from worker.sandbox.faults import Faults
from worker.sandbox.faults import parse as faults_of
from worker.sandbox.server import create
from worker.sandbox.store import Mail, Store

STARTS_WITHIN_S = 60.0


class Sandbox:
    """Takes e-mails for every kind of provider given. Use as a context."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self._store, self._faults, self._kinds = Store(), Faults(), frozenset(kinds)
        self._socket, self._post = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
        self._stack = ExitStack()
        app = create(self._store, dict.fromkeys(self._kinds, "trial"), self._faults)
        self._server = _Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="sandbox", daemon=True
        )

    def leads_here(self, provider: ProviderSettings) -> ProviderSettings:
        """The same provider, with its calls made to this sandbox."""
        if provider.kind == "smtp":
            post = f"smtp://127.0.0.1:{self._post.getsockname()[1]}"
            return provider.model_copy(update={"base_url": post, "security": "plain", "user": "", "key": ""})
        return provider.model_copy(update={"base_url": f"http://127.0.0.1:{self._socket.getsockname()[1]}"})

    def __enter__(self) -> Self:
        self._thread.start()
        if "smtp" in self._kinds:
            from worker.sandbox.post import Post  # its package is not for those who send otherwise

            self._stack.enter_context(Post(self._store, self._faults, self._post))
        if not self._server.listens.wait(STARTS_WITHIN_S):
            raise TimeoutError("The sandbox did not start.")
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.should_exit = True
        self._thread.join(STARTS_WITHIN_S)
        self._stack.close()
        self._socket.close()
        self._post.close()

    @property
    def mails(self) -> list[Mail]:
        """What it took, oldest first."""
        return list(self._store.mails)

    def answer(self, *faults: dict[str, Any]) -> None:
        """What happens to the next sends instead of a plain acceptance; `worker/sandbox/faults.py` says what there is."""
        self._faults.armed += faults_of(list(faults))

    def forget(self) -> None:
        self._faults.armed = []
        for memory in (self._store.mails, self._store.requests, self._store.keys):
            memory.clear()


class _Server(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()
