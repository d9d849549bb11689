"""Whatever a handler raises, its event ends as the page for handlers says, and no neighbour of it notices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ledger.database import Database
from tests.fix_worker import Workshop
from worker.handlers import Handlers, RetryLater, SetAside
from worker.trying.events import Working


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class OfMany(Exception):
    orig = property(lambda self: 1 / 0)


RAISED: dict[str, tuple[Callable[[], BaseException], str, str, str]] = {
    "system exit": (lambda: SystemExit(3), "retried", "pending", "SystemExit: 3"),
    "interrupt": (KeyboardInterrupt, "retried", "pending", "KeyboardInterrupt"),
    "generator exit": (GeneratorExit, "retried", "pending", "GeneratorExit"),
    "cancelled": (asyncio.CancelledError, "retried", "pending", "CancelledError"),
    "unreadable": (Unreadable, "retried", "pending", "Unreadable, whose words cannot be read"),
    "broken": (OfMany, "retried", "pending", "OfMany, whose words cannot be read"),
    "hostile": (
        lambda: SetAside("a\0b \ud800\nc\u202ed " + "x" * 100_000),
        "set_aside",
        "failed",
        "SetAside: a",
    ),
    "at once": (lambda: RetryLater(-5, "soon"), "retry later", "pending", "RetryLater: soon"),
    "much later": (lambda: RetryLater(1e300, "one day"), "retry later", "pending", "RetryLater: one day"),
    "not a number": (
        lambda: RetryLater(float("nan")),
        "retried",
        "pending",
        "ValueError: RetryLater takes a number",
    ),
}


def raising(make: Callable[[], BaseException]) -> Callable[..., None]:
    def part(*_: object) -> None:
        raise make()

    return part


@pytest.mark.parametrize("slow", [True, False], ids=["slow part", "apply part"])
def test_whatever_is_raised_has_one_known_end(workshop: Workshop, slow: bool) -> None:
    handlers = Handlers()
    for name, (make, *_) in RAISED.items():
        if slow:
            handlers.on("shop", name)(raising(make)).apply(lambda tx, event, made, propose: None)
        else:
            handlers.apply("shop", name)(raising(make))
    workshop.accept(*RAISED)
    database = Database(workshop.url, pool_size=2)
    working = Working(database, workshop.settings(worker="attempts_max = 2"), handlers)
    worked = {one.event.type: one for one in reversed(working.all_due(len(RAISED)))}
    database.close()
    found = workshop.rows(
        "SELECT type, state, last_error, due_at <= now() + interval '1 day' AS soon FROM nottwice.events"
    )
    rows = {row.type: row for row in found}
    for name, (_, ending, state, words) in RAISED.items():
        row = rows[name]
        assert (name, worked[name].ending, row.state) == (name, ending, state)
        assert row.last_error.startswith(words) and "\n" not in row.last_error and len(row.last_error) <= 4000
    assert rows["much later"].soon
