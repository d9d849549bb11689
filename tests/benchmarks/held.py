"""`held-transaction`: what a backlog is worked off at while another transaction stays open from before its acceptance on.

Such a transaction keeps every dead row and every dead index entry: whatever begins at the oldest entry of a queue walks
over all that was ever claimed. The baseline is the same without it. `EVENTS=100000` makes the backlog longer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import psycopg

from tests.benchmarks.drain import EMPTY, HANDLERS
from tests.benchmarks.report import compare
from tests.benchmarks.stage import Stage, accept, wait_until

EVENTS = int(os.environ.get("EVENTS", "30000"))
LIMIT = 0.5
SNAPSHOT = b"SELECT count(*) FROM nottwice.people"
DONE = b"SELECT coalesce(sum(n), 0) FROM nottwice.counters WHERE metric = 'completed'"
DEAD = b"SELECT n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'nottwice' AND relname = 'events'"


def held_transaction(stage: Stage) -> dict[str, object]:
    ours = partial(_worked_off, stage, while_held=True)
    found = compare(
        "held-transaction",
        "events/s",
        ours,
        {"nothing held open": partial(_worked_off, stage, while_held=False)},
    )
    return found | {"limit": LIMIT, "events": EVENTS}


def _worked_off(stage: Stage, *, while_held: bool) -> float:
    with (
        stage.database() as name,
        stage.connect(name) as watch,
        held_open(stage.connect(name)) if while_held else nullcontext(),
    ):
        with stage.ledger(name) as ledger:
            accept(ledger, EVENTS)
        with stage.worker(name, HANDLERS.format(body=EMPTY)):
            began = time.perf_counter()
            ended = wait_until(lambda: completed(watch) >= EVENTS, 0.05)
    return EVENTS / (ended - began)


@contextmanager
def held_open(connection: psycopg.Connection[Any]) -> Iterator[int]:
    """A transaction with a snapshot, as a long report has one: nothing that is newer is cleaned away. Its process id."""
    with connection:
        connection.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute(SNAPSHOT)
        yield connection.info.backend_pid
        connection.execute(b"ROLLBACK")


def completed(watch: psycopg.Connection[Any]) -> int:
    """Counted where it costs the same however many there were."""
    row = watch.execute(DONE).fetchone()
    return int(row[0]) if row else 0
