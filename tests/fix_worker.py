"""Workers under test: events of a shop, a configuration at a twentieth of the real times, processes and their notes."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from ledger import actions, inbox
from ledger.database import Database
from ledger.records import Delivery, Email, KindRules, Proposal, digest_of
from ledger.settings import Settings, load
from tests import leases, starts
from worker import observer

WITHIN_S = 40.0  # for a machine that is busy with other tests
WRITER = uuid4()
LEASE_S, SWEEP_S, GRACE_S = 10.0, 0.5, 1.0  # no busy machine loses a lease; those of the dead run out by hand
POLL_S, PATIENCE_S = 0.02, 0.2

CONFIGURATION = """
[sources.shop]
kind = "generic"
namespace = "acme"
secrets = ["shop-hook"]
signature_header = "X-Signature"
key_header = "X-Key"

[worker]
handlers = "{handlers}"
lease_s = {lease_s}
sweep_s = {sweep_s}
grace_s = {grace_s}
poll_s = {poll_s}
patience_s = {patience_s}
retry_base_s = 0.1
{worker}

[database]
allow_unsafe = true
{more}
"""


def configured(
    folder: Path, worker: str = "", more: str = "", handlers: str = "", **durations: float
) -> Path:
    """A configuration at the tests' pace; where it is."""
    times = {"lease_s": LEASE_S, "sweep_s": SWEEP_S, "grace_s": GRACE_S, "poll_s": POLL_S}
    times |= {"patience_s": PATIENCE_S} | durations
    file = folder / "nottwice.toml"
    file.write_text(CONFIGURATION.format(handlers=handlers, worker=worker, more=more, **times))
    return file


PROVIDER = """
[providers.post]
kind = "agentmail"
base_url = "{url}"
key = "post-key"
window_s = 86400
timeout_s = {timeout_s}
"""


