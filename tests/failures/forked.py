"""What a child of the zygote becomes: the worker, the receiver or the sandbox, each as its own entry would start it.

Many lives share one database and one sandbox. What keeps them apart is their number: it is the type of the event that a
life works, and names the accounts it sends by, so that no process takes up what belongs to another one.
"""

from __future__ import annotations

# Some of these are imported only when they are first used: here once, instead of in each child.
import encodings.idna  # noqa: F401
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import h11  # noqa: F401
import httpcore  # noqa: F401
import sqlalchemy.dialects.postgresql.psycopg  # noqa: F401
import uvicorn

from ledger.database import Transaction
from ledger.receiver.server import serve
from ledger.records import ClaimedAction, Email, Event, Outcome
from ledger.settings import Settings, load
from ledger.settings.tables import ActionSettings
from tests.failures.boundaries import Ledger, Observer, void
from worker import maintenance, notices, observer, providers
from worker.daemon import Daemon
from worker.handlers import Handlers, Propose
from worker.providers import Provider
from worker.sandbox.server import create
from worker.sandbox.store import Store

Further = Callable[[Transaction], object]
SENDERS = ("keyed", "keyless")
# With these the life of an action in this process is over, however it went.
LAST_WORDS = ("answered", "answered before", "send given up", "action handed back")


_built: dict[str, Provider] = {}


def prepare() -> None:
    """What all lives have in common, made ahead of them: a certificate store costs 30 ms."""
    _built.update(providers.build_all(load()))


def run(request: dict[str, Any], listener: socket.socket | None) -> int:
    """Live as what was asked for; the exit code."""
    os.environ.update(request.get("environment", {}))
    if request.get("ledger"):
        ledger = Ledger(Path(request["ledger"]))
        ledger.open()
        observer.listen(lambda note, _: ledger.said(note))
        Observer(ledger.met, request.get("road", ""), request.get("signal", 0)).install()
    return LIVES[request["life"]](request, listener)


def work(request: dict[str, Any], _: socket.socket | None) -> int:
    """A worker for some numbers. With `once` it asks itself to stop when an action has come to an end."""
    settings = numbered(load(), request["numbers"], request.get("worker", {}))
    waits_s = request.get("waits_s", 0.0)
    handlers = notices.add_to(handlers_of(request["numbers"], request.get("further", ""), waits_s), settings)
    by_name: dict[str, Provider] = {
        name: Slow(_built[name.partition("-")[0]], waits_s) for name in settings.providers
    }
    if request.get("once"):
        observer.listen(lambda event, _: stop_me() if event in LAST_WORDS else None)
    if request.get("every_duty"):
        maintenance.WAITS_S = 0.0  # what can wait for two seconds, too, however short it is
    return Daemon(settings, handlers, by_name, f"w-{os.getpid()}").run()


def stop_me() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def receive(_: dict[str, Any], listener: socket.socket | None) -> int:
    serve(load(), listener)
    return 0


def provide(_: dict[str, Any], listener: socket.socket | None) -> int:
    assert listener is not None
    config = uvicorn.Config(create(Store()), log_level="critical", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])
    return 0


LIVES: dict[str, Callable[[dict[str, Any], socket.socket | None], int]] = {
    "worker": work,
    "receiver": receive,
    "sandbox": provide,
}


@dataclass(frozen=True)
class Slow:
    """A provider whose calls begin late, so that a lease is renewed meanwhile."""

    provider: Provider
    waits_s: float

    def __getattr__(self, name: str) -> Any:
        return getattr(self.provider, name)

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        time.sleep(self.waits_s)
        return self.provider.send(action, deadline_s)


# -- a worker's world, by numbers -------------------------------------------------------------------------


def numbered(settings: Settings, numbers: Iterable[int], worker: dict[str, Any]) -> Settings:
    """The configuration with an account of each sender, and a kind of action by it, for each number."""
    accounts = {f"{sender}-{n}": settings.providers[sender] for n in numbers for sender in SENDERS}
    own = {name: given.model_copy(update={"account": name}) for name, given in accounts.items()}
    kinds = {name: ActionSettings(provider=name, evidence_s=0.0) for name in own}
    return settings.model_copy(
        update={"providers": own, "actions": kinds, "worker": settings.worker.model_copy(update=worker)}
    )


def handlers_of(numbers: Iterable[int], further: str, waits_s: float) -> Handlers:
    """`further`: how each apply part does one thing more. `waits_s`: how long each slow part takes."""
    handlers = Handlers()
    for n in numbers:
        handlers.on("shop", f"order.{n}")(partial(write, waits_s)).apply(partial(answer, FURTHER[further]))
    return handlers


def write(waits_s: float, event: Event) -> Email:
    time.sleep(waits_s)
    key = event.json()["id"]
    return Email((f"{key}@example.com",), "We have it", "Thank you.", inbox="shop", sender="shop@example.org")


def answer(more: Further, tx: Transaction, event: Event, email: Email, propose: Propose) -> None:
    key, kind = event.json()["id"], event.json()["kind"]
    tx.execute("INSERT INTO public.effects (event_key, run_by) VALUES (:key, :pid)", key=key, pid=os.getpid())
    more(tx)
    propose(kind, f"answer:{key}", email)


def by_the_driver(tx: Transaction) -> None:
    tx.connection.connection.driver_connection.execute("SELECT 'by the driver'")  # type: ignore[union-attr]


def past_the_observer(tx: Transaction) -> None:
    for _ in tx.connection.connection.driver_connection.notifies(timeout=0):  # type: ignore[union-attr]
        pass


FURTHER: dict[str, Further] = {
    "": lambda tx: None,
    "statement": lambda tx: void(tx.execute("SELECT 'a further statement'")),
    "driver": by_the_driver,
    "unseen": past_the_observer,
}
