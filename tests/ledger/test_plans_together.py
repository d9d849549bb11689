"""What the review desk's lists cost with a past: 20,000 sends decided long ago, 300 that wait, three contradicted of late."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledger.embedded import Cluster
from ledger.records import Role
from ledger.views import decided, queue, together
from tests.fix_events import Ledger
from tests.fix_past import database_with_a_past
from tests.ledger.test_plans_events import plan

pytestmark = pytest.mark.xdist_group("plans of views")

PAGES_MAX = 2_500  # each of the 300 that wait is looked at, and whether somebody is asked about it
PAGE_MAX = 200  # of a queue of 300 a page looks at its own
HISTORY = {"actions", "audit"}
SENDS = """
INSERT INTO nottwice.actions (namespace, action_key, key_digest, kind, provider, account, reference, policy, cost, content_digest,
                              key_margin_s, evidence_s, retry_until, state, review_since, first_started_at, created_at, settled_at)
SELECT 'acme', 'k' || n, sha256(convert_to('k' || n, 'UTF8')), 'receipt', 'inboxili', 'inboxili', 'nt-' || n, 'review', 'high', '', 0, 0,
       at.t, s.state, CASE WHEN s.state = 'needs_review' THEN at.t END, at.t, at.t, CASE WHEN s.state = 'closed' THEN at.t END
FROM generate_series(1, 20300) AS n, LATERAL (SELECT CASE WHEN n > 20000 THEN 'needs_review' ELSE 'closed' END AS state) AS s,
     LATERAL (SELECT now() - make_interval(secs => (20300 - n) * 60 + 86400) AS t) AS at
"""
DECISIONS = """
INSERT INTO nottwice.audit (at, person_id, role, act, entity, entity_id, entity_version, outcome)
SELECT settled_at, 1, 'support', 'closed without sending', 'action', id, 1, 'done' FROM nottwice.actions WHERE state = 'closed'
"""
VARIED = "UPDATE nottwice.actions SET cost = (ARRAY['high', 'medium', 'low'])[1 + id % 3] WHERE state = 'needs_review'"
SOON = """
UPDATE nottwice.actions SET provider_key = 'key-' || id, key_window_s = 86400, key_margin_s = 900,
       first_started_at = now() - interval '23 h' - id % 4 * interval '1 day'
WHERE id IN (20100, 20101, 20102, 20103, 20204)
"""
# The order as it is told, with the rule by which a key's end is known everywhere else.
TOLD = """
SELECT id FROM (SELECT *, nottwice.key_ends(first_started_at, key_window_s, key_margin_s) AS ends FROM nottwice.actions
                WHERE state = 'needs_review') AS a
ORDER BY NOT coalesce(ends BETWEEN now() AND now() + interval '1 hour', false), array_position(ARRAY['high', 'medium', 'low'], cost),
         review_since, id
"""


@pytest.fixture(scope="module")
def past(cluster: Cluster) -> Iterator[Ledger]:
    with database_with_a_past(cluster, "together") as book:
        book.run("INSERT INTO nottwice.people (issuer, subject, name) VALUES ('local', 'ana', 'Ana')")
        book.run("SET LOCAL session_replication_role = replica;" + SENDS + ";" + DECISIONS)
        book.run("UPDATE nottwice.actions SET contradicted_at = now() WHERE id IN (7, 8, 9)")
        book.run(VARIED)
        book.run(SOON)
        book.run("ANALYZE nottwice.actions, nottwice.audit")
        yield book


def test_a_page_of_the_queue_reads_itself_and_what_presses(past: Ledger) -> None:
    for segment in queue.FOUND:
        page = queue.page(segment) + queue.ROWS
        (_, last) = past.database.run(lambda tx: queue.queue(tx, "uncertain", most=2))
        for after in (None, last.place, (True, *last.place[1:])):
            read = plan(past, page, **queue.values(after, 26))
            assert not read.scanned_whole & HISTORY and read.pages < PAGE_MAX, (segment, after, read.pages)


@pytest.mark.parametrize("most", [2, 26])
def test_the_pages_of_the_queue_are_one_list_in_its_order(past: Ledger, most: int) -> None:
    walked, after = list[int](), None
    while rows := past.database.run(
        lambda tx, after=after: queue.queue(tx, "uncertain", after=after, most=most), role=Role.VIEWER
    ):
        walked, after = [*walked, *(row.id for row in rows)], rows[-1].place
    told = [row.id for row in past.database.run(lambda tx: tx.all(TOLD))]
    assert walked == told and set(walked[:2]) == {20_100, 20_204} and len(walked) == 300


def test_what_shares_a_cause_is_found_among_what_waits(past: Ledger) -> None:
    read = plan(past, together.CAUSES, least=5, most=3)
    assert not read.scanned_whole & HISTORY and read.pages < PAGES_MAX
    (cause, *_) = past.database.run(together.causes)
    assert cause.n == 15
    values = {"provider": cause.provider, "kind": cause.kind}
    sql = "SELECT nottwice.quarter_of_an_hour(first_started_at) AS slot FROM nottwice.actions WHERE id = :id"
    slot = past.value(sql, id=cause.id)
    members = plan(past, together.MEMBERS, slot=slot, most=500, **values)
    assert not members.scanned_whole & HISTORY and members.pages < PAGES_MAX


@pytest.mark.parametrize("which", [decided.TODAY, decided.LATELY])
def test_what_was_decided_is_found_without_the_history(past: Ledger, which: str) -> None:
    values = {"days": 7} if which is decided.LATELY else {}
    read = plan(past, "SELECT count(*) AS n" + decided.DECISIONS + which, **values)
    assert not read.scanned_whole & HISTORY and read.pages < 100
    assert past.database.run(decided.many_contradicted) == 3
