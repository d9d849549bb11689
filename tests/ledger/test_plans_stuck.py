"""What the Stuck work page costs on a table with a past: 100,000 ended events, and thousands stuck in every way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from ledger.database import Transaction
from ledger.embedded import Cluster
from ledger.views import events as views_events
from ledger.views import stuck as views_stuck
from ledger.views import stuck_found
from ledger.views.stuck_found import Filter, Place, Segment
from ledger.views.stuck_rows import COUNTED_MAX
from tests.fix_events import Ledger
from tests.fix_past import copy_of, database_with_a_past
from tests.ledger.test_plans_events import Plan, walk
from tests.ledger.test_plans_views import FILL, START

pytestmark = pytest.mark.xdist_group("plans of views")

PAGE_MAX, COUNT_MAX = 700, 4_000  # of 8 kB; the tables have some 5,000
BIG = {"events", "actions"}
# By their ids: half of what waits was tried, some of it is in hand, some lined up behind the first.
CHANGES = (
    """UPDATE nottwice.events SET last_error = 'x', attempts = 1, due_at = now() + id * interval '1 s' WHERE id BETWEEN 501 AND 1000""",
    """UPDATE nottwice.events SET state = 'processing', due_at = NULL, claim_token = gen_random_uuid(), claimed_by = gen_random_uuid(),
              claimed_at = now(), lease_until = now() - interval '1 s' WHERE id BETWEEN 401 AND 500""",
    """UPDATE nottwice.events SET ordering_digest = sha256(''), waits_behind = 1 WHERE id BETWEEN 101 AND 400""",
)
SENDS = """
INSERT INTO nottwice.actions (namespace, action_key, key_digest, kind, provider, account, reference, policy, cost, content_digest,
                              key_margin_s, evidence_s, retry_until, state, due_at, settled_at)
SELECT 'acme', 'k' || n, sha256(convert_to('k' || n, 'UTF8')), 'receipt', 'inboxili', 'inboxili', 'r', 'review', 'high', '', 0, 0, now(),
       s.state, CASE WHEN s.state = 'approved' THEN now() - interval '1 h' END, CASE WHEN s.state <> 'approved' THEN now() END
FROM generate_series(1, 30000) AS n,
     LATERAL (SELECT CASE WHEN n % 60 = 1 THEN 'failed' WHEN n % 60 = 2 THEN 'approved' ELSE 'sent' END AS state) AS s
"""


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Iterator[Ledger]:
    with database_with_a_past(cluster, "stuck") as book:
        for table in ("events", "actions"):
            book.run(f"ALTER TABLE nottwice.{table} SET (autovacuum_enabled = off)")
        for state, low, high in (("pending", 1, 2000), ("failed", 2001, 4000), ("completed", 4001, 104_000)):
            book.run(FILL, state=state, low=low, high=high, start=START)
        for sql in (*CHANGES, SENDS):
            book.run(sql)
        book.run(
            "INSERT INTO nottwice.workers (id, name, handles) VALUES (gen_random_uuid(), 'w-1', '{shop refund}')"
        )
        yield book


@pytest.fixture(scope="module", params=["analyzed", "never analyzed"])
def past(cluster: Cluster, filled: Ledger, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    with copy_of(cluster, filled, *(("events", "actions") if request.param == "analyzed" else ())) as book:
        yield book


def explained(book: Ledger, sql: str, values: dict[str, Any]) -> Plan:
    with book.database.engine.connect() as connection:
        for _ in range(2):  # the first reads the catalog as well
            with views_events.within(tx := Transaction(connection), 10.0):
                tx.execute(views_stuck.BY_INDEX)
                row = tx.one(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", **values)
            connection.rollback()
    return Plan(list(walk(row[0][0]["Plan"])))


def read(
    book: Ledger, template: str, kind: stuck_found.Kind, segment: Segment, most: int, **more: Any
) -> Plan:
    wanted = more.get("wanted", Filter())
    sql = template.format(found=stuck_found.found(kind, segment, wanted))
    return explained(
        book, sql, stuck_found.values(kind, wanted, more.get("after"), most, lease_s=60, waiting_s=300)
    )


LOOKED_FOR = {
    "from the start": {},
    "a source and a type": {"wanted": Filter("shop", "refund")},
    "a page deep in it": {"after": Place(START + timedelta(seconds=90), "event", 900)},
}


@pytest.mark.parametrize("name", LOOKED_FOR)
def test_a_page_reads_little(past: Ledger, name: str) -> None:
    for segment in stuck_found.SEGMENTS:
        found = read(past, views_stuck.EVENT_ROWS, "event", segment, 26, **LOOKED_FOR[name])
        assert not found.scanned_whole & BIG and found.pages < PAGE_MAX, (segment, found.pages)
    for segment in stuck_found.SENDS:
        found = read(past, views_stuck.SEND_ROWS, "send", segment, 26)
        assert not found.scanned_whole & BIG and found.pages < PAGE_MAX, (segment, found.pages)


def test_counts_read_what_is_stuck_and_no_history_and_end_where_they_may(past: Ledger) -> None:
    sql, wanted = views_stuck.SIZES.format(counts=stuck_found.counts(Filter())), Filter()
    for most, pages_max in ((COUNTED_MAX + 1, COUNT_MAX), (10, 100)):
        told = stuck_found.values("event", wanted, None, most, lease_s=60, waiting_s=300)
        found = explained(past, sql, told)
        assert not found.scanned_whole & BIG and found.pages < pages_max, (most, found.pages)


def test_what_a_page_adds_to_its_rows_is_read_by_their_ids(past: Ledger) -> None:
    ids = list(range(2001, 2026))
    for sql, values in (
        (views_stuck.BY_HAND, {"ids": ids}),
        (views_stuck.EVENT_ROWS.format(found=views_stuck.ONE), {"id": 50_000}),
    ):
        found = explained(past, sql, values)
        assert not found.scanned_whole & BIG and found.pages < PAGE_MAX, sql
