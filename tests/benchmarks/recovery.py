"""`recovery`: seconds from the moment in which a restarted PostgreSQL takes connections until work goes on at full rate.

One worker process works off a backlog, PostgreSQL is restarted beneath it, and nobody restarts the worker. Full rate is
nine tenths of the median of the seconds before. `EVENTS=60000` makes the backlog shorter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import psycopg

from tests.benchmarks.drain import EMPTY, HANDLERS
from tests.benchmarks.held import completed
from tests.benchmarks.report import ROUNDS, say
from tests.benchmarks.stage import Stage, accept, wait_until

EVENTS = int(os.environ.get("EVENTS", "200000"))
LIMIT_S = 5.0
FULL = 0.9
BEFORE_S, STEP_S = 3.0, 0.1
Sample = tuple[float, int]  # when, and how many were completed by then


def recovery(stage: Stage) -> dict[str, object]:
    rounds = [_round(stage, number) for number in range(ROUNDS)]
    found = {name: round(median(one[name] for one in rounds), 3) for name in ("took_s", "before", "after")}
    return {
        "bench": "recovery",
        "ours": found["took_s"],
        "unit": "s",
        "limit": LIMIT_S,
        "events_per_s": {"before": round(found["before"]), "after": round(found["after"])},
        "rounds": [{name: round(value, 3) for name, value in one.items()} for one in rounds],
        "load": round(os.getloadavg()[0], 2),
    }


def _round(stage: Stage, number: int) -> dict[str, float]:
    with stage.database() as name:
        with stage.ledger(name) as ledger:
            accept(ledger, EVENTS)
        with stage.worker(name, HANDLERS.format(body=EMPTY)):
            with stage.connect(name) as watch:
                wait_until(lambda: completed(watch) > 0)
                samples = sampled(watch, BEFORE_S)
            before = median(rates(samples))
            down_s, back_at = _restart(stage, name)
            with stage.connect(name) as watch:
                took_s, after = full_again(watch, before, back_at)
    say(
        f"recovery, round {number + 1} of {ROUNDS}: down for {down_s:.2f} s, full rate {took_s:.2f} s after its return"
    )
    return {"took_s": took_s, "before": before, "after": after, "down_s": down_s}


def _restart(stage: Stage, name: str) -> tuple[float, float]:
    """How long nobody could connect, and since when one can again."""
    began = time.perf_counter()
    stage.cluster.stop()
    stage.cluster.ensure()
    back_at = wait_until(lambda: stage.connect(name).close() is None)
    return back_at - began, back_at


def sampled(watch: psycopg.Connection[Any], for_s: float) -> list[Sample]:
    """What was completed, looked at every tenth of a second."""
    samples: list[Sample] = []
    until = time.perf_counter() + for_s
    while time.perf_counter() < until:
        samples.append((time.perf_counter(), completed(watch)))
        time.sleep(STEP_S)
    return samples


def rates(samples: Sequence[Sample], window_s: float = 1.0) -> list[float]:
    """Events a second over every stretch of samples that is at least so long."""
    found = []
    for at, done in samples:
        begins = [one for one in samples if one[0] <= at - window_s]
        if begins:
            found.append((done - begins[-1][1]) / (at - begins[-1][0]))
    return found


def full_again(watch: psycopg.Connection[Any], before: float, back_at: float) -> tuple[float, float]:
    """Seconds from `back_at` to the beginning of the first second at full rate, and that second's rate."""
    samples = [(back_at, completed(watch))]
    while not (full := begins_full(samples, before)):
        if samples[-1][1] >= EVENTS:
            raise RuntimeError("the backlog ended before full rate was seen; set EVENTS higher")
        time.sleep(STEP_S)
        samples.append((time.perf_counter(), completed(watch)))
    return full[0] - back_at, full[1]


def begins_full(
    samples: Sequence[Sample], before: float, window_s: float = 1.0
) -> tuple[float, float] | None:
    """When the last second began and its rate, if that is full."""
    at, done = samples[-1]
    begins = [one for one in samples if one[0] <= at - window_s]
    if not begins:
        return None
    rate = (done - begins[-1][1]) / (at - begins[-1][0])
    return (begins[-1][0], rate) if rate >= FULL * before else None
