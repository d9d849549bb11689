"""A case from the field about pruning: only what is finished goes, and what arrives meanwhile is not held up: INB-06."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import pytest

from ledger.database import Database
from ledger.states import ActionState, EventState
from tests import fix_aged as aged
from tests.fix_home import UNSAFE, Home
from tests.fix_receiver import Door

EACH, PAST = 20, 4000
OPEN = ("proposed", "approved", "sending", "needs_review")
DAYS = 399  # the keys of actions are kept for 400
RATE_S = 0.02  # 50 requests a second
MEDIAN_S = 1.0  # of most; how long few wait, benchmarks/prune.py measures

Run = Callable[..., None]


@pytest.fixture
def run(door: Door) -> Any:
    database = Database(door.database_url)
    yield lambda sql, **values: database.run(lambda tx: tx.execute(sql, **values) and None)
    database.close()


def test_inb_06_pruning_keeps_what_is_unfinished(door: Door, run: Run, home: Home) -> None:
    """Of events only completed ones whose sends are settled lose anything; of actions the settled ones their content,
    none its key. While it runs, requests are answered as ever."""
    fill(run)
    home.configure(UNSAFE)
    prune = home.start("prune", DATABASE_URL=door.database_url)
    waited_s = []
    while prune.poll() is None or len(waited_s) < 50:
        began_at = time.monotonic()
        assert door.receiver.shop(json.dumps({"id": f"now {len(waited_s)}", "type": "t"}).encode()) == 202
        waited_s.append(time.monotonic() - began_at)
        time.sleep(max(0.0, RATE_S - waited_s[-1]))
    assert prune.wait() == 0
    assert median(waited_s) < MEDIAN_S
    assert door.rows("SELECT count(*) FROM nottwice.events WHERE event_key LIKE %s", "t now %") == [
        (len(waited_s),)
    ]
    assert left(door, aged.EVENTS_LEFT) == events_left()
    assert left(door, aged.ACTIONS_LEFT) == actions_left()


def fill(run: Run) -> None:
    events, actions = [state.value for state in EventState], [state.value for state in ActionState]
    run(aged.EVENTS, namespace="acme", days=DAYS, states=events, n=EACH * (len(actions) + 1))
    run(aged.EVENTS, namespace="past", days=DAYS, states=["completed"], n=PAST)
    run(aged.BODIES)
    run(aged.ACTIONS, days=DAYS, states=actions, n=EACH)
    run(aged.TEXTS)


def left(door: Door, sql: str) -> dict[tuple[str, str], tuple[int, ...]]:
    return {(namespace, state): tuple(figures) for namespace, state, *figures in door.rows(sql)}


def events_left() -> dict[tuple[str, str], tuple[int, ...]]:
    """All rows; of those that lost something, keys and bodies."""
    n, held = EACH * (len(ActionState) + 1), EACH * len(OPEN)
    whole = {("acme", state): (n, n, n) for state in ("pending", "processing", "failed")}
    return whole | {("acme", "completed"): (n, held, held), ("past", "completed"): (PAST, 0, 0)}


def actions_left() -> dict[tuple[str, str], tuple[int, ...]]:
    """All rows with all keys; the contents of those that are open."""
    return {("acme", s.value): (EACH, EACH, EACH, EACH if s in OPEN else 0) for s in ActionState}
