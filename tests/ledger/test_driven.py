"""Statements that nobody waits for: the same rows and the same errors as any other transaction's, only later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
import sqlalchemy as sa

from ledger.database import Database, Transaction, sqlstate
from ledger.database.driven import sent_ahead
from ledger.database.sent_ahead import AHEAD_MAX, BYTES_MAX
from ledger.errors import Unavailable

PUT = "INSERT INTO public.kept VALUES (:n)"


@pytest.fixture(autouse=True)
def kept(database: Database) -> Iterator[None]:
    database.run(
        lambda tx: tx.execute("CREATE TABLE public.kept (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    )
    yield
    database.run(lambda tx: tx.execute("DROP TABLE public.kept"))


def run(database: Database, body: Callable[[Transaction], object]) -> None:
    with database.transaction() as opened, sent_ahead(opened) as tx:
        body(tx)


def refused(
    database: Database, error: type[BaseException], body: Callable[[Transaction], object]
) -> BaseException:
    with pytest.raises(error) as failed:
        run(database, body)
    return failed.value


def numbers(database: Database) -> list[int]:
    return [row.n for row in database.run(lambda tx: tx.all("SELECT n FROM public.kept ORDER BY n"))]


def test_answers_are_read_as_those_of_other_transactions(database: Database) -> None:
    one_time = uuid4()

    def body(tx: Transaction) -> None:
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
        assert tx.straight("SELECT 8") == [(8,)]

    run(database, body)
    assert numbers(database) == [1, 3, 4]


@pytest.mark.parametrize("found", [True, False])
def test_a_row_without_a_column_is_a_row(database: Database, found: bool) -> None:
    def body(tx: Transaction) -> None:
        assert (tx.first("SELECT FROM pg_class WHERE :found LIMIT 1", found=found) is not None) is found
        assert len(tx.all("SELECT FROM generate_series(1, 3) WHERE :found", found=found)) == 3 * found
        assert len(tx.straight("SELECT FROM generate_series(1, 3) WHERE :found", found=found)) == 3 * found

    run(database, body)
    with database.transaction() as tx:
        body(tx)


def test_whoever_swallows_an_error_commits_nothing_either(database: Database) -> None:
    """The server would answer a commit of a transaction that failed with a rollback, and no error."""

    def body(tx: Transaction) -> None:
        tx.execute(PUT, n=1)
        with pytest.raises(sa.exc.DataError):
            tx.one("SELECT 1 / :zero AS n", zero=0)
        tx.execute(PUT, n=2)

    assert sqlstate(refused(database, sa.exc.DBAPIError, body)) == "22012" and numbers(database) == []


def test_what_the_commit_would_refuse_can_be_asked_before(database: Database) -> None:
    def body(tx: Transaction) -> None:
        tx.many(PUT, [{"n": 1}, {"n": 1}])
        tx.execute("SET CONSTRAINTS ALL IMMEDIATE")

    refused(database, sa.exc.IntegrityError, body)
    assert numbers(database) == []


def test_sqlalchemys_own_way_stands_beside_it(database: Database) -> None:
    def body(tx: Transaction) -> None:
        tx.execute(PUT, n=1)
        with tx.connection.begin_nested() as inner:
            assert tx.connection.execute(sa.text("SELECT n FROM public.kept")).scalar() == 1
            tx.execute(sa.text("INSERT INTO public.kept VALUES (2)"))
            inner.rollback()
        tx.execute(PUT, n=3)

    run(database, body)
    assert numbers(database) == [1, 3]


def test_a_connection_that_breaks_is_a_database_that_is_away(database: Database) -> None:
    def body(tx: Transaction) -> None:
        tx.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        tx.execute(PUT, n=1)

    refused(database, Unavailable, body)
    assert numbers(database) == []


def test_an_error_that_nobody_read_shows_at_the_end_and_nothing_is_kept(database: Database) -> None:
    def body(tx: Transaction) -> None:
        tx.execute(PUT, n=1)
        tx.execute("SELECT 1 / :zero", zero=0)
        for n in range(2, 3 * AHEAD_MAX):
            tx.execute(PUT, n=n)

    assert sqlstate(refused(database, sa.exc.DataError, body)) == "22012" and numbers(database) == []


def test_more_than_is_sent_ahead_and_more_than_a_write_holds_all_arrives(database: Database) -> None:
    def body(tx: Transaction) -> None:
        brought = [tx.execute("SELECT length(:text) AS n, :n AS at", text="x" * n, n=n) for n in sizes]
        assert [one.one() for one in brought] == [(n, n) for n in sizes]

    sizes = [*range(2 * AHEAD_MAX), BYTES_MAX - 100, BYTES_MAX, 20_000, 1_000_000, 3]
    run(database, body)


def test_one_statement_with_values_of_other_types_is_parsed_anew(database: Database) -> None:
    def body(tx: Transaction) -> None:
        asked = [tx.execute("SELECT pg_typeof(:it)::text AS kind", it=it) for it in (1, 2, 1.5, uuid4(), 3)]
        assert [one.scalar() for one in asked] == ["smallint"] * 2 + ["double precision", "uuid", "smallint"]

    run(database, body)


def test_what_is_under_way_never_makes_the_server_take_its_transaction_for_busy(database: Database) -> None:
    """Else no limit of its own would end the transaction of a process that stands still."""

    def body(tx: Transaction) -> None:
        backend = tx.one("SELECT pg_backend_pid() AS pid").pid
        for n in range(AHEAD_MAX - 1):
            tx.execute("SELECT :n, :text", n=n, text="x" * 20 * n)
            _until(
                database,
                "SELECT state = 'idle in transaction' FROM pg_stat_activity WHERE pid = :pid",
                backend,
            )

    run(database, body)


def test_the_servers_limit_for_an_idle_transaction_counts(database: Database) -> None:
    def body(tx: Transaction) -> None:
        tx.one("SELECT set_config('idle_in_transaction_session_timeout', '20ms', true)")
        backend = tx.one("SELECT pg_backend_pid() AS pid").pid
        tx.execute(PUT, n=1)
        _until(database, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = :pid)", backend)
        tx.execute(PUT, n=2)

    refused(database, Unavailable, body)
    assert numbers(database) == []


def _until(database: Database, asked: str, backend: int) -> None:
    """On another thread, because this one holds a transaction open."""

    def look() -> None:
        while not database.run(lambda tx: tx.execute(asked, pid=backend).scalar()):
            threading.Event().wait(0.001)

    looking = threading.Thread(target=look)
    looking.start()
    looking.join(40)
    assert not looking.is_alive()
