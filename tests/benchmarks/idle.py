"""`idle`: what a worker costs that has nothing to do: the share of a processor core, and statements a second."""

from __future__ import annotations

import time
from functools import partial
from statistics import median

from tests.benchmarks.drain import EMPTY, HANDLERS
from tests.benchmarks.report import Round, compare
from tests.benchmarks.stage import Stage

SECONDS = 15
SETTLE_S = 5.0  # what a worker does once after its start
LIMIT_CORES = 0.01
STATEMENTS = b"""
SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
WHERE r.rolname = 'nottwice_worker' AND query NOT ILIKE ALL (ARRAY['begin%', 'commit%', 'set %'])
"""


def idle(stage: Stage) -> dict[str, object]:
    statements: list[float] = []
    peers: dict[str, Round] = {queue: partial(_peer, stage, queue) for queue in ("PgQueuer", "Procrastinate")}
    found = compare("idle", "cores", partial(_ours, stage, statements), peers, digits=5)
    return found | {"statements_per_s": round(median(statements), 2), "limit": LIMIT_CORES}


def _peer(stage: Stage, queue: str) -> float:
    return float(stage.peer(queue, "idle", SECONDS)["cores"])


def _ours(stage: Stage, statements: list[float]) -> float:
    with stage.database() as name, stage.connect(name) as watch:
        watch.execute(b"CREATE EXTENSION pg_stat_statements")
        with stage.worker(name, HANDLERS.format(body=EMPTY)) as worker:
            time.sleep(SETTLE_S)
            watch.execute(b"SELECT pg_stat_statements_reset()")
            started, used = time.perf_counter(), sum(worker.cpu_times()[:2])
            time.sleep(SECONDS)
            took_s = time.perf_counter() - started
            used = sum(worker.cpu_times()[:2]) - used
            (calls,) = watch.execute(STATEMENTS).fetchone() or (0,)
            statements.append(float(calls) / took_s)
            return used / took_s
