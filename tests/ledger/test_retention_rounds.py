"""A worker's turn at pruning: one worker at a time, a little at a time, nothing kept waiting behind what cannot go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from threading import Thread
from uuid import UUID

import pytest

from ledger import retention, work
from ledger.database import Database
from ledger.figures import counters, refusals
from ledger.inbox import accept
from ledger.records import Acceptance, AcceptanceKind
from ledger.retention import Round, prune
from ledger.retention.events import KEYS
from ledger.retention.rules import due
from ledger.retention.walk import RULES, Walk, late_s
from ledger.settings import RetentionSettings
from tests.fix_events import Crowd, Ledger, delivery, worker, writers
from tests.fix_home import UNSAFE, Home

W = worker()
KEPT = RetentionSettings(round_within_s=60)
DAYS = "make_interval(days => :days)"


@pytest.fixture
def by_worker(login_url: Callable[[str], str]) -> Iterator[Database]:
    database = Database(login_url("nottwice_worker"))
    yield database
    database.close()


def completed(book: Ledger, *keys: str, days: float, namespace: str = "acme") -> list[int]:
    ids = book.stored(*keys, namespace=namespace)
    book.complete(*book.claim(W, len(keys)))
    old(book, days, ids)
    return ids


def old(book: Ledger, days: float, ids: list[int]) -> None:
    book.run(
        f"""UPDATE nottwice.events SET accepted_at = accepted_at - {DAYS}, ended_at = ended_at - {DAYS}, version = version + 1
            WHERE id = ANY (:ids)""",
        ids=ids,
        days=days,
    )


def time_again(book: Ledger) -> None:
    book.run("UPDATE nottwice.maintenance SET resume_at = now() WHERE duty = 'prune'")


# ── Turns ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_removes_what_is_over_its_time_and_the_next_comes_later(
    book: Ledger, by_worker: Database
) -> None:
    completed(book, "a", "b", days=32)
    assert retention.round_(by_worker, KEPT) == Round({"event bodies": 2, "event keys": 2}, more=False)
    assert retention.round_(by_worker, KEPT) is None
    wait_s = book.value(
        "SELECT CAST(extract(epoch FROM resume_at - now()) AS float8) FROM nottwice.maintenance WHERE duty = 'prune'"
    )
    assert KEPT.round_every_s - 60 < wait_s <= KEPT.round_every_s
    time_again(book)
    assert retention.round_(by_worker, KEPT) == Round({}, more=False)


def test_of_many_workers_one_has_the_turn(many: Ledger, crowd: Callable[[int], Crowd]) -> None:
    together = crowd(8)
    for n in range(5):
        completed(many, f"k{n}", days=32)
        done = together.at_once([lambda: retention.round_(many.database, KEPT)] * 8)
        assert [one.counts["event keys"] for one in done if one] == [1]  # type: ignore[union-attr]
        time_again(many)


def test_a_turn_ends_in_time_and_says_that_more_is_left(book: Ledger, by_worker: Database) -> None:
    """One batch at the least, even when there is no time at all; then soon again."""
    completed(book, *(f"k{n}" for n in range(5)), days=32)
    hasty = RetentionSettings(round_within_s=1e-9, batch_rows=2)
    turns = 0
    while (done := retention.round_(by_worker, hasty)) is not None and done.more:
        turns += 1
        assert turns < 20
        time_again(book)
    assert turns > 2
    assert book.rows("SELECT FROM nottwice.events WHERE key_digest IS NOT NULL") == []


def test_a_turn_whose_worker_was_killed_is_anybodys_after_its_lease(
    book: Ledger, by_worker: Database
) -> None:
    assert by_worker.run(lambda tx: retention._begin(tx, lease_s=60))
    assert retention.round_(by_worker, KEPT) is None
    time_again(book)
    assert retention.round_(by_worker, KEPT) is not None


def test_a_turn_that_fails_is_over(book: Ledger, by_worker: Database) -> None:
    """The next one comes soon, not after the lease of one that was killed."""
    completed(book, "a", days=32)
    book.run("REVOKE DELETE ON nottwice.event_contents FROM nottwice_worker")
    with pytest.raises(Exception, match="permission denied"):
        retention.round_(by_worker, KEPT)
    assert book.value(
        "SELECT resume_at < now() + interval '6 s' FROM nottwice.maintenance WHERE duty = 'prune'"
    )


def test_namespaces_and_kinds_take_turns(book: Ledger, by_worker: Database) -> None:
    """The backlog of one does not keep the others from going."""
    completed(book, *(f"k{n}" for n in range(20)), days=32, namespace="flood")
    completed(book, "a", days=32, namespace="quiet")
    steps = iter(range(100))
    once = RetentionSettings(batch_rows=2)

    def tick() -> float:  # eight batches, whatever each takes
        return float(next(steps))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(retention, "clock", tick)
        retention.round_(by_worker, once.model_copy(update={"round_within_s": 8.0}))
    left = book.rows(
        "SELECT namespace, count(*) FROM nottwice.events WHERE key_digest IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    assert left and left[0][0] == "flood" and len(left) == 1


# ── What cannot go keeps nothing waiting ──────────────────────────────────────────────────────────────


def test_what_cannot_go_is_not_met_again_at_the_next_turn(book: Ledger, by_worker: Database) -> None:
    """Set-aside events stand in no index of ours; those with an open send are noted with a later time."""
    aside = book.stored(*(f"f{n}" for n in range(10)))
    for claimed in book.claim(W, 10):
        book.database.run(lambda tx, one=claimed: work.set_aside(tx, one.lease, error="no"))  # type: ignore[misc]
    old(book, 500, aside)
    held = completed(book, *(f"k{n}" for n in range(10)), days=500)
    book.run(
        """INSERT INTO nottwice.actions (namespace, action_key, key_digest, kind, event_id, provider, account, reference, policy, cost,
                                         content_digest, key_margin_s, evidence_s, retry_until, state)
           SELECT 'acme', 'k' || id, sha256(CAST('k' || id AS bytea)), 'receipt', id, 'p', 'p', 'r', 'review', 'high', '\\x00', 0, 0, now(),
                  'proposed' FROM nottwice.events WHERE id = ANY (:ids)""",
        ids=held,
    )
    assert retention.round_(by_worker, KEPT) == Round({}, more=False)
    assert by_worker.run(lambda tx: late_s(tx, KEPT)) == 0
    for rule in RULES:
        ages = [row.age_s for row in by_worker.run(lambda tx, r=rule: tx.all(due(r)))]  # type: ignore[misc]
        assert all(age < 31 * 86_400 for age in ages)


# ── A duplicate at the very moment ────────────────────────────────────────────────────────────────────


def test_a_duplicate_at_the_moment_its_key_is_given_up_is_one_of_two_things(
    many: Ledger, crowd: Callable[[int], Crowd]
) -> None:
    """Fifty times: prune and three deliveries of one key let go together. A duplicate of the old event, or one new
    event and its duplicates; never an error, never two events with one living key, never a delivery that is nowhere."""
    together, ids = crowd(4), writers(3)
    for n in range(50):
        key = f"k{n}"
        (first,) = completed(many, key, days=32)
        deeds = [partial(_pruned, many), *(partial(_delivered, many, key, writer) for writer in ids)]
        _, *answers = together.at_once(deeds)
        assert not [one for one in answers if isinstance(one, Exception)], answers
        living = {id_ for (id_,) in many.rows(LIVING, key=key)}
        new = [one for one in answers if one.kind is AcceptanceKind.ACCEPTED]  # type: ignore[union-attr]
        assert len(new) <= 1 and len(living) <= 1
        assert len(new) + many.value(NOTED, key=key) == 3
        assert {one.event_id for one in answers} <= {first, *living}  # type: ignore[union-attr]
        (again,) = many.accept(delivery(key))  # a second look, when nothing races any more
        assert (again.kind is AcceptanceKind.ACCEPTED) == (not living)


LIVING = "SELECT id FROM nottwice.events WHERE event_key = :key AND key_digest IS NOT NULL"
NOTED = """
SELECT CAST(coalesce(sum(d.deliveries), 0) AS integer) FROM nottwice.duplicates d JOIN nottwice.events e ON e.id = d.event_id
WHERE e.event_key = :key
"""


def _delivered(book: Ledger, key: str, writer: UUID) -> Acceptance:
    one = delivery(key, delivery_id=str(writer))
    return book.database.run(lambda tx: accept(tx, [one], writer=writer))[0]


def _pruned(book: Ledger) -> None:
    Walk(KEYS, "acme", RetentionSettings()).step(book.database)


def test_a_delivery_that_found_the_key_while_it_was_given_up_asks_again(book: Ledger, many: Ledger) -> None:
    """Cut at the worst place: its insert met the key, its look did not. It inserts again, and is a new event."""
    (first,) = completed(book, "a", days=32)
    with many.database.transaction() as prunes:
        prunes.execute("UPDATE nottwice.events SET key_digest = NULL WHERE id = :id", id=first)
        answers: list[Acceptance] = []
        thread = Thread(target=lambda: answers.extend(book.accept(delivery("a"))))
        thread.start()
        many.until_somebody_waits()
    thread.join(40)
    (answer,) = answers
    assert (answer.kind, answer.event_id == first) == (AcceptanceKind.ACCEPTED, False)


def test_whoever_writes_a_duplicate_is_not_waited_for(book: Ledger, many: Ledger) -> None:
    """The event is skipped, and goes the next time; two that wait for each other cannot be."""
    (first,) = completed(book, "a", days=32)
    with many.database.engine.connect() as other:
        other.exec_driver_sql(
            f"INSERT INTO nottwice.duplicates (event_id, delivery_id, deliveries) VALUES ({first}, 'd', 1)"
        )
        went = {one.what: one.rows for one in prune(book.database, RetentionSettings())}
        assert (went["event bodies"], went["event keys"]) == (1, 0)
        other.commit()
    went = {one.what: one.rows for one in prune(book.database, RetentionSettings())}
    assert went["event keys"] == 1


# ── Hours, and who is told ────────────────────────────────────────────────────────────────────────────


def test_old_hours_become_months_and_the_sums_stay(book: Ledger, by_worker: Database) -> None:
    book.run(
        """INSERT INTO nottwice.counters_hourly (hour, namespace, metric, n)
           SELECT date_trunc('month', now() - interval '500 days') + h * interval '1 hour', 'acme', 'sent', 1 FROM generate_series(0, 99) h
           UNION ALL SELECT date_trunc('hour', now()) - interval '2 days', 'acme', 'sent', 1"""
    )
    book.run(
        """INSERT INTO nottwice.refusals_hourly (hour, source, reason, n)
           SELECT date_trunc('month', now() - interval '500 days') + h * interval '1 hour', 'shop', 'malformed', 1
           FROM generate_series(0, 99) h"""
    )
    retention.round_(by_worker, KEPT)
    assert book.rows("SELECT n FROM nottwice.counters_hourly ORDER BY hour") == [(100,), (1,)]
    assert book.rows("SELECT n FROM nottwice.refusals_hourly") == [(100,)]
    assert by_worker.run(lambda tx: counters.total(tx, "sent")) == 101
    assert by_worker.run(lambda tx: counters.fold_hours(tx, older_than_s=400 * 86_400)) == 0
    assert by_worker.run(lambda tx: refusals.fold_hours(tx, older_than_s=400 * 86_400)) == 0


def test_check_says_how_late_the_oldest_is(home: Home, book: Ledger, login_url: Callable[[str], str]) -> None:
    """As whoever monitors: what a viewer may read is enough."""
    home.configure(UNSAFE)
    completed(book, "a", days=6)
    assert book.database.run(lambda tx: late_s(tx, KEPT)) == 0
    completed(book, "b", days=9)
    assert (
        "warning: event bodies of acme are over their time, the oldest for 2 days. Does a worker run? By hand: nottwice prune."
        in home.run("check", DATABASE_URL=login_url("nottwice_console")).stdout.splitlines()
    )
