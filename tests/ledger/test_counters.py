"""Counters add up: by the minute, folded into hours, and since the installation; and writers never meet."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from sqlalchemy.exc import IntegrityError

from ledger.database import Database
from ledger.figures import counters
from tests.fix_events import Crowd, Ledger, writers

DAY_S = 86_400.0


def total(book: Ledger, metric: str) -> int:
    return book.database.run(lambda tx: counters.total(tx, metric))


def fold(book: Ledger, older_than_s: float = DAY_S) -> int:
    return book.database.run(lambda tx: counters.fold(tx, older_than_s=older_than_s))


def counted(book: Ledger, minutes_ago: int, n: int, *, metric: str = "sent", namespace: str = "acme") -> None:
    book.run(
        """INSERT INTO nottwice.counters (minute, namespace, metric, writer, n)
           VALUES (date_trunc('minute', now()) - make_interval(mins => :ago), :namespace, :metric, gen_random_uuid(), :n)""",
        ago=minutes_ago,
        namespace=namespace,
        metric=metric,
        n=n,
    )


def test_bumps_of_one_minute_add_up_in_one_row(book: Ledger) -> None:
    writer = uuid4()

    def bump() -> None:
        book.database.run(
            lambda tx: counters.bump_many(tx, writer, {("acme", "sent"): 2, ("acme", "unknown"): 1})
        )
        book.database.run(lambda tx: counters.bump(tx, writer, "acme", "sent"))

    bump()
    bump()
    rows = book.rows(
        "SELECT metric, sum(n), count(*) <= 2 FROM nottwice.counters GROUP BY metric ORDER BY metric"
    )
    assert rows == [("sent", 6, True), ("unknown", 2, True)]  # two rows when the minute turns meanwhile
    assert (total(book, "sent"), total(book, "refused")) == (6, 0)


def test_nothing_to_count_is_no_statement(book: Ledger) -> None:
    book.database.run(lambda tx: counters.bump_many(tx, uuid4(), {}))
    assert book.rows("SELECT FROM nottwice.counters") == []


def test_an_unknown_metric_is_refused(book: Ledger) -> None:
    with pytest.raises(IntegrityError, match="the_metric_is_known"):
        book.database.run(lambda tx: counters.bump(tx, uuid4(), "acme", "sendt"))


def test_writers_count_side_by_side(many: Ledger, crowd: Callable[[int], Crowd]) -> None:
    ids = writers(20)

    def bump(n: int) -> None:
        for _ in range(10):
            many.database.run(lambda tx: counters.bump(tx, ids[n], "acme", "sent"))

    assert crowd(20).at_once([lambda n=n: bump(n) for n in range(20)]) == [None] * 20
    assert total(many, "sent") == 200


def test_fold_keeps_every_sum(book: Ledger) -> None:
    for ago in (3000, 3001, 3002, 4000):
        counted(book, ago, 5)
        counted(book, ago, 1, metric="unknown")
        counted(book, ago, 7, namespace="other")
    counted(book, 1, 100)
    before = {metric: total(book, metric) for metric in ("sent", "unknown")}
    assert fold(book) == 12
    assert {metric: total(book, metric) for metric in before} == before == {"sent": 148, "unknown": 4}
    assert book.value("SELECT count(*) FROM nottwice.counters") == 1
    counted(book, 3000, 9)  # a straggler of an hour that is folded already
    assert (fold(book), fold(book), total(book, "sent")) == (1, 0, 157)


def test_fold_leaves_the_hour_it_would_cut_in_two(book: Ledger) -> None:
    """Only whole hours: else an hour would be a bar in the chart twice, partly here and partly there."""
    for ago in range(0, 180, 5):
        counted(book, ago, 1)
    fold(book, older_than_s=3600.0)
    both = book.rows(
        """SELECT date_trunc('hour', minute) FROM nottwice.counters
           INTERSECT SELECT hour FROM nottwice.counters_hourly"""
    )
    assert both == [] and total(book, "sent") == 36
    assert book.value("SELECT count(*) FROM nottwice.counters_hourly") >= 1


def test_two_folds_at_once_count_nothing_twice(many: Ledger, crowd: Callable[[int], Crowd]) -> None:
    together = crowd(4)
    for turn in range(20):
        for ago in range(3000, 3020):
            counted(many, ago, 1)
        together.at_once([lambda: fold(many)] * 4)
        assert total(many, "sent") == 20 * (turn + 1)


def test_both_logins_count_and_the_worker_folds(book: Ledger, login_url: Callable[[str], str]) -> None:
    counted(book, 3000, 1)
    for login in ("nottwice_receiver", "nottwice_worker"):
        own = Ledger(Database(login_url(login)))
        own.database.run(lambda tx: counters.bump(tx, uuid4(), "acme", "sent"))
        if login == "nottwice_worker":
            assert fold(own) == 1
        own.database.close()
    assert total(book, "sent") == 3
