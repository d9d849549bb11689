"""`fairness`: one noisy tenant. A has 100,000 events waiting and sends 200 requests a second; B sends five.

The worker's handler takes so long that it does no more a second than A sends: the backlog stays, and what B waits for
is its turn. Measured are B's answers (p99), the longest time from the acceptance of one of its events to its end, and
the receiver's memory.
"""

from __future__ import annotations

import hmac
import http.client
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from tests.benchmarks.report import say
from tests.benchmarks.stage import Stage, most_mb, percentile, wait_until
from tests.ports import free_ports

BACKLOG = int(os.environ.get("BACKLOG", "100000"))
SECONDS = float(os.environ.get("SECONDS", "60"))
FLOOD_PER_S, QUIET_PER_S, FLOOD_LINES = 200, 5, 4
ANSWER_LIMIT_S, WORKED_LIMIT_S, MEMORY_LIMIT_MB = 1.0, 60.0, 200
SECRET = "a benchmark's secret"
SOURCE = """
[sources.{name}]
kind = "generic"
namespace = "{name}"
secrets = ["hook"]
signature_header = "X-Signature"
key_header = "X-Key"
type_constant = "sale"
"""
CONFIGURATION = SOURCE.format(name="flood") + SOURCE.format(name="quiet")
WORKER = CONFIGURATION + '\n[worker]\nhandlers = "bench_handlers"\n'
HANDLERS = """
import time
from worker.handlers import Handlers

handlers = Handlers()
for source in ("flood", "quiet"):
    handlers.on(source, "sale")(lambda event: time.sleep(0.05)).apply(lambda tx, event, prepared, propose: None)
"""
FILL = """
WITH waiting AS (
    INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest)
    SELECT 'flood', 'flood', 'sale', 'w' || n, sha256(convert_to('w' || n, 'UTF8')), sha256('x') FROM generate_series(1, {n}) AS n
    RETURNING id)
INSERT INTO nottwice.event_contents (event_id, body) SELECT id, '{{}}' FROM waiting
"""
PENDING = b"SELECT count(*) FROM nottwice.events WHERE namespace = 'flood' AND state = 'pending'"
QUIET_LEFT = b"SELECT FROM nottwice.events WHERE namespace = 'quiet' AND state <> 'completed'"
WORKED = b"""
SELECT CAST(extract(epoch FROM ended_at - accepted_at) AS double precision) FROM nottwice.events WHERE namespace = 'quiet'
"""


@dataclass
class Sender:
    """Posts at a steady pace over one line; how long each answer took, and how many were no success."""

    port: int
    source: str
    per_s: float
    name: str
    took_s: list[float] = field(default_factory=list)
    refused: int = 0

    def run(self, until: float) -> None:
        line, began = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30), time.monotonic()
        while (now := time.monotonic()) < until:
            due = began + len(self.took_s) / self.per_s
            if due > now:
                time.sleep(due - now)
            self._post(line)
        line.close()

    def _post(self, line: http.client.HTTPConnection) -> None:
        body = json.dumps({"n": len(self.took_s), "text": "x" * 400}).encode()
        signed = hmac.new(SECRET.encode(), body, sha256).hexdigest()
        asked = time.perf_counter()
        headers = {"X-Signature": signed, "X-Key": f"{self.name} {len(self.took_s)}"}
        line.request("POST", f"/webhooks/{self.source}", body, headers)
        answer = line.getresponse()
        answer.read()
        self.took_s.append(time.perf_counter() - asked)
        self.refused += answer.status != 200


def fairness(stage: Stage) -> dict[str, object]:
    port = free_ports(1)[0]
    with stage.database() as name, stage.connect(name) as watch:
        watch.execute(FILL.format(n=BACKLOG).encode())
        watch.execute(b"ANALYZE nottwice.events, nottwice.event_contents")
        secret = {"NOTTWICE_SECRET_HOOK": SECRET}
        with (
            stage.receiver(name, port, CONFIGURATION, **secret) as receiver,
            stage.worker(name, HANDLERS, WORKER),
        ):
            floods, quiet = _send(port)
            memory_mb = round(most_mb(receiver))
            waiting = watch.execute(PENDING).fetchone()
            wait_until(lambda: watch.execute(QUIET_LEFT).rowcount == 0)
            worked = [float(row[0]) for row in watch.execute(WORKED)]
    answered, sent = percentile(quiet.took_s, 0.99), sum(len(flood.took_s) for flood in floods)
    say(f"fairness: B answered within {answered:.3f} s (p99), worked within {max(worked):.1f} s (longest)")
    return {
        "bench": "fairness",
        "ours": round(answered, 4),
        "unit": "s (p99)",
        "limit": ANSWER_LIMIT_S,
        "worked_s": {"p50": round(percentile(worked, 0.5), 3), "longest": round(max(worked), 3)},
        "worked_limit_s": WORKED_LIMIT_S,
        "receiver_mb": memory_mb,
        "memory_limit_mb": MEMORY_LIMIT_MB,
        "flood_per_s": round(sent / SECONDS, 1),
        "quiet_events": len(worked),
        "refused": quiet.refused + sum(flood.refused for flood in floods),
        "backlog": {"before": BACKLOG, "after": waiting[0] if waiting else 0},
        "load": round(os.getloadavg()[0], 2),
    }


def _send(port: int) -> tuple[list[Sender], Sender]:
    """Both at once for SECONDS."""
    floods = [Sender(port, "flood", FLOOD_PER_S / FLOOD_LINES, f"a{n}") for n in range(FLOOD_LINES)]
    quiet, until = Sender(port, "quiet", QUIET_PER_S, "b"), time.monotonic() + SECONDS
    for thread in [_started(lambda one=one: one.run(until)) for one in (*floods, quiet)]:
        thread.join()
    return floods, quiet


def _started(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
