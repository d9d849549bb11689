"""The screens' reads, each under the database roles of people: what they say, and what they do not show."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledger import views
from ledger.database import Database
from ledger.records import Role
from ledger.verdict import VerdictWord
from ledger.views import queue as views_queue
from ledger.views import review as views_review
from ledger.views import status
from tests.fix_seed import LETTER, RECEIPT, House, desk, full, mail


@pytest.fixture
def console(opened_as: Callable[[str], Database]) -> Database:
    return opened_as("nottwice_console")


def test_an_empty_house_counts_nothing(console: Database) -> None:
    now = console.run(lambda tx: views.snapshot(tx, silent_s=60), role=Role.VIEWER)
    assert not now.any_event and now.last_sign_s is None and now.stuck == 0 and now.for_people == 0
    hour = console.run(views.hour, role=Role.VIEWER)
    assert len(hour.minutes) == 60 and hour.no_word_today == 0
    assert console.run(lambda tx: views.oldest_leases(tx, lease_s=60), role=Role.VIEWER) == ()


def test_the_figures_of_a_full_house(console: Database, house: House) -> None:
    full(house)
    now = console.run(lambda tx: views.snapshot(tx, silent_s=60), role=Role.VIEWER)
    assert (now.pending, now.processing, now.failed, now.unhandled, now.expired_leases) == (39, 18, 1, 1, 1)
    assert (now.proposed, now.approved, now.needs_review) == (2, 6, 5)
    assert now.workers == 4 and [name for name, _ in now.silent] == ["w-0e11"]
    assert (
        67_000 < now.oldest_review_s < 68_000 and 3 < now.oldest_pending_s < 600 and now.oldest_claim_s > 73
    )
    hour = console.run(views.hour, role=Role.VIEWER)
    assert sum(m.duplicates for m in hour.minutes) > 400 and (hour.no_word_today, hour.refused_today) == (
        2198,
        5,
    )
    (oldest, *_) = console.run(lambda tx: views.oldest_leases(tx, lease_s=60), role=Role.VIEWER)
    assert oldest.worker == "w-0e11" and oldest.age_s > 73


def test_what_a_snapshot_counted_is_not_counted_again_for_health(console: Database, house: House) -> None:
    full(house)
    counted = console.run(lambda tx: views.snapshot(tx, silent_s=60), role=Role.VIEWER).kinds
    given, asked = (
        console.run(lambda tx, kinds=kinds: status.alive(tx, kinds=kinds), role=Role.VIEWER)
        for kinds in (counted, None)
    )
    assert given.pop("oldest_pending_s") == pytest.approx(asked.pop("oldest_pending_s"), abs=30)
    assert given == asked and given["unhandled"] == 1 and given["events"]["pending"] == 39
    one = '[{"source": "shop", "type": "refund", "n": 7, "due_at": "2026-01-01T00:00:00Z"}]'
    assert console.run(lambda tx: status.alive(tx, kinds=one), role=Role.VIEWER)["events"]["pending"] == 7


@pytest.mark.parametrize("killed_s", [5.0, 90.0], ids=["just now", "long ago"])
def test_a_worker_that_was_killed_and_started_again_is_one(
    console: Database, house: House, killed_s: float
) -> None:
    house.workers(("w-1", killed_s), ("w-2", 0.1))
    house.workers(("w-1", 0.1))
    started_again = "UPDATE nottwice.workers SET started_at = seen_at WHERE name = 'w-1' AND seen_at > now() - interval '3 s'"
    house.run(started_again)
    now = console.run(lambda tx: views.snapshot(tx, silent_s=30), role=Role.VIEWER)
    assert now.workers == 2 and now.silent == ()


def test_two_that_live_under_one_name_are_two(console: Database, house: House) -> None:
    house.workers(("w-1", 0.1), ("w-1", 0.2))
    now = console.run(lambda tx: views.snapshot(tx, silent_s=30), role=Role.VIEWER)
    assert now.workers == 2


def test_the_silent_are_named_longest_first_and_forgotten_after_a_while(
    console: Database, house: House
) -> None:
    house.workers(("w-1", 0.1), ("w-2", 31.0), ("w-3", 45.0), ("w-4", 700.0))
    now = console.run(lambda tx: views.snapshot(tx, silent_s=30), role=Role.VIEWER)
    assert now.workers == 1 and [name for name, _ in now.silent] == ["w-3", "w-2"]


def test_the_queue_puts_the_costliest_first_and_pages_by_place(console: Database, house: House) -> None:
    made = desk(house)

    def read(**more):
        return console.run(lambda tx: views_queue.queue(tx, "uncertain", **more), role=Role.SUPPORT)

    rows = read()
    assert [row.id for row in rows] == [made.refund, made.receipt, made.second, made.reply, made.welcome]
    first, rest = read(most=2), read(after=read(most=2)[-1].place)
    assert [row.id for row in first + rest] == [row.id for row in rows]


def test_a_key_that_ends_within_the_hour_comes_first_and_one_that_ended_does_not(
    console: Database, house: House
) -> None:
    made = desk(house)
    house.aged(made.welcome, 86_400 - 900 - 1800)
    house.aged(made.refund, 86_400)
    rows = console.run(lambda tx: views_queue.queue(tx, "uncertain"), role=Role.SUPPORT)
    assert rows[0].id == made.welcome and 1000 < (rows[0].key_left_s or 0) < 1800
    ended = next(row for row in rows if row.id == made.refund)
    assert ended.verdict == "nobody_knows" and (ended.key_left_s or 0) < 0


@pytest.mark.parametrize("role", list(Role))
def test_recipients_look_as_the_role_may_see_them(console: Database, house: House, role: Role) -> None:
    made = desk(house)
    row = next(
        r
        for r in console.run(lambda tx: views_queue.queue(tx, "uncertain"), role=role)
        if r.id == made.receipt
    )
    send = console.run(lambda tx: views_review.send(tx, role, made.receipt), role=role)
    assert send is not None and send.recipients == row.recipients
    if role in (Role.VIEWER, Role.ENGINEER):
        assert row.recipients == ("a•••@example.com",) and send.subject == "" and not send.head
    else:
        assert row.recipients == ("ana.ruiz@example.com",) and send.head["text_characters"] == len(LETTER)
        assert "text" not in send.head and send.head["sender"] == "billing@acme.example"


def test_one_send_whole(console: Database, house: House) -> None:
    made = desk(house)
    read = lambda id_: console.run(lambda tx: views_review.send(tx, Role.SUPPORT, id_), role=Role.SUPPORT)  # noqa: E731
    assert [read(id_).finding.verdict for id_ in made.uncertain] == [
        VerdictWord.SAFE_TO_TRY_AGAIN,
        VerdictWord.NOBODY_KNOWS,
        VerdictWord.SAFE_TO_TRY_AGAIN,
        VerdictWord.WAS_NOT_SENT,
    ]
    assert (
        len(read(made.refund).attempts) == 2
        and "AgentMail keeps a key" in read(made.refund).finding.reasons[0]
    )
    assert read(10**12) is None


def test_a_text_with_a_nul_is_read_like_any_other(console: Database, house: House) -> None:
    """None is taken any more; one may have been stored by a version before."""
    id_ = house.uncertain(RECEIPT, mail("a@example.com", "x", text="before|after \\u0000"))
    house.run("ALTER TABLE nottwice.action_contents DISABLE TRIGGER USER")
    house.run(
        r"""UPDATE nottwice.action_contents
            SET content = convert_to(replace(convert_from(content, 'UTF8'), '|', '\u0000'), 'UTF8') WHERE action_id = :id""",
        id=id_,
    )
    send = console.run(lambda tx: views_review.send(tx, Role.SUPPORT, id_), role=Role.SUPPORT)
    assert send is not None and send.head["text_characters"] > 10
