"""What pruning reads, on a table with a past: 20,000 events and sends that are stripped, 1,000 that keep what they have.

Plans are read twice: with fresh statistics, and with those of a table that was still empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ledger.database import Transaction
from ledger.embedded import Cluster
from ledger.retention.rules import FIRST, Rule, due, page
from ledger.retention.walk import IN_ORDER, RULES
from tests.fix_events import Ledger
from tests.fix_past import copy_of, database_with_a_past
from tests.ledger.test_plans_events import Plan, walk

pytestmark = pytest.mark.xdist_group("plans")

STRIPPED, KEPT = 20_000, 1_000
PAGES_MAX = 60  # 8 kB each, of tables with some hundred
FILL = f"""
INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, state, ending, due_at, ended_at, accepted_at)
SELECT 'acme', 'shop', 't', 'k' || n, CASE WHEN n > {STRIPPED} THEN sha256(CAST('k' || n AS bytea)) END,
       CASE WHEN n > {STRIPPED} THEN sha256('') END, 'completed', 'done', NULL, past.at, past.at
FROM generate_series(1, {STRIPPED + KEPT}) AS n,
     LATERAL (SELECT now() - CASE WHEN n > {STRIPPED} THEN interval '1 day' ELSE interval '500 days' END AS at) AS past;
INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, state, due_at, ended_at, accepted_at)
SELECT 'acme', 'shop', 't', 'f' || n, sha256(CAST('f' || n AS bytea)), sha256(''), 'failed', NULL, now() - interval '500 days',
       now() - interval '500 days' FROM generate_series(1, {KEPT}) AS n;
INSERT INTO nottwice.actions (namespace, action_key, key_digest, kind, event_id, provider, account, reference, policy, cost, content_digest,
                              key_margin_s, evidence_s, retry_until, state, settled_at, content_gone)
SELECT 'acme', event_key, key_digest, 'receipt', id, 'p', 'p', '', 'review', 'high', '\\x00', 0, 0, ended_at, 'sent', ended_at,
       key_digest IS NULL FROM nottwice.events WHERE state = 'completed';
INSERT INTO nottwice.quarantine (namespace, source, body_digest, element, reason, body, settled_at, last_seen_at)
SELECT 'acme', 'shop', NULL, 0, 'r', NULL, now(), now() - interval '500 days' FROM generate_series(1, {STRIPPED});
INSERT INTO nottwice.messages (account, message_id, action_id) SELECT 'p', 'm' || id, id FROM nottwice.actions;
INSERT INTO nottwice.notices (namespace, account, message_id, recipient_digest, what, occurred_at, event_id, noted_at, names_gone)
SELECT 'acme', 'p', 'm' || id, '\\x00', 'delivered', settled_at, event_id, settled_at, content_gone FROM nottwice.actions;
DO $$ BEGIN PERFORM set_config('session_replication_role', 'replica', true); INSERT INTO nottwice.reprocess_findings
           (row_id, namespace, event_id, found, kind, action_key, key_digest, content, recipients, content_digest, found_at)
       SELECT n, 'acme', n, 'new', 'receipt', 'k', '', CASE WHEN n > {STRIPPED} THEN CAST('text' AS bytea) END, '{{}}', '',
              now() - CASE WHEN n > {STRIPPED} THEN interval '1 day' ELSE interval '500 days' END
       FROM generate_series(1, {STRIPPED + KEPT}) AS n; END $$
"""
TABLES = (
    "events",
    "event_contents",
    "actions",
    "action_contents",
    "quarantine",
    "messages",
    "notices",
    "reprocess_findings",
    "reprocess_rows",
)


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Iterator[Ledger]:
    with database_with_a_past(cluster, "retention") as book:
        for table in TABLES:
            book.run(f"ALTER TABLE nottwice.{table} SET (autovacuum_enabled = off)")
        for statement in FILL.split(";\n"):
            if statement.strip():
                book.run(statement)
        yield book


@pytest.fixture(scope="module", params=["analyzed", "never analyzed"])
def past(cluster: Cluster, filled: Ledger, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    with copy_of(cluster, filled, *(TABLES if request.param == "analyzed" else ())) as book:
        yield book


def plan(book: Ledger, sql: str, **values: Any) -> Plan:
    """Of a statement that really runs, as `Walk` runs it, and is rolled back."""
    with book.database.engine.connect() as connection:
        for _ in range(2):  # the first reads the catalog as well
            Transaction(connection).execute(IN_ORDER)
            row = Transaction(connection).one(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", **values)
            connection.rollback()
    return Plan(list(walk(row[0][0]["Plan"])))


def values(rule: Rule, kept_s: float) -> dict[str, Any]:
    return {
        "namespace": "acme",
        "kept_s": kept_s,
        "keys_s": 31 * 86_400.0,
        "once_ever": ["welcome"],
        "after_since": FIRST,
        "after_id": 0,
        "rows_max": 50,
        "bytes_max": 1_000_000,
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.what)
def test_a_turn_that_finds_nothing_reads_next_to_nothing(past: Ledger, rule: Rule) -> None:
    """Neither what is stripped already, nor what is set aside, nor what is young."""
    assert plan(past, due(rule)).pages < PAGES_MAX
    assert plan(past, page(rule, dry_run=False), **values(rule, 7 * 86_400.0)).pages < PAGES_MAX


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.what != "contents in quarantine"], ids=lambda r: r.what
)
def test_a_page_costs_what_is_on_it(past: Ledger, rule: Rule) -> None:
    """Fifty rows of a thousand, beside twenty thousand of the past: some dozen pages a row with its indexes."""
    found = plan(past, page(rule, dry_run=False), **values(rule, 3600.0))
    assert found.scanned_whole == set()
    assert found.thrown_away < 200
    assert found.pages < 50 * 100
