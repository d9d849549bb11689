"""What the server does for the statements that run all day, on a table with a past: 100,000 ended, 20,000 waiting.

Plans are read twice: with fresh statistics, and with those of a table that was still empty, as after a flood.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from ledger import work, workers
from ledger.database import Transaction
from ledger.embedded import Cluster
from ledger.events import claiming, endings, recovery
from ledger.events.front import EVERYWHERE
from ledger.inbox import standing
from ledger.records import digest_of
from tests.fix_events import Ledger, delivery, worker
from tests.fix_past import copy_of, database_with_a_past

pytestmark = pytest.mark.xdist_group("plans")

FLOOD, QUIET, UNHANDLED, ENDED = 20_000, 10, 5_000, 100_000
PAGES_MAX = 400  # 8 kB each; the table has some 2,600, the pending part of it some 600

FILL = """
INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, state, ending, due_at, ended_at, accepted_at)
SELECT :namespace, 'shop', :type, :state || n, sha256(convert_to(:namespace || :type || :state || n, 'UTF8')), sha256('x'), :state,
       CASE WHEN :state = 'completed' THEN 'done' END,
       CASE WHEN :state = 'pending' THEN now() - make_interval(secs => CAST(:n AS integer) - n) END,
       CASE WHEN :state = 'completed' THEN now() END, now() - make_interval(secs => CAST(:n AS integer) - n)
