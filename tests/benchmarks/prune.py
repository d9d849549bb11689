"""`prune`: how long a delivery waits for its answer (p95) while 200,000 old events are stripped beside it.

The baseline is the same receiver with the same 50 requests a second and the same past, without `nottwice prune`. What
is removed is a content and a key of each: the bodies of 700 bytes, and the entries of their unique index.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from uuid import uuid4

from tests.benchmarks.accept import CONFIGURATION
from tests.benchmarks.knocks import SECRET_TEXT, delivery
from tests.benchmarks.report import compare
from tests.benchmarks.stage import Stage, percentile
from tests.ports import free_ports

PAST = int(os.environ.get("PAST", "200000"))
EVERY_S = 0.02
ALONE_S = 5.0
LIMIT_MS = 1000.0
FILL = """
WITH ended AS (
    INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, delivery_id, state, ending, due_at,
                                 ended_at, accepted_at)
    SELECT 'acme', 'mail', 'message.received', 'old ' || n, sha256(CAST('old ' || n AS bytea)), sha256(''), 'd' || n, 'completed', 'done',
           NULL, past.at, past.at
    FROM generate_series(1, {past}) AS n, LATERAL (SELECT now() - interval '400 days' + n * interval '1 s' AS at) AS past
    RETURNING id)
INSERT INTO nottwice.event_contents (event_id, body) SELECT id, decode(repeat('ab', 700), 'hex') FROM ended
"""


def prune(stage: Stage) -> dict[str, object]:
    paces: list[float] = []
    ours, alone = partial(_answers, stage, paces, prunes=True), partial(_answers, stage, paces, prunes=False)
    found = compare("prune", "ms (p95)", ours, {"without pruning": alone})
    return found | {"limit": LIMIT_MS, "past": PAST, "stripped_per_s": round(median(paces))}


def _answers(stage: Stage, paces: list[float], *, prunes: bool) -> float:
    """The 95th percentile in milliseconds; how many events a second were stripped goes to `paces`."""
    port = free_ports(1)[0]
    with stage.database() as name:
        with stage.connect(name) as connection:
            connection.execute(FILL.format(past=PAST).encode())
            connection.execute("VACUUM ANALYZE nottwice.events, nottwice.event_contents")
        with stage.receiver(name, port, CONFIGURATION, NOTTWICE_SECRET_MAIL_HOOK=SECRET_TEXT):
            if not prunes:
                ends_at = time.perf_counter() + ALONE_S
                return _asked(port, lambda: time.perf_counter() < ends_at)
            with _pruning(stage, name) as process:
                began_at = time.perf_counter()
                p95 = _asked(port, lambda: process.poll() is None)
                paces.append(PAST / (time.perf_counter() - began_at))
                assert process.returncode == 0
            return p95


@contextmanager
def _pruning(stage: Stage, name: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {
        "NOTTWICE_HOME": str(stage.folder),
        "DATABASE_URL": stage.cluster.url(database=name),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "ledger.cli", "prune"], env=environment, stdout=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.wait()


def _asked(port: int, goes_on: Callable[[], bool]) -> float:
    took_s = []
    with socket.create_connection(("127.0.0.1", port)) as line:
        while goes_on():
            request, at = delivery(uuid4().hex, 1), time.perf_counter()
            line.sendall(request)
            assert b" 2" in line.recv(65_536)[:12]
            took_s.append(time.perf_counter() - at)
            time.sleep(max(0.0, EVERY_S - took_s[-1]))
    return percentile(took_s, 0.95) * 1000
