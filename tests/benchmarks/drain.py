"""`drain` and `drain-effect`: a backlog, one worker process, until the last event is completed.

Ours commits each event's row and its fenced completion together; the others' rows and completions are apart.
"""

from __future__ import annotations

import time
from functools import partial

from tests.benchmarks.report import Round, compare
from tests.benchmarks.stage import Stage, accept, wait_until

EVENTS = 10_000
PEER_JOBS = {"PgQueuer": 10_000, "Procrastinate": 2_000}  # a rate; the slower one needs fewer to show it
BEFORE = (
    "CREATE TABLE public.effects (key text PRIMARY KEY); GRANT INSERT ON public.effects TO nottwice_worker"
)
# Counted in the completions' own transactions, so that whoever watches reads a row and not the events.
COMPLETED = b"SELECT coalesce(sum(n), 0) AS n FROM nottwice.counters WHERE metric = 'completed'"
HANDLERS = """
from worker.handlers import Handlers

handlers = Handlers()

@handlers.apply("shop", "sale")
def sale(tx, event, propose):
    {body}
"""
EMPTY = "pass"
EFFECT = 'tx.execute("INSERT INTO public.effects VALUES (:key)", key=event.event_key)'


def drain(stage: Stage) -> dict[str, object]:
    return _compare(stage, "drain", EMPTY)


def drain_effect(stage: Stage) -> dict[str, object]:
    return _compare(stage, "drain-effect", EFFECT)


def _compare(stage: Stage, what: str, body: str) -> dict[str, object]:
    peers: dict[str, Round] = {
        queue: partial(_peer, stage, queue, what, jobs) for queue, jobs in PEER_JOBS.items()
    }
    found = compare(what, "events/s", partial(_ours, stage, body), peers)
    return found | {"events": EVENTS, "peer_jobs": PEER_JOBS}


def _peer(stage: Stage, queue: str, what: str, jobs: int) -> float:
    return float(stage.peer(queue, what, jobs)["per_s"])


def _ours(stage: Stage, body: str) -> float:
    with stage.database() as name, stage.connect(name) as watch:
        watch.execute(BEFORE.encode())
        with stage.ledger(name) as ledger:
            accept(ledger, EVENTS)
        with stage.worker(name, HANDLERS.format(body=body)):
            started = time.perf_counter()
            ended = wait_until(lambda: watch.execute(COMPLETED).fetchone() == (EVENTS,))
        return EVENTS / (ended - started)