FROM generate_series(1, CAST(:n AS integer)) AS n
"""


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Iterator[Ledger]:
    with database_with_a_past(cluster, "past") as book:
        fill(book)
        yield book


@pytest.fixture(scope="module", params=["analyzed", "never analyzed"])
def past(cluster: Cluster, filled: Ledger, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """A database with a past. Every test rolls back what it does."""
    with copy_of(
        cluster, filled, *(("events", "event_contents") if request.param == "analyzed" else ())
    ) as book:
        yield book


def fill(book: Ledger) -> None:
    for table in ("events", "event_contents"):
        book.run(f"ALTER TABLE nottwice.{table} SET (autovacuum_enabled = off)")
    for namespace, type_, state, n in (
        ("flood", "invoice.paid", "completed", ENDED // 2),
        ("quiet", "invoice.paid", "completed", ENDED // 2),
        ("flood", "invoice.paid", "pending", FLOOD),
        ("flood", "nobody's", "pending", UNHANDLED),
        ("quiet", "invoice.paid", "pending", QUIET),
    ):
        book.run(FILL, namespace=namespace, type=type_, state=state, n=n)
    book.run("INSERT INTO nottwice.event_contents SELECT id, '', 'x' FROM nottwice.events")


@dataclass(frozen=True)
class Plan:
    nodes: list[dict[str, Any]]

    @property
    def scanned_whole(self) -> set[str]:
        return {node["Relation Name"] for node in self.nodes if node["Node Type"] == "Seq Scan"} - {
            "counters"
        }

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}

    @property
    def pages(self) -> int:
        return int(self.nodes[0]["Shared Hit Blocks"] + self.nodes[0]["Shared Read Blocks"])

    @property
    def thrown_away(self) -> int:
        """Rows that were read and did not fit."""
        return sum(int(node.get("Rows Removed by Filter", 0) * node["Actual Loops"]) for node in self.nodes)


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from walk(child)


def plan(book: Ledger, sql: str, **values: Any) -> Plan:
    """Of a statement that really runs, and is rolled back."""
    with book.database.engine.connect() as connection:
        for _ in range(2):  # the first reads the catalog as well
            row = Transaction(connection).one(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", **values)
            connection.rollback()
    return Plan(list(walk(row[0][0]["Plan"])))


INNER = """
LOAD 'auto_explain'; SET LOCAL client_min_messages = log; SET LOCAL auto_explain.log_min_duration = 0;
SET LOCAL auto_explain.log_analyze = on; SET LOCAL auto_explain.log_buffers = on; SET LOCAL auto_explain.log_timing = off;
SET LOCAL auto_explain.log_nested_statements = on; SET LOCAL auto_explain.log_format = json;
"""


def inner_plan(book: Ledger, sql: str, table: str, **values: Any) -> Plan:
    """Of the longest statement about a table that a function runs; as the server tells it while it runs."""
    told: list[str] = []
    with book.database.engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        raw.add_notice_handler(lambda notice: told.append(notice.message_primary))
        for _ in range(2):
            told.clear()
            for setting in INNER.split(";")[:-1]:
                Transaction(connection).execute(setting)
            Transaction(connection).execute(sql, **values)
            connection.rollback()
    texts = [one[one.index("{") :] for one in told if "{" in one and f"nottwice.{table}" in one]
    return Plan(list(walk(json.loads(max(texts, key=len))["Plan"])))


def rolled_back(book: Ledger, body: Callable[[Transaction], Any]) -> Any:
    with book.database.engine.connect() as connection:
        result = body(Transaction(connection))
        connection.rollback()
    return result


def claim_values(*, alone: bool, limit: int = 10) -> dict[str, Any]:
    return {
        "sources": ["shop", "shop"],
        "types": ["invoice.paid", "message.received"],
        "alone": alone,
        "limit": limit,
        "worker": uuid4(),
        "attempts_max": claiming.ATTEMPTS_MAX,
        "lease_s": 30.0,
        **EVERYWHERE,
    }


def leases(book: Ledger, n: int = 50) -> dict[str, Any]:
    """Claims of so many events, written by hand and left in the database."""
    rows = book.rows(
        """UPDATE nottwice.events SET state = 'processing', due_at = NULL, claim_token = gen_random_uuid(),
                  claimed_by = gen_random_uuid(), claimed_at = now(), lease_until = now() + interval '1 h', attempts = 1
           WHERE id = ANY (ARRAY(SELECT id FROM nottwice.events WHERE namespace = 'flood' AND state IN ('pending', 'processing')
                                 AND type = 'invoice.paid' ORDER BY id DESC LIMIT :n))
           RETURNING id, claim_token""",
        n=n,
    )
    return {"ids": [id_ for id_, _ in rows], "tokens": [token for _, token in rows]}


def test_claim_reads_the_pending_index_and_little_of_it(past: Ledger) -> None:
    found = inner_plan(past, claiming.CLAIM, "events", **claim_values(alone=False))
    assert found.scanned_whole == set()
    assert found.thrown_away < 100 and found.pages < PAGES_MAX
    assert {"events_pending", "events_pkey"} <= found.indexes


def test_claim_for_an_idle_worker_does_not_walk_the_backlog(past: Ledger) -> None:
    """It looks for a rescued event first, and there is none."""
    found = inner_plan(past, claiming.CLAIM, "events", **claim_values(alone=True, limit=1))
    assert found.scanned_whole == set()
    assert found.thrown_away < 100 and found.pages < PAGES_MAX


def test_claim_costs_the_same_whatever_waits_in_other_lanes(past: Ledger) -> None:
    """The quiet tenant's share comes at once, and the flood's backlog is not read for it."""
    claimed = rolled_back(past, lambda tx: work.claim(tx, worker(), limit=6, lease_s=30))
    assert sorted(one.event.namespace for one in claimed) == ["flood"] * 3 + ["quiet"] * 3
    oldest = past.rows(
        "SELECT id FROM nottwice.events WHERE state = 'pending' AND namespace = 'flood' AND type = 'invoice.paid' ORDER BY due_at LIMIT 3"
    )
    assert {(one.event.id,) for one in claimed if one.event.namespace == "flood"} == set(oldest)


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_claim_takes_no_more_than_its_limit_whatever_the_statistics(past: Ledger, limit: int) -> None:
    claimed = rolled_back(past, lambda tx: work.claim(tx, worker(), limit=limit, lease_s=30, idle=True))
    assert len(claimed) == limit


@pytest.mark.parametrize("statement", [endings.COMPLETE, work.RENEW], ids=["complete", "renew"])
def test_a_group_is_found_by_its_ids(past: Ledger, statement: str) -> None:
    values = leases(past) | ({"lease_s": 30.0} if statement == work.RENEW else {"writer": uuid4()})
    explain = inner_plan if statement == endings.COMPLETE else plan
    found = explain(past, statement, **values, **({"table": "events"} if explain is inner_plan else {}))
    assert found.scanned_whole == set() and found.indexes == {"events_pkey"}
    assert found.pages < 50 * 40  # a row read, locked, written, and its place in every index


def test_one_event_is_ended_by_its_id(past: Ledger) -> None:
    held = leases(past, 1)
    found = plan(
        past,
        endings.END,
        id=held["ids"][0],
        token=held["tokens"][0],
        set_aside=False,
        ending="retry",
        error="no",
        delay_s=1.0,
        give_back=False,
        give_back_s=None,
        silent="x",
    )
    assert found.scanned_whole == set() and found.pages < 100


def test_the_sweep_reads_the_leases_index(past: Ledger) -> None:
    leases(past)
    found = plan(past, recovery.RESCUE, limit=100, silent="x", too_often="y", again="z")
    assert found.scanned_whole == set() and "events_leases" in found.indexes
    assert found.pages < PAGES_MAX


def test_a_look_for_due_work_is_a_few_probes(past: Ledger) -> None:
    """What an idle worker does ten times a second, for kinds of which nothing waits."""
    found = plan(
        past,
        "SELECT nottwice.work_is_due(CAST(:sources AS text[]), CAST(:types AS text[]), CAST('{}' AS text[])) AS due",
        sources=["shop"] * 5,
        types=[f"other {n}" for n in range(5)],
    )
    assert found.pages < 200


def test_accept_finds_what_stands_by_its_two_unique_keys(past: Ledger) -> None:
    digest = digest_of("some occurrence")
    batch = [
        delivery(f"d{n}", namespace="flood", occurrence_digest=digest if n % 2 else None) for n in range(100)
    ]
    found = plan(
        past,
        standing.FIND,
        places=list(range(100)),
        namespaces=[one.namespace for one in batch],
        key_digests=[one.key_digest for one in batch],
        occurrence_digests=[one.occurrence_digest for one in batch],
        content_digests=[one.content_digest for one in batch],
        key_rules=[one.key_rule for one in batch],
        delivery_ids=[one.delivery_id for one in batch],
    )
    assert found.scanned_whole == set()
    assert {"one_event_per_key", "one_event_per_occurrence"} <= found.indexes
    assert found.pages < 100 * 10


def test_a_look_for_rescued_events_does_not_walk_the_backlog(past: Ledger) -> None:
    found = plan(
        past,
        workers.RESCUED_IS_DUE,
        sources=["shop"] * 5,
        types=["invoice.paid", *(f"other {n}" for n in range(4))],
    )
    assert found.scanned_whole == set()
    assert found.thrown_away < 100 and found.pages < 100
