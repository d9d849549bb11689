"""What lanes cost: one that is very long, thousands that wait for a retry, and kinds that nobody handles, on a table with a past.

Plans are read with fresh statistics, and with those of a table that was still empty, as after a flood.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from ledger import work
from ledger.embedded import Cluster
from ledger.events import claiming, order
from ledger.events.front import EVERYWHERE
from ledger.inbox import unhandled
from tests.fix_events import Ledger, worker
from tests.fix_past import copy_of, database_with_a_past
from tests.ledger.test_plans_events import inner_plan, plan, rolled_back

pytestmark = pytest.mark.xdist_group("plans")

ENDED, LONG, WAITING, HEADS, UNHANDLED = 30_000, 10_000, 3_000, 20, 2_000
PAGES_MAX = (
    1_000  # 8 kB each, most of them for the rows it writes; to walk the long lane costs ten times that
)
FILL = """
INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, ordering_digest, state, ending,
                             due_at, ended_at)
SELECT 'acme', 'shop', :type, :what || n, sha256(convert_to(:what || n, 'UTF8')), sha256('x'),
       sha256(convert_to(:lane || n % CAST(:lanes AS integer), 'UTF8')), :state, CASE WHEN :state = 'completed' THEN 'done' END,
       CASE WHEN :state = 'pending' THEN now() + make_interval(secs => :due_s) END, CASE WHEN :state = 'completed' THEN now() END
FROM generate_series(1, CAST(:n AS integer)) AS n
"""
# As claims would have done it, one after the other.
LINE_UP = """
UPDATE nottwice.events e SET waits_behind = b.ahead
FROM (SELECT id, lag(id) OVER (PARTITION BY ordering_digest ORDER BY id) AS ahead FROM nottwice.events
      WHERE state = 'pending' AND type = 'invoice.paid') AS b
WHERE e.id = b.id AND b.ahead IS NOT NULL
"""
ROWS = (
    # what, type, state, how many, of how many lanes, due in how many seconds
    ("done ", "invoice.paid", "completed", ENDED, "head ", HEADS, 0),
    ("unhandled ", "nobody's", "pending", UNHANDLED, "head ", HEADS, -60 * 86_400),
    ("long ", "invoice.paid", "pending", LONG, "long ", 1, -3600),
    ("retried ", "invoice.paid", "pending", WAITING, "waits ", WAITING, 3600),
    ("behind ", "invoice.paid", "pending", WAITING, "waits ", WAITING, -1800),
    ("head ", "invoice.paid", "pending", HEADS, "head ", HEADS, -60),
)


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Iterator[Ledger]:
    with database_with_a_past(cluster, "lanes") as book:
        for table in ("events", "event_contents"):
            book.run(f"ALTER TABLE nottwice.{table} SET (autovacuum_enabled = off)")
        for what, type_, state, n, lane, lanes, due_s in ROWS:
            book.run(FILL, what=what, type=type_, state=state, n=n, lane=lane, lanes=lanes, due_s=due_s)
        book.run(LINE_UP)
        book.run("INSERT INTO nottwice.event_contents SELECT id, '', 'x' FROM nottwice.events")
        book.run(
            "INSERT INTO nottwice.workers (id, name, handles) VALUES (gen_random_uuid(), 'w', '{shop invoice.paid}')"
        )
        yield book


@pytest.fixture(scope="module", params=["analyzed", "never analyzed"])
def past(cluster: Cluster, filled: Ledger, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """Every test rolls back what it does."""
    with copy_of(
        cluster, filled, *(("events", "event_contents") if request.param == "analyzed" else ())
    ) as book:
        yield book


def test_a_claim_meets_only_what_may_run(past: Ledger) -> None:
    found = inner_plan(
        past,
        claiming.CLAIM,
        "events",
        **EVERYWHERE,
        sources=["shop"],
        types=["invoice.paid"],
        alone=False,
        limit=10,
        worker=uuid4(),
        attempts_max=5,
        lease_s=30.0,
    )
    assert found.scanned_whole == set() and found.thrown_away < 100
    assert found.pages < PAGES_MAX


def test_it_takes_the_first_of_every_lane(past: Ledger) -> None:
    claimed = rolled_back(past, lambda tx: work.claim(tx, worker(), limit=50, lease_s=30))
    assert len(claimed) == HEADS + 1 and all(one.event.overtaken_by is None for one in claimed)


def test_an_ending_lets_the_next_one_go_by_its_number(past: Ledger) -> None:
    found = plan(
        past,
        order.LET_GO + " RETURNING 1 AS n",
        ended=[past.value("SELECT max(waits_behind) FROM nottwice.events")],
    )
    assert found.scanned_whole == set() and found.indexes == {"events_lined_up"}
    assert found.pages < 60


def test_a_look_for_forgotten_lanes_reads_what_it_looks_at(past: Ledger) -> None:
    found = plan(past, order.FORGOTTEN, after=0, limit=100)
    assert found.scanned_whole <= {"workers"} and found.pages < 100 * 20


def test_what_nobody_handles_is_found_kind_by_kind(past: Ledger) -> None:
    found = plan(
        past,
        unhandled.CLOSE,
        kept_s=31 * 86_400.0,
        limit=10,
        namespaces=["slow"],
        kept_by_namespace=[60 * 86_400.0],
    )
    assert found.scanned_whole <= {"workers"} and found.pages < 10 * 40
    closed = rolled_back(past, lambda tx: unhandled.close(tx, kept_s=31 * 86_400.0, limit=50))
    assert closed == {("shop", "nobody's"): 50}


def test_an_idle_worker_is_told_in_a_few_probes(past: Ledger) -> None:
    sql = """SELECT due, seal, hint, look FROM nottwice.wait_and_tell(CAST(:sources AS text[]), CAST(:types AS text[]),
                    CAST('{}' AS text[]), interval '0', interval '1 s')"""
    found = plan(past, sql, sources=["shop"] * 5, types=[f"other {n}" for n in range(5)])
    assert found.pages < 200
