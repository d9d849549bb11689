"""Every statement that a database is asked, as it is asked: how long it took, and (where wanted) its plan.

A plan is made on the same connection, in the same transaction, under the same role and settings, right before.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

READS = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)
WRITES = re.compile(
    r"\b(INSERT INTO|UPDATE nottwice|DELETE FROM|FOR UPDATE|FOR NO KEY UPDATE)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Statement:
    """One, with the seconds until its answer began to be read; `plan` is the root of EXPLAIN (ANALYZE, BUFFERS)."""

    sql: str
    seconds: float
    plan: dict[str, Any] | None = None


@dataclass
class Watch:
    """What was asked since the beginning or the last `forget`."""

    plans: bool
    asked: list[Statement] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.asked)

    def forget(self) -> None:
        self.asked.clear()


@contextmanager
def watched(engine: sa.Engine, *, plans: bool = False) -> Iterator[Watch]:
    watch, began, plan = Watch(plans), list[float](), list[dict[str, Any] | None]()

    def before(_connection: object, cursor: Any, sql: str, parameters: Any, *_: object) -> None:
        explained = None
        if plans and READS.match(sql) and not WRITES.search(sql):
            with cursor.connection.cursor() as beside:
                beside.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", parameters)
                explained = beside.fetchone()[0][0]["Plan"]
        plan.append(explained)
        began.append(time.perf_counter())

    def after(_connection: object, _cursor: object, sql: str, *_: object) -> None:
        watch.asked.append(Statement(sql, time.perf_counter() - began.pop(), plan.pop()))

    sa.event.listen(engine, "before_cursor_execute", before)
    sa.event.listen(engine, "after_cursor_execute", after)
    try:
        yield watch
    finally:
        sa.event.remove(engine, "before_cursor_execute", before)
        sa.event.remove(engine, "after_cursor_execute", after)
