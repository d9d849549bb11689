"""The lists of the Events page against a plain scan, page after page; one event's story; what roles see of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from ledger.database import Database
from ledger.errors import TooSlow
from ledger.records import Role
from ledger.states import EventState
from ledger.views import event as views_event
from ledger.views import events as views_events
from ledger.views import kept as views_kept
from ledger.views.found import Filter
from tests.fix_events import Ledger
from tests.fix_seed import House
from tests.fix_story import told

START = datetime(2026, 11, 1, tzinfo=UTC)
FILL = """
INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, content_digest, state, ending, due_at, ended_at,
                             accepted_at, claim_token, claimed_by, claimed_at, lease_until)
SELECT 'acme', k.source, k.type, k.type || ' evt_' || lpad(CAST(n AS text), 4, '0'), sha256(convert_to('x' || n, 'UTF8')), sha256('x'),
       k.state, CASE WHEN k.state = 'completed' THEN 'done' END, CASE WHEN k.state = 'pending' THEN :start END,
       CASE WHEN k.state IN ('completed', 'failed') THEN :start END, :start + n * interval '1 min',
       CASE WHEN k.state = 'processing' THEN gen_random_uuid() END, CASE WHEN k.state = 'processing' THEN gen_random_uuid() END,
       CASE WHEN k.state = 'processing' THEN :start END, CASE WHEN k.state = 'processing' THEN now() + interval '1 h' END
FROM generate_series(1, 200) AS n,
     LATERAL (SELECT CASE WHEN n % 50 = 7 THEN 'crm' ELSE 'shop' END AS source,
                     CASE WHEN n % 10 = 3 THEN 'refund' WHEN n % 50 = 7 THEN 'ré ñ' ELSE 'invoice.paid' END AS type,
                     (ARRAY['completed', 'pending', 'completed', 'completed', 'failed', 'completed', 'processing'])[1 + n % 7]
                     AS state) AS k
"""
SCAN = """
SELECT id FROM nottwice.events
WHERE (:source = '' OR source = :source) AND (:type = '' OR type = :type) AND (:state = '' OR state = :state)
  AND (CAST(:since AS timestamptz) IS NULL OR accepted_at >= :since) AND (CAST(:until AS timestamptz) IS NULL OR accepted_at < :until)
  AND (:text = '' OR CAST(id AS text) = ltrim(:text, '#') OR starts_with(event_key, :text) OR starts_with(event_key, type || ' ' || :text))
