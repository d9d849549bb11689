"""What notices cost in a house with a past: 12,000 sends with theirs, 2,000 of strangers' mail, 200 on the desk.

Plans are read twice: with fresh statistics, and with those of tables that were still empty.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledger.embedded import Cluster
from ledger.evidence import hints, notices
from ledger.views import notices as views_notices
from tests.fix_events import Ledger
from tests.fix_past import copy_of, database_with_a_past
from tests.ledger.test_plans_events import plan, rolled_back

pytestmark = pytest.mark.xdist_group("plans")

SENT, STRANGE, DESK = 12_000, 2_000, 200
TABLES = ("actions", "action_contents", "action_attempts", "messages", "notices", "evidence")

FILL = """
INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest)
VALUES ('acme', 'ix', 'delivered', 'e', sha256('e'));
INSERT INTO nottwice.actions (namespace, action_key, key_digest, kind, provider, account, reference, policy, cost,
                              content_digest, key_margin_s, evidence_s, retry_until, state, verdict, first_started_at, attempts,
                              review_since, message_id, settled_at)
SELECT 'acme', 'k' || n, sha256(convert_to('k' || n, 'UTF8')), 'receipt', 'ix', 'ix', 'nt-' || n, 'review', 'high', sha256('c'), 900,
       300, now(), CASE WHEN n > {sent} THEN 'needs_review' ELSE 'sent' END, CASE WHEN n > {sent} THEN 'nobody_knows' ELSE 'was_sent' END,
       now() - interval '1 min', 1, CASE WHEN n > {sent} THEN now() END, CASE WHEN n <= {sent} THEN '<m' || n || '>' END,
       CASE WHEN n <= {sent} THEN now() END
FROM generate_series(1, {sent} + {desk}) AS n;
INSERT INTO nottwice.action_contents (action_id, content, recipients)
SELECT id, '{{}}', ARRAY['P <p' || id % 2000 || '@example.com>'] FROM nottwice.actions;
INSERT INTO nottwice.action_attempts (action_id, number, token, worker, account, started_at, answered_at, outcome, message_id)
SELECT id, 1, gen_random_uuid(), gen_random_uuid(), 'ix', first_started_at, now(),
       CASE state WHEN 'sent' THEN 'accepted' ELSE 'unknown' END, message_id FROM nottwice.actions;
INSERT INTO nottwice.messages (account, message_id, action_id, seen_at)
SELECT 'ix', 'm' || n, CASE WHEN n <= {sent} THEN n END, now() - make_interval(secs => n % 86400)
FROM generate_series(1, {sent} + {strange}) AS n;
INSERT INTO nottwice.notices (namespace, account, message_id, recipient, recipient_digest, what, occurred_at, event_id)
SELECT 'acme', 'ix', 'm' || n, 'p' || n % 2000 || '@example.com', sha256(convert_to('p' || n % 2000, 'UTF8')), 'delivered',
       now() - make_interval(secs => CASE WHEN n % 40 = 0 THEN 5 ELSE 86400 END), 1
FROM generate_series(1, {sent} + {strange}) AS n
ON CONFLICT DO NOTHING;
INSERT INTO nottwice.evidence (action_id, source, found, points_to, proof, message_id)
SELECT id, 'Notice from ix', 'It was delivered', 'sent', true, 'm' || id FROM nottwice.actions WHERE state = 'sent';
"""


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> Iterator[Ledger]:
    with database_with_a_past(cluster, "notices") as book:
        for table in TABLES:
            book.run(f"ALTER TABLE nottwice.{table} SET (autovacuum_enabled = off)")
        book.run(FILL.format(sent=SENT, desk=DESK, strange=STRANGE))
        yield book


@pytest.fixture(scope="module", params=["analyzed", "never analyzed"])
def past(cluster: Cluster, filled: Ledger, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    with copy_of(cluster, filled, *(TABLES if request.param == "analyzed" else ())) as book:
        yield book


def test_one_send_reads_its_own_notices(past: Ledger) -> None:
    found = plan(past, views_notices.OF_ACTION, id=17, account="ix", key="m17")
    assert found.scanned_whole == set()
    assert found.pages < 40


def test_the_page_of_strange_messages_does_not_walk_the_known_ones(past: Ledger) -> None:
    found = plan(past, views_notices.UNMATCHED, seen_at=None, account="", message_id="", most=25)
    assert found.scanned_whole == set()
    assert "messages_unmatched" in found.indexes
    assert found.pages < 400


def test_our_mark_is_found_by_its_index(past: Ledger) -> None:
    found = plan(past, notices.MARKED, reference="nt-17", account="ix")
    assert found.scanned_whole == set() and found.pages < 10


def test_a_look_for_hints_reads_what_is_near_the_desk(past: Ledger) -> None:
    ids = [row[0] for row in past.rows(hints.ON_THE_DESK, since_s=hints.SINCE_S, most=hints.SENDS_MAX)]
    assert len(ids) == DESK
    fitting = plan(past, hints.FITTING, ids=ids, limit=100, before_s=hints.BEFORE_S, after_s=hints.AFTER_S)
    assert fitting.scanned_whole == set()
    assert fitting.pages < 60 * DESK
    mistaken = plan(past, hints.MISTAKEN, ids=ids, limit=100)
    assert mistaken.scanned_whole == set()
    assert mistaken.pages < 20 * DESK


def test_a_hint_is_given_in_time_and_once(past: Ledger) -> None:
    told = rolled_back(past, lambda tx: (hints.give(tx, limit=1000), hints.give(tx, limit=1000)))
    assert told[0] > 0 and told[1] == 0
