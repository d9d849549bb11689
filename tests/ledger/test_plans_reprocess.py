"""What the page of runs costs beside a past: 2,000 runs that are done, of 50 rows each. No query of it counts or walks old rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ledger.embedded import Cluster
from ledger.reprocess import requests as reprocess_requests
from ledger.views import picks as views_picks
from ledger.views import reprocess as views_reprocess
from tests.fix_events import Ledger
from tests.fix_past import copy_of, database_with_a_past
from tests.ledger.test_plans_events import Plan, plan

pytestmark = pytest.mark.xdist_group("plans of views")

RUNS, ROWS = 2_000, 50
PAGES_MAX = 400  # a page of 26 runs reads some 50; the rows have some 1,500
FILLED = {"reprocess_runs", "reprocess_rows"}
FILL = (
    "INSERT INTO nottwice.people (issuer, subject, name) VALUES ('local', 'eva', 'Eva')",
    f"""INSERT INTO nottwice.reprocess_runs (mode, state, selection, why, requested_by, requested_role, requested_at, row_count,
            list_digest, needs_second, pace_per_s, under_way_max, begun_at, ended_at, rows_done, rows_skipped, rows_failed)
        SELECT 'recompute', 'done', 'x', 'x', 1, 'engineer', now() - make_interval(mins => {RUNS} - n), {ROWS},
               sha256(convert_to(CAST(n AS text), 'UTF8')), false, 1, 1, now(), now(), {ROWS}, 0, 0 FROM generate_series(1, {RUNS}) AS n""",
    f"""INSERT INTO nottwice.reprocess_rows (run_id, event_id, state, began_at, ended_at)
        SELECT r, r * {ROWS} + n, 'done', now(), now() FROM generate_series(1, {RUNS}) AS r, generate_series(1, {ROWS}) AS n""",
    """INSERT INTO nottwice.reprocess_runs (mode, state, selection, why, requested_by, requested_role, row_count, list_digest,
           needs_second, expires_at, pace_per_s, under_way_max)
       VALUES ('repeat', 'waiting', 'x', 'x', 1, 'support', 1, 'other', true, now() + interval '1 hour', 1, 1)""",
)


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Iterator[Ledger]:
    with database_with_a_past(cluster, "runs") as book:
        _fill(book)
        yield book


@pytest.fixture(scope="module", params=["analyzed", "never analyzed"])
def past(cluster: Cluster, filled: Ledger, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    with copy_of(
        cluster, filled, *(("reprocess_runs", "reprocess_rows") if request.param == "analyzed" else ())
    ) as book:
        yield book


def _fill(book: Ledger) -> None:
    for table in FILLED:
        book.run(f"ALTER TABLE nottwice.{table} SET (autovacuum_enabled = off)")
    with (
        book.database.transaction() as tx
    ):  # without their events and the record of who asked: neither is read here
        for sql in ("SET LOCAL session_replication_role = replica", *FILL):
            tx.execute(sql)


RUNS_OF, ROWS_OF = views_reprocess.RUNS, views_reprocess.ROWS
SHOWN = ROWS_OF.format(recipients=views_reprocess.NOBODY)
READ: dict[str, tuple[str, dict[str, Any]]] = {
    "the newest": (RUNS_OF.format(which=views_reprocess.NEWEST), {"before": None, "limit": 26}),
    "a page deep in the past": (RUNS_OF.format(which=views_reprocess.NEWEST), {"before": 900, "limit": 26}),
    "one run": (RUNS_OF.format(which=views_reprocess.ONE), {"id": 1_000, "limit": 1}),
    "those that wait": (RUNS_OF.format(which=views_reprocess.WAITING), {"limit": 20}),
    "how many are open": (views_reprocess.OPEN, {}),
    "rows of an old run": (SHOWN, {"run_id": 1_000, "after": 0, "limit": 26}),
    "whether a list is open": (reprocess_requests.OPEN, {"digest": b"other", "person": 1}),
    "the last run of a list": (reprocess_requests.LAST_OF_LIST, {"digest": b"other"}),
    "what was found of an event": (views_picks.FOUND, {"events": [60_000], "most": 25}),
}


@pytest.mark.parametrize("name", READ)
def test_a_query_of_the_page_of_runs_reads_little(past: Ledger, name: str) -> None:
    sql, values = READ[name]
    read: Plan = plan(past, sql, **values)
    assert not read.scanned_whole & FILLED, name
    assert read.pages < PAGES_MAX, (name, read.pages)
