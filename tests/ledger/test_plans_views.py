"""What the Events page costs on a table with a past: 100,000 ended events, 5,000 that live, many of them rarely seen.

A list reads some hundred pages of 8 kB, most of them for what lives, whatever is asked for; the table has some 3,500. Plans are read
with fresh statistics, and with those of a table that was still empty, as after a flood.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from ledger import views
from ledger.database import Transaction
from ledger.embedded import Cluster
from ledger.states import EventState
from ledger.views import event as views_event
from ledger.views import events as views_events
from ledger.views import found as views_found
from ledger.views import kept as views_kept
from ledger.views.found import Filter
from tests.fix_events import Ledger
from tests.fix_past import copy_of, database_with_a_past
from tests.ledger.test_plans_events import Plan, plan, walk

pytestmark = pytest.mark.xdist_group("plans of views")

PAGES_MAX = 700
FILLED = {"events", "conflicts", "quarantine"}  # an empty table may be read whole
START = datetime(2026, 11, 1, tzinfo=UTC)
# Ten events a second from START on. Of a hundred, 90 are paid invoices and 9 refunds; every thousandth is rare.
FILL = """
INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, state, ending, due_at, ended_at,
                             accepted_at, attempts, attempts_max)
SELECT 'acme', CASE WHEN n % 1000 = 7 THEN 'crm' ELSE 'shop' END, k.type,
       k.type || ' evt_' || lpad(CAST(n AS text), 7, '0'), sha256(convert_to(:state || n, 'UTF8')), sha256('x'), :state,
       CASE WHEN :state = 'completed' THEN 'done' END, CASE WHEN :state = 'pending' THEN :start + n * interval '0.1 s' END,
       CASE WHEN :state IN ('completed', 'failed') THEN :start + n * interval '0.1 s' END, :start + n * interval '0.1 s', 1, 5
FROM generate_series(CAST(:low AS integer), CAST(:high AS integer)) AS n,
     LATERAL (SELECT CASE WHEN n % 1000 = 7 THEN 'rare' WHEN n % 10 = 3 THEN 'refund' ELSE 'invoice.paid' END AS type) AS k
