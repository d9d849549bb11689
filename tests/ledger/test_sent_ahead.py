"""Statements that nobody waits for: the same rows, the same errors as one by one, only later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
import sqlalchemy as sa

from ledger.database import Database, sqlstate
from ledger.errors import Unavailable
from ledger.sent_ahead import SentAhead, sent_ahead

PUT = "INSERT INTO public.kept VALUES (:n)"


@pytest.fixture(autouse=True)
def kept(database: Database) -> Iterator[None]:
    database.run(
        lambda tx: tx.execute("CREATE TABLE public.kept (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    )
    yield
    database.run(lambda tx: tx.execute("DROP TABLE public.kept"))


@contextmanager
def ahead(database: Database) -> Iterator[SentAhead]:
    with database.transaction() as opened, sent_ahead(opened.connection) as tx:
        yield tx


def refused(
    database: Database, error: type[BaseException], body: Callable[[SentAhead], object]
) -> BaseException:
    with pytest.raises(error) as failed:
        _run(database, body)
    return failed.value


def _run(database: Database, body: Callable[[SentAhead], object]) -> None:
    with ahead(database) as tx:
        body(tx)


def numbers(database: Database) -> list[int]:
    return [row.n for row in database.run(lambda tx: tx.all("SELECT n FROM public.kept ORDER BY n"))]


def test_answers_are_read_as_those_of_other_transactions(database: Database) -> None:
    one_time = uuid4()
    with ahead(database) as tx:
        put = tx.execute(PUT, n=1)
        tx.many(PUT, [{"n": 2}, {"n": 3}])
        row = tx.one(
            "SELECT count(*) AS n, CAST(:u AS uuid) AS u, '50%' AS share FROM public.kept", u=one_time
        )
        assert (row.n, row.u, row.share) == (3, one_time, "50%") and put.rowcount == 1
        changed = tx.execute("UPDATE public.kept SET n = n + 1 WHERE n > :n RETURNING n", n=1)
        assert sorted(changed.scalars()) == [3, 4]
        assert tx.first("SELECT n FROM public.kept WHERE n > 10") is None
        assert [row.n for row in tx.execute("SELECT n FROM public.kept ORDER BY n")] == [1, 3, 4]
        assert tx.execute("SELECT 7 AS seven").mappings().one() == {"seven": 7}
    assert numbers(database) == [1, 3, 4]


def test_an_error_that_nobody_read_shows_at_the_end_and_nothing_is_kept(database: Database) -> None:
    def body(tx: SentAhead) -> None:
        tx.execute(PUT, n=1)
        tx.execute("SELECT 1 / :zero", zero=0)
        tx.execute(PUT, n=2)

    failed = refused(database, sa.exc.DataError, body)
    assert sqlstate(failed) == "22012" and numbers(database) == []


def test_whoever_swallows_an_error_commits_nothing_either(database: Database) -> None:
    """The server would answer a commit of a transaction that failed with a rollback, and no error."""

    def body(tx: SentAhead) -> None:
        tx.execute(PUT, n=1)
        with pytest.raises(sa.exc.DataError):
            tx.one("SELECT 1 / :zero AS n", zero=0)
        tx.execute(PUT, n=2)

    refused(database, sa.exc.DBAPIError, body)
    assert numbers(database) == []


def test_what_the_commit_would_refuse_can_be_asked_before(database: Database) -> None:
    def body(tx: SentAhead) -> None:
        tx.many(PUT, [{"n": 1}, {"n": 1}])
        tx.execute("SET CONSTRAINTS ALL IMMEDIATE")

    refused(database, sa.exc.IntegrityError, body)
    assert numbers(database) == []


def test_whoever_takes_the_connection_meets_what_was_sent_before(database: Database) -> None:
    with ahead(database) as tx:
        tx.execute(PUT, n=1)
        with tx.connection.begin_nested() as inner:
            assert tx.connection.execute(sa.text("SELECT n FROM public.kept")).scalar() == 1
            tx.execute(sa.text("INSERT INTO public.kept VALUES (2)"))
            inner.rollback()
        tx.execute(PUT, n=3)
    assert numbers(database) == [1, 3]


def test_an_error_of_the_body_is_the_one_that_is_told(database: Database) -> None:
    def body(tx: SentAhead) -> None:
        tx.execute("SELECT 1 / :zero", zero=0)
        raise KeyError("mine")

    refused(database, KeyError, body)
    assert database.run(lambda tx: tx.one("SELECT 1 AS n").n) == 1


def test_a_connection_that_breaks_is_a_database_that_is_away(database: Database) -> None:
    def body(tx: SentAhead) -> None:
        tx.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        tx.execute(PUT, n=1)

    refused(database, Unavailable, body)
    assert numbers(database) == []


def test_the_servers_limit_for_an_idle_transaction_counts(database: Database) -> None:
    """A statement is whole once it is sent, though nobody waits for it; else the server would wait for ever for more."""

    def body(tx: SentAhead) -> None:
        tx.execute("SET LOCAL idle_in_transaction_session_timeout = '20ms'")
        backend = tx.one("SELECT pg_backend_pid() AS pid").pid
        tx.execute(PUT, n=1)
        _until_gone(database, backend)
        tx.execute(PUT, n=2)

    refused(database, Unavailable, body)
    assert numbers(database) == []


def _until_gone(database: Database, backend: int) -> None:
    """On another thread, because this one holds a transaction open."""
    count = "SELECT count(*) AS n FROM pg_stat_activity WHERE pid = :pid"

    def look() -> None:
        while database.run(lambda tx: tx.one(count, pid=backend).n):
            threading.Event().wait(0.01)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(40)
    assert not looking.is_alive()
