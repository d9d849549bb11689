"""What every benchmark stands on: a durable server of its own, a fresh database a round, and a worker process."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import psycopg
import sqlalchemy as sa

from ledger import inbox, schema
from ledger.database import Database
from ledger.database.copied import SETTLED
from ledger.embedded import Cluster
from ledger.records import Delivery, digest_of
from ledger.running.supervisor import answers

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
TEMPLATE = "bench_template"
BATCH = 500
WITHIN_S = 300.0

CONFIGURATION = """
[sources.shop]
kind = "generic"
namespace = "acme"
secrets = ["shop-hook"]
signature_header = "X-Signature"
key_header = "X-Key"
type_constant = "sale"

[worker]
handlers = "bench_handlers"
"""


class Stage:
    """One PostgreSQL, as durable as in earnest. Databases are made fresh and dropped, so rounds do not meet."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nottwice-bench-", dir="/tmp"))
        self.folder.chmod(0o711)
        self.cluster = Cluster(
            self.folder / "home", settings={"shared_preload_libraries": "pg_stat_statements"}
        )
        (self.folder / "home").mkdir()
        self.cluster.ensure()
        self._numbers = count(1)
        self._admin(f"CREATE DATABASE {TEMPLATE}")
        schema.migrate(self.cluster.url(database=TEMPLATE))

    def close(self) -> None:
        self.cluster.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def database(self, template: str = TEMPLATE) -> Iterator[str]:
        """The name of a fresh database, behind a checkpoint: nobody pays for what the one before left to write."""
        name = f"bench_{next(self._numbers)}"
        self._admin(f"CREATE DATABASE {name} TEMPLATE {template}")
        if template == TEMPLATE:
            with self.connect(name) as owner:
                owner.execute(SETTLED.encode())
        self._admin("CHECKPOINT")
        yield name
        self._admin(f"DROP DATABASE {name} WITH (FORCE)")

    def connect(self, database: str) -> psycopg.Connection[Any]:
        url = sa.make_url(self.cluster.url(database=database))
        return psycopg.connect(
            host=str(url.query["host"]), port=5432, user="postgres", dbname=database, autocommit=True
        )

    def _admin(self, sql: str) -> None:
        with self.connect("postgres") as admin:
            admin.execute(sql.encode())

    def peer(self, queue: str, what: str, number: int) -> dict[str, Any]:
        """What another queue made of it."""
        with self.database("template1") as name:
            host = sa.make_url(self.cluster.url()).query["host"]
            url = f"postgresql://postgres@/{name}?host={host}&port=5432"
            done = subprocess.run(
                [PEERS_PYTHON, Path(__file__).with_name("peers.py"), queue, url, what, str(number)],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                timeout=WITHIN_S,
            )
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    @contextmanager
    def ledger(self, database: str, login: str = "nottwice_receiver") -> Iterator[Database]:
        """The ledger's door to a database, as one kind of process uses it."""
        opened = Database(self.cluster.url(login, database=database), pre_ping=False)
        try:
            yield opened
        finally:
            opened.close()

    @contextmanager
    def worker(
        self, database: str, handlers: str, configuration: str = CONFIGURATION
    ) -> Iterator[psutil.Process]:
        """A worker process of the default settings with these handlers, from the moment in which it is ready."""
        home = self._home(f"{database}-worker", configuration)
        (home / "bench_handlers.py").write_text(handlers)
        environment = self._environment(home, "nottwice_worker", database)
        process = subprocess.Popen(
            [sys.executable, "-m", "worker"], env=environment, stderr=subprocess.PIPE, text=True
        )
        try:
            _until_started(process)
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(30)

    @contextmanager
    def receiver(
        self, database: str, port: int, configuration: str, **environment: str
    ) -> Iterator[psutil.Process]:
        """A receiver process with this configuration, from the moment in which it is ready."""
        home = self._home(f"{database}-receiver", configuration)
        named = environment | {"NOTTWICE_RECEIVER_PORT": str(port)}
        with (home / "receiver.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "ledger.receiver"],
                env=self._environment(home, "nottwice_receiver", database) | named,
                stderr=log,
            )
        try:
            wait_until(lambda: answers(f"http://127.0.0.1:{port}/readyz"))
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(30)

    def _home(self, name: str, configuration: str) -> Path:
        home = self.folder / f"{name}-home"
        home.mkdir()
        (home / "nottwice.toml").write_text(configuration)
        return home

    def _environment(self, home: Path, login: str, database: str) -> dict[str, str]:
        return os.environ | {
            "NOTTWICE_HOME": str(home),
            "NOTTWICE_CONFIG": str(home / "nottwice.toml"),
            "DATABASE_URL": self.cluster.url(login, database=database),
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def _until_started(process: subprocess.Popen[str]) -> None:
    """Then its log is read away, so that it never waits for a reader."""
    assert process.stderr is not None
    log, said = process.stderr, deque[str](maxlen=20)
    for line in log:
        if '"started"' in line:
            break
        said.append(line)
    else:
        raise RuntimeError(f"the worker did not start; it said:\n{''.join(said)}")
    threading.Thread(target=lambda: [None for _ in log], daemon=True).start()


def accept(ledger: Database, number: int) -> list[int]:
    """Stores that many events of the shop, some hundreds a transaction; returns their ids."""
    writer, ids = uuid4(), []
    for start in range(0, number, BATCH):
        items = [_sale(n) for n in range(start, min(start + BATCH, number))]
        for acceptance in ledger.run(lambda tx, items=items: inbox.accept(tx, items, writer=writer)):
            assert acceptance.event_id is not None
            ids.append(acceptance.event_id)
    return ids


def _sale(number: int) -> Delivery:
    key, body = uuid4().hex, json.dumps({"id": number}).encode()
    return Delivery("acme", "shop", "sale", key, digest_of(key), body, digest_of(body))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share does not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def wait_until(look: Any, pause_s: float = 0.01) -> float:
    """The moment, by the monotonic clock, in which `look()` was true."""
    deadline = time.perf_counter() + WITHIN_S
    while not look():
        if time.perf_counter() > deadline:
            raise TimeoutError
        time.sleep(pause_s)
    return time.perf_counter()


def most_mb(process: psutil.Process) -> float:
    """The most that was resident since its start."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        return float(process.memory_info().rss) / 1e6
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6
