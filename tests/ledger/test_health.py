"""What strains a ledger from below is measured as it is, by the least of logins, and found when it is over its limit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ledger import check, workers
from ledger.check import Finding, Level, Topic, strain
from ledger.database import Database
from ledger.figures import samples
from ledger.records import Role
from ledger.settings import AlertSettings
from tests.fix_events import Ledger, worker
from tests.fix_sends import Sends

W = worker()


def found(book: Ledger, topic: Topic, **limits: Any) -> list[Finding]:
    seen = book.database.run(lambda tx: check.findings(tx, AlertSettings(**limits)))
    return [one for one in seen if one.topic is topic]


def test_a_transaction_that_stays_open_is_named_without_its_words(book: Ledger, sends: Sends) -> None:
    """As a viewer, to whom PostgreSQL itself does not show the sessions of others."""
    with book.database.engine.connect() as open_:
        open_.execute(sa.text("SELECT 'a secret', txid_current()"))
        pid = open_.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
        oldest = sends.by_console.run(strain.oldest_transaction, role=Role.VIEWER)
        assert oldest.age_s > 0 and oldest.hidden == 0
        assert oldest.who == f"process {pid} of postgres, idle in transaction"
        (over,) = found(book, Topic.TRANSACTION, transaction_s=oldest.age_s / 2, critical_times=1)
        assert over.level is Level.CRITICAL and oldest.who in over.what
        assert not found(book, Topic.TRANSACTION)
        open_.rollback()


def test_dead_rows_are_found_beyond_what_vacuum_lets_stand(book: Ledger) -> None:
    book.run("ALTER TABLE nottwice.counters SET (autovacuum_enabled = off)")
    book.run(
        """INSERT INTO nottwice.counters (minute, namespace, metric, writer, n)
           SELECT now() - n * interval '1 min', 'acme', 'accepted', gen_random_uuid(), 1 FROM generate_series(1, 400) AS n"""
    )
    book.run("DELETE FROM nottwice.counters")
    with (
        book.database.engine.connect() as connection
    ):  # what a session did reaches the statistics when it is idle, or now
        connection.execute(sa.text("SELECT pg_stat_force_next_flush()"))
        connection.commit()
    dead = book.database.run(strain.dead_rows)
    assert dead.table == "counters" and 400 <= dead.rows < 500 <= 10 * dead.vacuum_from
    assert not found(book, Topic.DEAD_ROWS), "few are in order, however small the table"
    (over,) = found(book, Topic.DEAD_ROWS, dead_rows_max=0)
    assert f"counters has {dead.rows} dead rows" in over.what and over.level is Level.WARNING


@pytest.mark.parametrize(("ahead_s", "level"), [(-4, None), (7, Level.WARNING), (-30, Level.CRITICAL)])
def test_a_host_whose_clock_is_off_is_named(book: Ledger, ahead_s: float, level: Level | None) -> None:
    book.database.run(lambda tx: workers.register(tx, W))
    at_once = book.database.run(lambda tx: strain.clocks(tx, 60.0))
    assert at_once is not None and abs(at_once.ahead_s) < 5, "this test and its server share a clock"
    book.run("UPDATE nottwice.workers SET ahead_s = :ahead_s", ahead_s=ahead_s)
    assert [one.level for one in found(book, Topic.CLOCKS)] == ([level] if level else [])
    if level:
        way = "ahead of" if ahead_s > 0 else "behind"
        assert f"is {abs(ahead_s)} s {way} the database's" in found(book, Topic.CLOCKS)[0].what


def test_a_clock_is_noted_with_each_sign(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    book.database.run(lambda tx: workers.register(tx, W))
    real = workers.time.time
    monkeypatch.setattr(workers.time, "time", lambda: real() + 90)
    book.database.run(lambda tx: workers.register(tx, W))
    clock = book.database.run(lambda tx: strain.clocks(tx, 60.0))
    assert clock is not None and 80 < clock.ahead_s < 100 and clock.name == "w"


def test_a_worker_measures_once_a_minute_and_keeps_a_month(book: Ledger, sends: Sends) -> None:
    for _ in range(2):
        sends.by_worker.run(lambda tx: samples.take(tx))
    month = sends.by_console.run(samples.month, role=Role.VIEWER)
    assert len(month) == 1 and month[0].bytes > month[0].events_bytes > 0 and month[0].record_bytes > 0
    book.run(
        "UPDATE nottwice.samples SET oldest_transaction_s = 99, taken_at = taken_at - interval '1 min', others_bytes = 1"
    )
    book.run(
        "INSERT INTO nottwice.samples SELECT hour - interval '32 days', taken_at, 1, 1, 1, 1, 1, 1 FROM nottwice.samples"
    )
    sends.by_worker.run(lambda tx: samples.take(tx))
    (again,) = sends.by_worker.run(samples.month)
    assert again.oldest_transaction_s == 99, "the longest of the hour"
    assert again.others_bytes > 1 and len(book.rows("SELECT FROM nottwice.samples")) == 1


def test_every_table_is_of_some_kind_and_all_are_counted(book: Ledger) -> None:
    kinds = dict(book.rows("SELECT kind, bytes FROM nottwice.table_bytes()"))
    whole = book.value(
        """SELECT CAST(sum(pg_total_relation_size(oid)) AS bigint) FROM pg_class
           WHERE relnamespace = 'nottwice'::regnamespace AND relkind = 'r'"""
    )
    assert set(kinds) == {"events", "event contents", "sends", "record", "others"}
    assert sum(kinds.values()) == whole


def test_a_day_that_adds_too_much_is_found(book: Ledger) -> None:
    assert book.database.run(samples.day) is None and not found(book, Topic.GROWTH, growth_mb_max=0)
    book.run(
        """INSERT INTO nottwice.samples SELECT date_trunc('hour', now()) - n * interval '1 h', now(),
                  (40 - n) * CAST(1000000000 AS bigint), 0, 0, 0, 0, 0
           FROM generate_series(0, 40) AS n"""
    )
    grown = book.database.run(samples.day)
    assert grown is not None and grown.hours == 24 and grown.bytes == 24e9
    (over,) = found(book, Topic.GROWTH)
    assert over.what.startswith("The ledger grew by 24.0 GB in 24 h.") and over.level is Level.WARNING
    assert not found(book, Topic.GROWTH, growth_mb_max=24_000)


def test_catch_ups_that_run_are_told_with_their_rows(book: Ledger) -> None:
    book.run(
        """INSERT INTO nottwice.catch_ups (source, namespace, read_from, run_digest, counts)
           VALUES ('agentmail', 'acme', 'inbox', 'x', '{"lines": 1204, "new": 3, "known": 0}')"""
    )

    def line() -> check.Line:
        seen = book.database.run(lambda tx: check.see(tx, AlertSettings()))
        told = check.lines(seen, AlertSettings(), [], receives=False)
        return next(one for one in told if one.topic is Topic.CATCH_UPS)

    assert line().now.startswith("agentmail: 3 new, 1,204 lines, ") and line().level is Level.HEALTHY
    book.run("UPDATE nottwice.catch_ups SET ended_at = now() - interval '10 min'")
    assert line().now == "none; the last of agentmail: 3 new, 1,204 lines, 10 min ago"


@pytest.mark.parametrize("login", ["nottwice_console", "nottwice_worker", "postgres"])
def test_each_login_that_may_ask_gets_the_whole_picture(
    login: str, login_url: Callable[[str], str], book: Ledger
) -> None:
    book.stored("a")
    asked = Database(login_url(login))
    try:
        seen = asked.run(lambda tx: check.see(tx, AlertSettings()))
    finally:
        asked.close()
    told = list(check.lines(seen, AlertSettings(), [], receives=True))
    assert {line.topic for line in told} == set(Topic) - {Topic.DATABASE, Topic.CONFIGURATION}
    assert all(line.now and line.limit for line in told)


def test_the_manual_has_every_check() -> None:
    page = (Path(check.__file__).parents[2] / "docs" / "health.md").read_text("utf-8")
    assert [topic.value for topic in Topic if topic.value not in page and topic is not Topic.DATABASE] == []
