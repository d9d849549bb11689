"""Transactions inside an event loop: what holds for a thread's holds for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Protocol

import pytest
from sqlalchemy.exc import DBAPIError

from ledger.database import Database, sqlstate
from ledger.database.asking import Rows, statement
from ledger.database.session import Session
from ledger.errors import EndsTransaction, Unavailable
from tests.fix_events import Ledger

MORE_THAN_A_LINE_HOLDS = 4_000_000  # bytes: both ends' buffers are smaller
UNLIMITED = statement("SELECT 1")
PID = statement("SELECT pg_backend_pid()")
KEEP = statement("INSERT INTO nottwice.counters SELECT now(), 'kept', 'accepted', gen_random_uuid(), 1")
KEPT = "SELECT count(*) FROM nottwice.counters WHERE namespace = 'kept'"


class Run(Protocol):
    def __call__(self, what: Callable[[Session], Awaitable[Any]], opened: Database = ..., /) -> Any: ...


@pytest.fixture
def run(database: Database) -> Iterator[Run]:
    """Runs what is given a session, in a loop of its own: a browser's test before this one may have left one here."""

    def in_a_loop(what: Callable[[Session], Awaitable[Any]], opened: Database = database) -> Any:
        async def whole() -> Any:
            with closing(Session(opened)) as session:
                return await what(session)

        return beside.submit(lambda: asyncio.run(whole())).result()

    with ThreadPoolExecutor(1) as beside:
        yield in_a_loop


async def alone(session: Session, sql: str, **values: Any) -> Rows:
    async with session.transaction(UNLIMITED):
        return await session.run(statement(sql, **values))


def test_what_was_committed_stands_and_an_error_undoes_all_of_it(run: Run, book: Ledger) -> None:
    async def kept(session: Session, then: str) -> None:
        async with session.transaction(UNLIMITED):
            await session.run(KEEP)
            await session.run(statement(then))
            assert then != "SELECT 'second thoughts'"

    async def several(session: Session) -> Rows:
        await kept(session, "SELECT 1")
        for then in ("SELECT 1 / 0", "SELECT no_such_column", "COMMIT", "SELECT 'second thoughts'"):
            with pytest.raises((DBAPIError, EndsTransaction, AssertionError)):
                await kept(session, then)
        return await alone(session, KEPT)

    assert run(several) == [(1,)] and book.value(KEPT) == 1


def test_settings_hold_for_the_statement_that_comes_with_them_and_for_no_later_transaction(run: Run) -> None:
    async def slow(session: Session) -> tuple[str | None, Rows]:
        limit = statement("SELECT set_config('statement_timeout', '20', true)")
        with pytest.raises(DBAPIError) as stopped:
            async with session.transaction(limit):
                await session.run(statement("SELECT pg_sleep(60)"))
        return sqlstate(stopped.value), await alone(session, "SELECT current_setting('statement_timeout')")

    assert run(slow) == ("57014", [("0",)])


def test_each_transaction_is_read_committed_and_writes_whatever_the_default(run: Run, book: Ledger) -> None:
    async def looked(session: Session) -> list[Rows]:
        names = ("transaction_isolation", "transaction_read_only")
        return [await alone(session, "SELECT current_setting(:name)", name=name) for name in names]

    name = book.value("SELECT current_database()")
    book.run(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    book.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert run(looked) == [[("read committed",)], [("off",)]]


@pytest.mark.parametrize("prepares", [False, True])
def test_statements_are_prepared_once_and_only_where_they_may_be(
    run: Run, database_url: str, prepares: bool
) -> None:
    async def again(session: Session) -> Rows:
        for n in range(3):
            assert await alone(session, "SELECT CAST(:n AS bigint)", n=n) == [(n,)]
        return await alone(
            session, "SELECT statement FROM pg_prepared_statements WHERE statement LIKE 'SELECT CAST%'"
        )

    with closing(Database(database_url, prepare=prepares)) as opened:
        assert run(again, opened) == [("SELECT CAST($1 AS bigint)",)] * prepares


def test_more_than_a_line_holds_goes_there_and_comes_back(run: Run) -> None:
    body = bytes(range(256)) * (MORE_THAN_A_LINE_HOLDS // 256)
    assert run(lambda session: alone(session, "SELECT CAST(:body AS bytea)", body=body)) == [(body,)]


def test_a_connection_that_was_ended_is_made_anew(run: Run, book: Ledger) -> None:
    """Idle, nobody hears of it; within a transaction, whoever had begun it does."""

    def ended(pid: int) -> None:
        assert book.value("SELECT pg_terminate_backend(:pid, 10000)", pid=pid)

    async def ended_within(session: Session) -> None:
        async with session.transaction(UNLIMITED):
            await session.run(KEEP)
            ended(*(await session.run(PID))[0])
            await session.run(KEEP)

    async def twice(session: Session) -> Rows:
        ended(*(await alone(session, PID.sql))[0])
        await asyncio.sleep(0.001)  # a turn of the loop: it sees the line's end
        await alone(session, "SELECT 1")
        with pytest.raises(Unavailable):
            await ended_within(session)
        return await alone(session, KEPT)

    assert run(twice) == [(0,)]


def test_who_is_given_up_while_the_server_works_leaves_nothing_open(run: Run) -> None:
    async def given_up(session: Session) -> Rows:
        await alone(session, "SELECT 1")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(alone(session, "SELECT pg_sleep(2)"), 0.05)
        return await alone(session, "SELECT 1")

    assert run(given_up) == [(1,)]
