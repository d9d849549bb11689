"""`pickup`: how long an event waits for an idle worker, from its commit to the beginning of its handler (p95).

The others are told by NOTIFY, which needs a connection of its own and no transaction pooler. We look ten times a
second inside one statement, so ours must be judged against what a person notices: 250 ms.
"""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path

from tests.benchmarks.report import Round, compare
from tests.benchmarks.stage import Stage, accept, percentile, wait_until

EVENTS = 60
LIMIT_S = 0.25
HANDLERS = """
import os, time
from worker.handlers import Handlers

handlers = Handlers()

@handlers.on("shop", "sale")
def sale(event):
    with open({path!r}, "a") as seen:
        seen.write(f"{{event.id}} {{time.perf_counter()}}\\n")

@sale.apply
def done(tx, event, prepared, propose):
    pass
"""


def pickup(stage: Stage) -> dict[str, object]:
    peers: dict[str, Round] = {queue: partial(_peer, stage, queue) for queue in ("PgQueuer", "Procrastinate")}
    return compare("pickup", "s (p95)", partial(_ours, stage), peers) | {"limit": LIMIT_S}


def _peer(stage: Stage, queue: str) -> float:
    return percentile(stage.peer(queue, "pickup", EVENTS)["waited_s"], 0.95)


def _ours(stage: Stage) -> float:
    """One clock serves both processes: CLOCK_MONOTONIC is the machine's."""
    with stage.database() as name, stage.ledger(name) as ledger:
        path = stage.folder / f"{name}-seen"
        path.touch()
        with stage.worker(name, HANDLERS.format(path=str(path))):
            stored = {}
            for _ in range(EVENTS):
                time.sleep(random.uniform(0.05, 0.35))
                (event_id,) = accept(ledger, 1)
                stored[event_id] = time.perf_counter()
                wait_until(lambda event_id=event_id: event_id in _seen(path), 0.02)
        seen = _seen(path)
        return percentile([max(0.0, seen[event_id] - at) for event_id, at in stored.items()], 0.95)


def _seen(path: Path) -> dict[int, float]:
    lines = [line.split() for line in path.read_text().splitlines() if line.count(" ") == 1]
    return {int(event_id): float(at) for event_id, at in lines}
