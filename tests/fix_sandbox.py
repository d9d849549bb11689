"""Providers on this machine: the sandbox itself, and a server that can break every rule of HTTP."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
import uvicorn

from ledger.records import ActionLease, ClaimedAction, Email, canonical_json, digest_of
from tests.fix_receiver import NO_TLS
from worker.sandbox.courier import Courier
from worker.sandbox.faults import Faults
from worker.sandbox.incoming import Incoming
from worker.sandbox.post import Post
from worker.sandbox.server import create
from worker.sandbox.store import Store

Script = Callable[[socket.socket], None]
STARTS_WITHIN_S = 40.0


class Sandbox:
    """The sandbox provider in this process, on a port of its own, with real HTTP in between."""

    def __init__(self, store: Store, keys: dict[str, str], courier: Courier | None = None) -> None:
        self.store, self.incoming, faults = store, Incoming(), Faults()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=40, verify=NO_TLS)
        config = uvicorn.Config(
            create(store, keys, faults, courier, self.incoming),
            log_level="critical",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        post = socket.create_server(("127.0.0.1", 0))
        self.mail_url = f"smtp://127.0.0.1:{post.getsockname()[1]}"
        self._post = Post(store, faults, post, keys.get("smtp", ""))
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True
        )

    def __enter__(self) -> Sandbox:
        self._thread.start()
        self._post.__enter__()
        until(lambda: self._server.started, STARTS_WITHIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self._post.__exit__()
        self._server.should_exit = True
        self._thread.join(STARTS_WITHIN_S)
        self._listener.close()

    def faults(self, *faults: dict[str, Any]) -> None:
        """What happens to the next answers, and to no others."""
        answer = self.http.put("/sandbox/faults", json=list(faults))
        assert answer.status_code == 200, answer.text

    def forget(self) -> None:
        self.http.delete("/sandbox/faults")
        for memory in (self.store.mails, self.store.requests, self.store.keys):
            memory.clear()
        self.incoming.forget()

    @property
    def mails(self) -> list[dict[str, Any]]:
        return list(self.http.get("/sandbox/mails").json())

    @property
    def requests(self) -> list[dict[str, Any]]:
        return list(self.http.get("/sandbox/requests").json())


class RawServer:
    """Reads each request whole, keeps it, and lets a script do what it likes with the connection."""

    def __init__(self, script: Script) -> None:
        self.requests: list[bytes] = []
        self.over = threading.Event()  # set at the end of the test: a script that waits stops waiting
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> RawServer:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(40)

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._start(self._serve, self._listener.accept()[0])

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            request = _whole_request(connection)
            if request:
                self.requests.append(request)
                self._script(connection)


def _whole_request(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65_536)
        if not more:
            return received
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


def until(found: Callable[[], Any], within_s: float) -> Any:
    """Poll until something is true; returns it."""
    deadline = time.monotonic() + within_s
    while not (value := found()):
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.005)
    return value


def claimed(
    email: Email | dict[str, Any], *, key: str | None = None, reference: str = "nt-0123456789abcdef"
) -> ClaimedAction:
    """An action as the sender hands it to a provider."""
    content = canonical_json(email.content() if isinstance(email, Email) else email)
    lease = ActionLease(1, uuid4())
    return ClaimedAction(
        lease,
        "acme",
        "receipt",
        "provider",
        "account",
        "a key",
        key,
        reference,
        content,
        digest_of(content),
        0,
    )


@pytest.fixture(scope="session")
def one_sandbox() -> Iterator[Sandbox]:
    with Sandbox(
        Store(), {"agentmail": "am-key", "inboxili": "ix-key", "mailera": "ml-key", "smtp": "post-key"}
    ) as running:
        yield running


@pytest.fixture
def sandbox(one_sandbox: Sandbox) -> Sandbox:
    """The sandbox with nothing in its memory."""
    one_sandbox.forget()
    return one_sandbox


@pytest.fixture
def raw_server() -> Iterator[Callable[[Script], RawServer]]:
    """Starts a server that answers with a script; ended with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda script: stack.enter_context(RawServer(script))
