"""`nottwice prune`: what is over its time goes, in small batches; what is unfinished never does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledger import counters, retention, work
from ledger.database import Database
from ledger.records import AcceptanceKind
from ledger.retention import prune
from ledger.settings import RetentionSettings
from tests.fix_events import Ledger, delivery, worker
from tests.fix_home import UNSAFE, Home
from tests.fix_notices import Provider
from tests.fix_sends import ACCEPTED, KEYED, TO_APPROVE, Sends

W = worker()
DAYS = "make_interval(days => :days)"


def pruned(database: Database, **options: Any) -> dict[str, int]:
    return {one.what: one.rows for one in prune(database, RetentionSettings(), **options)}


def completed(book: Ledger, *keys: str, days: float) -> list[int]:
    """Events that were completed so many days ago."""
    ids = book.stored(*keys)
    book.complete(*book.claim(W, len(keys)))
    old(book, ids, days)
    return ids


def old(book: Ledger, ids: list[int], days: float) -> None:
    book.run(
        f"""UPDATE nottwice.events SET accepted_at = accepted_at - {DAYS}, ended_at = ended_at - {DAYS}, version = version + 1
            WHERE id = ANY (:ids)""",
        ids=ids,
        days=days,
    )


def with_body(book: Ledger) -> list[int]:
    return [n for (n,) in book.rows("SELECT event_id FROM nottwice.event_contents ORDER BY 1")]


# ── Bodies ────────────────────────────────────────────────────────────────────────────────────────────


def test_bodies_of_finished_events_go_after_seven_days(book: Ledger) -> None:
    before = completed(book, "over", days=8)
    after = completed(book, "not yet", days=6)
    assert pruned(book.database)["event bodies"] == 1
    assert with_body(book) == after
    row = book.event(before[0])
    assert (row.state, row.event_key, row.content_digest) == ("completed", "over", None)
    assert pruned(book.database)["event bodies"] == 0


def test_what_is_unfinished_keeps_its_body_for_ever(book: Ledger) -> None:
    ids = book.stored("pending", "processing", "aside")
    *_, aside = book.claim(W, 2)
    book.database.run(lambda tx: work.set_aside(tx, aside.lease, error="no"))
    old(book, ids, 500)
    assert pruned(book.database)["event bodies"] == 0
    assert with_body(book) == sorted(ids)


def test_a_delivery_after_its_body_is_gone_is_a_duplicate_and_no_conflict(book: Ledger) -> None:
    (event_id,) = completed(book, "a", days=8)
    pruned(book.database)
    (answer,) = book.accept(delivery("a", body=b"something else"))
    assert (answer.kind, answer.event_id) == (AcceptanceKind.NOT_COMPARED, event_id)
    assert book.value("SELECT count(*) FROM nottwice.conflicts") == 0


@pytest.mark.parametrize(("settled_days", "goes"), [(None, False), (6, False), (8, True)])
def test_an_event_is_finished_when_its_actions_are(
    book: Ledger, sends: Sends, settled_days: int | None, goes: bool
) -> None:
    (event_id,) = completed(book, "a", days=30)
    action_id = sends.proposed(KEYED)
    book.run("UPDATE nottwice.actions SET event_id = :e, version = version + 1", e=event_id)
    if settled_days is not None:
        sends.tried(action_id, ACCEPTED)
        book.run(
            f"UPDATE nottwice.actions SET settled_at = settled_at - {DAYS}, version = version + 1",
            days=settled_days,
        )
    assert pruned(book.database)["event bodies"] == int(goes)


def test_small_batches_reach_everything_and_leave_what_is_locked(
    book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 3)
    ids = sorted(completed(book, *(f"k{n}" for n in range(8)), days=8))
    looked: list[int] = []
    with book.database.engine.connect() as other:
        other.exec_driver_sql(f"SELECT FROM nottwice.events WHERE id = {ids[4]} FOR NO KEY UPDATE")
        assert pruned(book.database, advance=lambda n, _: looked.append(n))["event bodies"] == 7
    assert with_body(book) == [ids[4]]
    assert looked[:3] == [3, 6, 8]


def test_a_walk_ends_where_everything_is_young(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    completed(book, "a", "b", days=8)
    book.stored(*(f"k{n}" for n in range(8)))
    looked: list[int] = []
    pruned(book.database, advance=lambda n, _: looked.append(n))
    assert max(looked) == 4


# ── Contents of actions ───────────────────────────────────────────────────────────────────────────────


def test_contents_and_recipients_go_thirty_days_after_settling(sends: Sends, database: Database) -> None:
    over, not_yet, waits = (sends.proposed(rules) for rules in (KEYED, KEYED, TO_APPROVE))
    for action_id, days in ((over, 31), (not_yet, 29)):
        sends.tried(action_id, ACCEPTED if action_id == over else _another())
        sends.sql(
            f"""UPDATE nottwice.actions SET settled_at = settled_at - {DAYS}, created_at = created_at - {DAYS},
                       version = version + 1 WHERE id = :id""",
            id=action_id,
            days=days,
        )
    sends.sql(
        "UPDATE nottwice.actions SET created_at = created_at - interval '1 year' WHERE id = :id", id=waits
    )
    assert pruned(database)["action contents"] == 1
    left = sends.rows("SELECT action_id FROM nottwice.action_contents ORDER BY 1")
    assert [row.action_id for row in left] == [not_yet, waits]
    assert sends.row(over).content_digest is not None and sends.attempts(over)


def _another() -> Any:
    from ledger.records import Accepted

    return Accepted("<m-2@provider.example>")


# ── Counters, and the dry run ─────────────────────────────────────────────────────────────────────────


def test_old_minutes_become_hours_and_the_sums_stay(book: Ledger) -> None:
    book.stored("now")
    book.run(
        """INSERT INTO nottwice.counters (minute, namespace, metric, writer, n)
           SELECT date_trunc('minute', now() - n * interval '6 h'), 'acme', 'accepted', gen_random_uuid(), 2
           FROM generate_series(5, 20) n"""
    )
    total = book.database.run(lambda tx: counters.total(tx, "accepted"))
    assert pruned(book.database)["per-minute counters"] == 16
    assert book.value("SELECT count(*) FROM nottwice.counters") == 1
    assert book.database.run(lambda tx: counters.total(tx, "accepted")) == total == 33


def test_a_dry_run_counts_the_same_and_changes_nothing(book: Ledger, sends: Sends) -> None:
    completed(book, "a", "b", days=8)
    action_id = sends.proposed(KEYED)
    sends.tried(action_id, ACCEPTED)
    sends.sql(
        "UPDATE nottwice.actions SET settled_at = settled_at - interval '31 days', version = version + 1"
    )
    book.run("UPDATE nottwice.counters SET minute = minute - interval '2 days'")
    versions = book.rows("SELECT id, version FROM nottwice.events ORDER BY id")
    would = list(prune(book.database, RetentionSettings(), dry_run=True))
    assert [(one.rows, one.content_bytes > 0) for one in would[:2]] == [(2, True), (1, True)]
    assert would[2].rows > 0
    assert book.rows("SELECT id, version FROM nottwice.events ORDER BY id") == versions
    assert len(with_body(book)) == 2
    assert list(prune(book.database, RetentionSettings())) == would


def test_the_command_says_what_went(
    home: Home, book: Ledger, database_url: str, login_url: Callable[[str], str]
) -> None:
    home.configure(UNSAFE + "[retention]\nevent_bodies_days = 2.5\n")
    completed(book, "a", days=3)
    shown = home.run("prune", "--dry-run", DATABASE_URL=database_url)
    assert shown.stdout.splitlines()[0] == "event bodies, older than 2.5 days: 1 would be removed (8 bytes)"
    done = home.run("prune", DATABASE_URL=database_url)
    assert done.stdout.splitlines()[0] == "event bodies, older than 2.5 days: 1 removed (8 bytes)"
    assert (done.returncode, done.stderr) == (0, "")
    refused = home.run("prune", DATABASE_URL=login_url("nottwice_worker"))
    assert refused.returncode == 2 and "Use the console's or the owner's." in refused.stderr


def test_whom_notices_name_is_forgotten_with_the_contents_of_their_sends(
    sends: Sends, provider: Provider, database: Database
) -> None:
    """What became of each recipient stays; who they were goes, and stays one each."""
    settled, waiting = sends.proposed(KEYED), sends.uncertain()
    sends.tried(settled, ACCEPTED)
    provider.says(
        "bounced",
        ACCEPTED.message_id,
        "ann@example.com",
        "bo@example.com",
        account="agentmail",
        detail="5.1.1",
    )
    provider.says("delivered", "<theirs>", "cy@example.com")
    provider.says("rejected", "<w>", "di@example.com", reference=sends.row(waiting).reference)
    assert pruned(database)["notices' recipients"] == 0
    sends.sql("UPDATE nottwice.notices SET noted_at = noted_at - interval '31 days'")
    assert (
        pruned(database)["notices' recipients"] == 1
    )  # of a message nobody knows; the others' sends are young
    sends.sql(
        "UPDATE nottwice.actions SET settled_at = settled_at - interval '31 days', version = version + 1"
    )
    assert pruned(database, dry_run=True)["notices' recipients"] == 2
    assert pruned(database)["notices' recipients"] == 2
    left = sends.rows("SELECT recipient, detail, what FROM nottwice.notices ORDER BY id")
    assert [tuple(row) for row in left] == [
        ("", "", "bounced"),
        ("", "", "bounced"),
        ("", "", "delivered"),
        ("di@example.com", "", "rejected"),
    ]
    assert [one.now.what for one in provider.shown(settled)] == ["bounced", "bounced"]
