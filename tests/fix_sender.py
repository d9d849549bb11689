"""Senders in this process: the worker's own, with the provider `post` behind real HTTP at the sandbox."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from ledger.database import Database
from ledger.records import Worker
from worker import providers
from worker.heartbeat import Heartbeat
from worker.providers import Provider
from worker.sender import Sender

if TYPE_CHECKING:  # pytest wants to be the first that imports a file of fixtures
    from tests.fix_sandbox import Sandbox
    from tests.fix_worker import Workshop

Senders = Callable[..., Sender]
LEASE_S = 10.0  # no busy machine loses one
WITHIN_S = 40.0  # for a machine that is busy with other tests
POST = """
[providers.post]
kind = "agentmail"
base_url = "{url}"
key = "post-key"
window_s = 86400
timeout_s = {timeout_s}
"""


@pytest.fixture(params=["agentmail", "mailera"])
def keyed_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind of provider that has keys, with the secret that the sandbox takes from it."""
    kind = str(request.param)
    monkeypatch.setenv("NOTTWICE_SECRET_POST_KEY", {"agentmail": "am-key", "mailera": "ml-key"}[kind])
    return kind


@pytest.fixture
def senders(workshop: Workshop, sandbox: Sandbox) -> Iterator[Senders]:
    """`senders()` makes a sender with the provider `post`, of another `kind` if need be; `provider` puts one in its place."""
    opened: list[Database] = []

    def build(
        provider: Provider | None = None, *, timeout_s: float = 1.0, kind: str = "agentmail", **worker: Any
    ) -> Sender:
        lines = "\n".join(f"{name} = {value}" for name, value in worker.items())
        more = POST.format(url=sandbox.url, timeout_s=timeout_s).replace("agentmail", kind)
        settings = workshop.settings(more=more, worker=lines, lease_s=LEASE_S)
        made: Mapping[str, Provider] = {"post": provider} if provider else providers.build_all(settings)
        database = Database(workshop.url, pool_size=8)
        opened.append(database)
        someone = Worker(uuid4(), "sender", ())
        return Sender(database, settings, made, someone, Heartbeat(database, someone, lease_s=LEASE_S))

    yield build
    for database in opened:
        database.close()


def pump_until(sender: Sender, found: Callable[[], Any], within_s: float = WITHIN_S) -> None:
    """What the daemon's loop does, until something is true."""
    deadline = time.monotonic() + within_s
    while not found():
        assert time.monotonic() < deadline, f"not within {within_s} s"
        sender.pump()
        threading.Event().wait(0.02)


def state_of(workshop: Workshop, action: int) -> str:
    return str(workshop.value("SELECT state FROM nottwice.actions WHERE id = :id", id=action))
