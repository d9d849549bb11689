"""`accept`: how many deliveries a second one receiver process makes durable, asked by 64 connections of wrk.

The baseline is `pgbench` with 64 clients on the same server: one `INSERT … ON CONFLICT` a transaction, of the same
body under the same unique key, and nothing else: no signature, no HTTP, no second table. Everybody shares the cores.
Each round takes them in turn: pgbench, the ledger called as a library, the receiver with new events, with half and
with nothing but duplicates, and with one key that another transaction holds, between two runs in which nobody does.
ROUNDS and ROUND_S make it short.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from statistics import median
from uuid import uuid4

from tests.benchmarks.knocks import CONNECTIONS, SECRET_TEXT, Found, delivery, knock, require_wrk
from tests.benchmarks.report import ROUNDS, say
from tests.benchmarks.rivals import held, library, pgbench
from tests.benchmarks.stage import Stage, most_mb
from tests.ports import free_ports

ROUND_S = float(os.environ.get("ROUND_S", "5"))
FASTEST_PER_S = 12_000  # deliveries are made ahead: so many a second are surely enough
POOL = 1_000  # events whose duplicates come again and again
OTHERS = 16  # connections beside a held key: busy, not drowned
P99_MS = 100.0
MEMORY_MB = 200.0
CONFIGURATION = """
[sources.mail]
kind = "agentmail"
namespace = "acme"
secrets = ["mail-hook"]

[database]
direct = true
"""
Taken = dict[str, list[float]]


def accept(stage: Stage) -> Iterator[dict[str, object]]:
    """One line a figure. Stops with a sentence where wrk is not installed."""
    require_wrk()
    taken: Taken = {}
    for number in range(ROUNDS):
        for name, value in _round(stage):
            taken.setdefault(name, []).append(value)
            say(f"accept, round {number + 1} of {ROUNDS}: {name} {value:,.1f}")
    yield from _lines(taken)


def _round(stage: Stage) -> Iterator[tuple[str, float]]:
    yield "pgbench", pgbench(stage, ROUND_S)
    yield "library", library(stage, ROUND_S)
    port = free_ports(1)[0]
    with stage.database() as name:
        named = {"NOTTWICE_SECRET_MAIL_HOOK": SECRET_TEXT}
        with stage.receiver(name, port, CONFIGURATION, **named) as receiver:
            for phase, deliveries in _phases():
                found = _knock(stage, port, deliveries)
                yield phase, found.per_s
                yield f"{phase} p99", found.p99_us / 1000
            yield "alone p99", _others_p99_ms(stage, port)
            with held(stage, name, port):
                yield "held p99", _others_p99_ms(stage, port)
            yield "alone p99", _others_p99_ms(stage, port)
            yield "memory", most_mb(receiver)


def _phases() -> Iterator[tuple[str, list[bytes]]]:
    yield "new", _new()
    yield "half", _half()
    pool = [delivery(uuid4().hex, 1) for _ in range(POOL)]
    yield "first of all", pool
    yield "all", pool


def _new() -> list[bytes]:
    return [delivery(uuid4().hex, 1) for _ in range(int(FASTEST_PER_S * ROUND_S))]


def _half() -> list[bytes]:
    """Every event twice, the second time a pool later."""
    keys = [uuid4().hex for _ in range(int(FASTEST_PER_S * ROUND_S / 2))]
    starts = range(0, len(keys), POOL)
    return [delivery(key, 1 + again) for at in starts for again in (0, 1) for key in keys[at : at + POOL]]


def _others_p99_ms(stage: Stage, port: int) -> float:
    return _knock(stage, port, _new(), OTHERS).p99_us / 1000


def _knock(stage: Stage, port: int, deliveries: list[bytes], connections: int = CONNECTIONS) -> Found:
    found = knock(stage.folder, port, deliveries, connections=connections, duration_s=ROUND_S)
    if found.refused or found.broken or not found.answered:
        raise RuntimeError(f"some were not accepted: {found}")
    return found


def _lines(taken: Taken) -> Iterator[dict[str, object]]:
    found = {name: median(values) for name, values in taken.items()}
    memory = {"memory_mb": round(found["memory"], 1), "memory_limit_mb": MEMORY_MB}
    fits = found["memory"] < MEMORY_MB
    for bench, ours, baseline, least in (
        ("accept", "new", "pgbench", 0.5),
        ("accept-half-duplicates", "half", "new", 0.9),
        ("accept-all-duplicates", "all", "new", 0.9),
    ):
        p99 = found[f"{ours} p99"]
        line = _line(taken, bench, "deliveries/s", ours, baseline)
        line |= {"at_least": least, "p99_ms": round(p99, 1), "p99_limit_ms": P99_MS, **memory}
        yield line | {"holds": found[ours] >= least * found[baseline] and p99 < P99_MS and fits}
    line = _line(taken, "accept-library", "events/s", "library", "pgbench") | {"at_least": 2.0}
    yield line | {"holds": found["library"] >= 2 * found["pgbench"]}
    line = _line(taken, "accept-held-key", "ms (p99 of the others)", "held p99", "alone p99") | {"below": 2.0}
    yield line | {"holds": found["held p99"] < 2 * found["alone p99"]}


def _line(taken: Taken, bench: str, unit: str, ours: str, baseline: str) -> dict[str, object]:
    mine, other = median(taken[ours]), median(taken[baseline])
    return {
        "bench": bench,
        "ours": round(mine, 1),
        "unit": unit,
        "baseline": round(other, 1),
        "ratio": round(mine / other, 3),
        "peer": baseline,
        "rounds": {name: [round(value, 1) for value in taken[name]] for name in (ours, baseline)},
        "load": round(os.getloadavg()[0], 2),
    }