class Notes:
    """What a worker said: every note, and a way to wait for one."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self._changed = threading.Condition()

    def add(self, event: str, facts: dict[str, Any]) -> None:
        with self._changed:
            self.all.append({"event": event, **facts})
            self._changed.notify_all()

    def of(self, event: str, **facts: Any) -> list[dict[str, Any]]:
        return [n for n in self.all if n["event"] == event and facts.items() <= n.items()]

    def wait_for(
        self, event: str, count: int = 1, within_s: float = WITHIN_S, **facts: Any
    ) -> dict[str, Any]:
        with self._changed:
            found = self._changed.wait_for(lambda: len(self.of(event, **facts)) >= count, within_s)
        assert found, f"no {event!r} ({facts}) within {within_s} s; there was: {self.all}"
        return self.of(event, **facts)[count - 1]


class Process:
    """One `python -m worker`, ended at the end of the test."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.notes = Notes()
        self.said: list[str] = []  # lines that are no notes
        stderr, its_end = os.pipe()
        try:
            self.popen = starts.start([sys.executable, "-m", "worker"], env=environment, stderr=its_end)
        finally:
            os.close(its_end)
        self._reader = threading.Thread(target=self._read, args=[stderr], daemon=True)
        self._reader.start()

    def _read(self, stderr: int) -> None:
        with open(stderr) as lines:
            for line in lines:
                self._add(line)

    def _add(self, line: str) -> None:
        try:
            note = json.loads(line)
        except ValueError:
            self.said.append(line.rstrip())
            self.notes.add("said", {"line": line.rstrip()})
        else:
            self.notes.add(note.pop("event"), note)

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def ended(self, within_s: float = WITHIN_S) -> int:
        """Its exit code, negative for a signal."""
        code = self.popen.wait(within_s)
        self._reader.join(WITHIN_S)
        return code

    def end(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.ended()


class Workshop:
    """A database with events of the source `shop`, and what it takes to work them."""

    def __init__(self, database: Database, url: str, folder: Path) -> None:
        self.database, self.url, self.folder = database, url, folder
        self.processes: list[Process] = []

    def accept(
        self, *types: str, namespace: str = "acme", body: bytes = b"{}", lane: str | None = None
    ) -> list[int]:
        """One event for each type, in order; of one ordering key when there is a lane."""
        items = [_delivery(type_, namespace, body, lane) for type_ in types]
        with self.database.transaction() as tx:  # one at a time: within a batch they are sorted by key
            accepted = [inbox.accept(tx, [item], writer=WRITER)[0] for item in items]
        return [acceptance.event_id for acceptance in accepted if acceptance.event_id is not None]

    def run(self, sql: str, **values: Any) -> None:
        """As the owner of the database."""
        self.database.run(lambda tx: tx.execute(sql, **values))

    def rows(self, sql: str, **values: Any) -> Sequence[sa.Row[Any]]:
        return self.database.run(lambda tx: tx.all(sql, **values))

    def value(self, sql: str, **values: Any) -> Any:
        return self.rows(sql, **values)[0][0]

    def states(self) -> list[str]:
        """The events' states, in the order of acceptance."""
        return [row.state for row in self.rows("SELECT state FROM nottwice.events ORDER BY id")]

    def effects(self) -> list[str]:
        return [row.what for row in self.rows("SELECT what FROM public.effects ORDER BY what")]

    def until(self, sql: str, within_s: float = WITHIN_S) -> None:
        """Until a query answers true."""
        deadline = time.monotonic() + within_s
        while not self.value(sql):
            assert time.monotonic() < deadline, f"not within {within_s} s: {sql}; events are {self.states()}"
            time.sleep(0.01)

    def leases_run_out(self, of: Process) -> None:
        """What time does to all that one holds who is dead or stands still; the sweep was here just now."""
        self.database.run(lambda tx: leases.run_out(tx, of.popen.pid))

    def cut(self) -> None:
        """Cut every connection of a worker to this database."""
        self.run(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE usename = 'nottwice_worker' AND datname = current_database()"""
        )

    @contextmanager
    def away(self) -> Iterator[None]:
        """The database is away for workers: it takes no new connections, and theirs are cut."""
        self._admit(False)
        self.cut()
        yield
        self._admit(True)

    def _admit(self, allowed: bool) -> None:
        """The owner's connection stays open and goes on asking."""
        self.run("UPDATE pg_database SET datallowconn = :a WHERE datname = current_database()", a=allowed)

    def configure(self, worker: str = "", more: str = "", handlers: str = "", **durations: float) -> Path:
        return configured(self.folder, worker, more, handlers, **durations)

    def settings(self, **parts: Any) -> Settings:
        return load(self.configure(**parts))

    def start(
        self, handlers: str, *, fault: str = "", env: dict[str, str] | None = None, **parts: Any
    ) -> Process:
        """A worker process with these handlers (the text of a module that has `handlers` and `work(...)`)."""
        name = f"handlers_{len(self.processes)}"
        (self.folder / f"{name}.py").write_text(PRELUDE + handlers)
        registered = name if handlers else ""  # a module that registers nothing is refused
        process = Process(
            os.environ
            | {"NOTTWICE_CONFIG": str(self.configure(handlers=registered, **parts)), "DATABASE_URL": self.url}
            | {"NOTTWICE_HOME": str(self.folder), "NOTTWICE_FAULT": fault, "PYTHONDONTWRITEBYTECODE": "1"}
            | {"NOTTWICE_WORKER_NAME": f"w-{len(self.processes)}"}
            | (env or {})
        )
        self.processes.append(process)
        return process


PRELUDE = """
import os, time
from worker.handlers import Handlers, RetryLater, SetAside
from ledger.records import Email

handlers = Handlers()

def effect(tx, event):
    tx.execute("INSERT INTO public.effects (what) VALUES (:what)", what=f"{event.type} {event.id}")
"""


def _delivery(type_: str, namespace: str, body: bytes, lane: str | None) -> Delivery:
    key, ordered = uuid4().hex, None if lane is None else digest_of("ordering", lane)
    content = digest_of(body)
    return Delivery(namespace, "shop", type_, key, digest_of(key), body, content, ordering_digest=ordered)


@pytest.fixture
def workshop(
    database: Database, login_url: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workshop]:
    monkeypatch.setenv("DATABASE_URL", login_url("nottwice_worker"))
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("NOTTWICE_SECRET_POST_KEY", "am-key")
    shop = Workshop(database, login_url("nottwice_worker"), tmp_path)
    shop.run("CREATE TABLE public.effects (what text NOT NULL)")
    yield shop
    for process in shop.processes:
        process.end()
    shop.run("DROP TABLE public.effects")


@pytest.fixture
def notes() -> Iterator[Notes]:
    """What the worker in this process says."""
    heard = Notes()
    forget = observer.listen(heard.add)
    yield heard
    forget()


@pytest.fixture
def propose_one(workshop: Workshop) -> Callable[..., int]:
    """Puts one approved e-mail of the account `post` into the ledger; returns the action's id."""

    def propose(key: str = "receipt:1", **rules: Any) -> int:
        email = Email(
            to=("ada@example.com",), subject="Receipt", text="Paid.", inbox="in-1", sender="shop@example.org"
        )
        kind = KindRules("receipt", "post", "post", key_window_s=86_400.0, **rules)
        proposal = Proposal("acme", key, kind, email.content(), email.to)
        return workshop.database.run(lambda tx: actions.propose(tx, proposal)).action_id

    return propose