"""


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Iterator[Ledger]:
    with database_with_a_past(cluster, "seen") as book:
        fill(book)
        yield book


@pytest.fixture(scope="module", params=["analyzed", "never analyzed"])
def past(cluster: Cluster, filled: Ledger, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    with copy_of(
        cluster, filled, *(("events", "conflicts", "quarantine") if request.param == "analyzed" else ())
    ) as book:
        yield book


def fill(book: Ledger) -> None:
    """The oldest 2,000 still wait and the newest 3,000 too; between them, history."""
    book.run("ALTER TABLE nottwice.events SET (autovacuum_enabled = off)")
    for state, low, high in (
        ("pending", 1, 1000),
        ("failed", 1001, 2000),
        ("completed", 2001, 102_000),
        ("pending", 102_001, 105_000),
    ):
        book.run(FILL, state=state, low=low, high=high, start=START)
    book.run(
        """INSERT INTO nottwice.conflicts (event_id, content_digest, body, acknowledged_at)
           SELECT id, sha256(convert_to(CAST(n AS text), 'UTF8')), 'x', CASE WHEN id > 3000 THEN now() END
           FROM nottwice.events, generate_series(1, 2) AS n WHERE id BETWEEN 2901 AND 7900"""
    )
    book.run(
        """INSERT INTO nottwice.quarantine (namespace, source, body_digest, element, reason, body, settled_at)
           SELECT 'acme', 'shop', sha256(convert_to(CAST(n AS text), 'UTF8')), 0, 'no key', 'x', CASE WHEN n > 100 THEN now() END
           FROM generate_series(1, 10000) AS n"""
    )
    book.run(
        "INSERT INTO nottwice.workers (id, name, handles) VALUES (gen_random_uuid(), 'w-1', '{shop refund}')"
    )


def second(n: int) -> datetime:
    """When the n-th event was accepted."""
    return START + timedelta(seconds=n / 10)


LOOKED_FOR = {
    "everything": Filter(),
    "a source": Filter(source="shop"),
    "a rare source": Filter(source="crm"),
    "a type": Filter(type="refund"),
    "a rare type": Filter(type="rare"),
    "a source and a type": Filter(source="shop", type="invoice.paid"),
    "a type that never was": Filter(source="shop", type="never"),
    "done": Filter(state=EventState.COMPLETED),
    "done of a rare source": Filter(state=EventState.COMPLETED, source="crm"),
    "waiting for a worker": Filter(state=EventState.PENDING, handled=True),
    "what nobody handles": Filter(state=EventState.PENDING, handled=False),
    "a key nobody handles": Filter("evt_01", state=EventState.PENDING, handled=False),
    "in hand": Filter(state=EventState.PROCESSING),
    "set aside": Filter(state=EventState.FAILED),
    "set aside of a type": Filter(state=EventState.FAILED, type="refund"),
    "an hour": Filter(since=second(30_000), until=second(66_000)),
    "an hour of a type": Filter(type="refund", since=second(30_000), until=second(66_000)),
    "a time before all": Filter(until=second(-9)),
    "a time after all": Filter(since=second(200_000)),
    "a key": Filter("evt_0050000"),
    "a key with its type": Filter("invoice.paid evt_0050000"),
    "a beginning": Filter("evt_005"),
    "an id": Filter("50000"),
    "a key that never was": Filter("evt_9"),
}


def looked_up(book: Ledger, wanted: Filter, *, after: views_found.Place | None = None) -> Plan:
    """The plan of one page, as the page itself reads it."""
    order = "f.known, e.id" if wanted.text else "e.id DESC"
    with book.database.engine.connect() as connection:
        tx = Transaction(connection)
        for _ in range(2):  # the first reads the catalog as well
            with views_events.within(tx, 10.0):
                found = views_found.found(tx, wanted, after, 26)
                sql = views_events.ROWS.format(found=found.sql, order=order)
                row = tx.one(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", **found.values)
            connection.rollback()
    return Plan(list(walk(row[0][0]["Plan"])))


@pytest.mark.parametrize("name", LOOKED_FOR)
def test_a_page_of_the_list_reads_little(past: Ledger, name: str) -> None:
    read = looked_up(past, LOOKED_FOR[name])
    assert not read.scanned_whole & FILLED
    assert read.pages < PAGES_MAX


@pytest.mark.parametrize("name", ["everything", "a source", "done", "an hour of a type"])
def test_ui_11_a_page_deep_in_the_past_costs_no_more(past: Ledger, name: str) -> None:
    read = looked_up(past, LOOKED_FOR[name], after=("", 40_000))
    assert not read.scanned_whole & FILLED and read.pages < PAGES_MAX


def test_a_beginning_that_all_have_reads_as_many_keys_as_it_says(past: Ledger) -> None:
    """With another filter that few of them pass."""
    page = past.database.run(lambda tx: views_events.events(tx, Filter("evt_", source="crm")))
    assert page.cut and len(page.rows) < 25
    assert looked_up(past, Filter("evt_", source="crm")).pages < 3 * views_found.KEYS_LOOKED_AT_MAX


def test_the_overview_counts_through_what_lives(past: Ledger) -> None:
    read = plan(past, views.SNAPSHOT, silent_s=60, most=views_kept.COUNTED_MAX + 1)
    kept = {"conflicts", "quarantine"}  # whether there is any event at all, the first one says
    assert not read.scanned_whole & kept and read.pages < PAGES_MAX


def test_conflicts_and_quarantine_are_read_by_what_is_open(past: Ledger) -> None:
    """Of 10,000 conflicts 200 are new, of 10,000 quarantined elements 100 are open."""
    listed = views_kept.LISTED.format(which="acknowledged_at IS NULL")
    for sql in (
        views_kept.CONFLICT.format(found=listed) + " ORDER BY c.id DESC",
        views_kept.QUARANTINED + " WHERE q.settled_at IS NULL ORDER BY q.id DESC LIMIT :most",
        views_kept.SIZES,
    ):
        read = plan(past, sql, most=26)
        assert not read.scanned_whole & FILLED and read.pages < PAGES_MAX


def test_one_event_is_read_by_its_id(past: Ledger) -> None:
    ids = {"id": 50_000, "most": 200, "sends": [1], "conflicts": [1]}
    for sql in (views_event.ONE, *views_event.PARTS):
        read = plan(past, sql, **ids)
        assert not read.scanned_whole & FILLED and read.pages < 50