ORDER BY CASE WHEN :text <> '' THEN substr(event_key, length(type) + 2) COLLATE "C" END, id * CASE WHEN :text = '' THEN -1 ELSE 1 END
"""
WANTED = {
    "everything": Filter(),
    "a source": Filter(source="shop"),
    "a source of few": Filter(source="crm"),
    "a type": Filter(type="refund"),
    "a type with letters of its own": Filter(type="ré ñ"),
    "both": Filter(source="shop", type="refund"),
    "none such": Filter(source="nobody"),
    "waiting": Filter(state=EventState.PENDING),
    "in hand": Filter(state=EventState.PROCESSING),
    "done": Filter(state=EventState.COMPLETED, source="shop"),
    "set aside": Filter(state=EventState.FAILED, type="invoice.paid"),
    "an hour": Filter(since=START + timedelta(minutes=30), until=START + timedelta(minutes=90)),
    "to the second": Filter(since=START + timedelta(minutes=30, seconds=1), until=START + timedelta(minutes=31, seconds=1)),
    "a day of a type": Filter(type="refund", until=START + timedelta(days=1)),
    "a key": Filter("evt_0123"),
    "a key with its type": Filter("refund evt_0123"),
    "a type that is part of a key": Filter("refund evt_"),
    "a beginning": Filter("evt_01"),
    "all beginnings": Filter("evt_"),
    "a beginning of a state": Filter("evt_", state=EventState.FAILED),
    "a beginning of a source": Filter("evt_", source="crm"),
    "a number": Filter("#123"),
    "a percent sign is no pattern": Filter("evt%"),
}  # fmt: skip


@pytest.fixture
def filled(book: Ledger) -> Ledger:
    book.run(FILL, start=START)
    return book


@pytest.mark.parametrize("name", WANTED)
def test_pages_together_are_what_a_scan_finds(filled: Ledger, name: str) -> None:
    wanted = WANTED[name]
    values = {member: getattr(wanted, member) for member in ("text", "source", "type", "since", "until")}
    expected = [
        id_ for (id_,) in filled.rows(SCAN, **values, state=wanted.state.value if wanted.state else "")
    ]
    seen: list[int] = []
    place = None
    while True:
        page = filled.database.run(lambda tx, at=place: views_events.events(tx, wanted, after=at, most=30))  # type: ignore[misc]
        seen += [row.id for row in page.rows]
        if not page.more:
            break
        place = page.rows[-1].place
    assert seen == expected and not page.cut
    assert filled.database.run(lambda tx: views_events.count(tx, wanted)) == len(expected)


def test_a_page_stands_while_others_arrive(filled: Ledger) -> None:
    first = filled.database.run(lambda tx: views_events.events(tx, Filter(), most=50))
    filled.stored("new")
    second = filled.database.run(
        lambda tx: views_events.events(tx, Filter(), after=first.rows[-1].place, most=50)
    )
    assert second.rows[0].id == first.rows[-1].id - 1


def test_what_takes_too_long_is_stopped(book: Ledger) -> None:
    def slow(tx):  # type: ignore[no-untyped-def]
        with views_events.within(tx, 0.05):
            tx.execute("SELECT pg_sleep(5)")

    with pytest.raises(TooSlow, match="longer than 0.05 s"):
        book.database.run(slow)


def test_a_key_whose_beginning_others_share_is_found_whole(book: Ledger) -> None:
    """Ids of one mailbox can share more of their beginning than the index holds."""
    long = "AAMkAGI2" * 30
    ids = book.stored(*(f"invoice.paid {long}{n}" for n in range(5)))
    found = book.database.run(lambda tx: views_events.events(tx, Filter(f"{long}3")))
    assert [row.id for row in found.rows] == [ids[3]]


# ── One event ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def console(opened_as: Callable[[str], Database]) -> Database:
    return opened_as("nottwice_console")


@pytest.mark.parametrize("role", Role)
def test_one_event_whole_as_each_role_may_see_it(console: Database, house: House, role: Role) -> None:
    made = told(house)
    story = console.run(lambda tx: views_event.story(tx, made.done), role=role)
    assert story is not None and story.duplicates == 3 and story.body_bytes == 183
    assert [(c.attempt, c.worker, c.ending) for c in story.claims] == [(1, "w-3f9a", "retry")]
    assert [(send.id, send.state) for send in story.sends] == [(made.send, "needs_review")]
    assert len(story.tries) == 1 and [c.id for c in story.conflicts] == [made.conflict]
    masked = role in (Role.VIEWER, Role.ENGINEER)
    assert story.sends[0].recipients == (("a•••@example.com",) if masked else ("ana.ruiz@example.com",))


@pytest.mark.parametrize("role", Role)
def test_conflicts_and_quarantine_in_lists(console: Database, house: House, role: Role) -> None:
    made = told(house)
    sizes = console.run(views_kept.sizes, role=role)
    assert (sizes.conflicts, sizes.quarantine) == (1, 2)
    (conflict,) = console.run(views_kept.conflicts, role=role)
    assert (conflict.id, conflict.bytes, conflict.first_bytes) == (made.conflict, 160, 183)
    kept = console.run(views_kept.quarantine, role=role)
    assert {row.id: row.bytes for row in kept} == {made.quarantined: 36, made.binary: 1024}
