"""The engine, the transaction, and the two rules that hold everywhere: no call inside, retry outside.

`Database.transaction()` is the only place that commits, beside that of an event loop (`session.py`). Every transaction
names READ COMMITTED READ WRITE in its BEGIN, so neither the server's default nor a pooled connection's past decides. Works
behind PgBouncer in transaction mode: no session state, no prepared statements, no startup options.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, TypeVar, cast

import psycopg
import psycopg.conninfo
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError, StatementError

from ledger.database import straight
from ledger.database.asking import Asking, asked
from ledger.errors import CallInsideTransaction, EndsTransaction, LedgerError, Misconfigured, Unavailable
from ledger.records import Role

T = TypeVar("T")
RETRIED_BLINDLY = frozenset(
    {"40001", "40P01"}
)  # serialization failure, deadlock: the server undid everything
# The referee between two claims, or two decisions, that began at the same instant: as good as a serialization failure.
REFEREES = frozenset({"one_of_a_lane_at_a_time", "one_send_a_number"})
TRIES_MAX = 5
PREPARE_AFTER = 5  # psycopg's own threshold
WORDS_MAX = 200
NOT_YOURS = (
    "This transaction is not yours to begin or to end: what else is in it would be half done. Nothing was committed; "
    "leave that to whoever opened it."
)
# No state at all: the connection was never made or broke. 57P01..57P03: shutting down or starting; 53300: too many
# connections; 08xxx: connection errors.
UNREACHABLE = frozenset(
    {None, "57P01", "57P02", "57P03", "53300", "08000", "08001", "08003", "08004", "08006"}
)

_inside: ContextVar[bool] = ContextVar("inside_a_transaction", default=False)


ENDS = re.compile(
    r"\s*(COMMIT|END|ABORT|BEGIN|START|ROLLBACK(?!\s+(WORK\s+|TRANSACTION\s+)?TO\b))\b", re.IGNORECASE
)
_kept: set[sa.Connection] = set()


@lru_cache(maxsize=512)
def literal(sql: str) -> sa.TextClause:
    """A statement as SQLAlchemy takes it. Raises EndsTransaction for one that would begin or end a transaction."""
    if ENDS.match(sql):
        raise EndsTransaction(NOT_YOURS)
    return sa.text(sql)


def _refuse_by_hand(connection: sa.Connection) -> None:
    """Cut rather than kept: a transaction whose end was refused must not go back into the pool as it is."""
    if connection in _kept:
        connection.invalidate()
        raise EndsTransaction(NOT_YOURS)


@contextmanager
def keep(connection: sa.Connection) -> Iterator[None]:
    """Within the block nobody commits what is open on this connection: whoever tries raises EndsTransaction."""
    _kept.add(connection)
    try:
        yield
    finally:
        _kept.discard(connection)


class Transaction:
    """An open transaction. Ledger functions take one and never commit; the caller composes atomic steps."""

    __slots__ = ("connection",)

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection

    def execute(self, sql: str | sa.Executable, /, **values: Any) -> sa.CursorResult[Any]:
        """Run one statement; literal SQL names its values as `:name`."""
        statement = literal(sql) if isinstance(sql, str) else sql
        return self.connection.execute(statement, values)

    def all(self, sql: str | sa.Executable, /, **values: Any) -> Sequence[sa.Row[Any]]:
        return self.execute(sql, **values).all()

    def one(self, sql: str | sa.Executable, /, **values: Any) -> sa.Row[Any]:
        return self.execute(sql, **values).one()

    def first(self, sql: str | sa.Executable, /, **values: Any) -> sa.Row[Any] | None:
        return self.execute(sql, **values).first()

    def straight(self, sql: str, /, **values: Any) -> list[tuple[Any, ...]]:
        """As `all`, straight to the driver: for the few statements that are executed a hundred times a second.

        SQLAlchemy's own way there takes longer than theirs. The errors are those of `all`.
        """
        return straight.rows(self.connection, literal(sql), values)

    def asked(self, asking: Asking[T]) -> T:
        """What comes of statements that follow one another, each straight to the driver."""
        return asked(asking, lambda statement: self.straight(statement.sql, **statement.values))

    def begin(self, settings: str) -> None:
        """Ahead of all statements: begin at once, with settings of this transaction (`SELECT set_config(…)`), in one go."""
        straight.begin(self.connection, settings)

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run one statement for each row of values."""
        if rows:
            self.connection.execute(literal(sql), list(rows))

    def savepoint(self) -> AbstractContextManager[object]:
        """Within the block an error undoes the block alone."""
        return self.connection.begin_nested()

    def kept(self) -> AbstractContextManager[None]:
        """Within the block nobody commits it: whoever tries raises EndsTransaction, and all of it is undone."""
        return keep(self.connection)


class Database:
    """A pool of connections to one database, under one login.

    `pre_ping` looks whether a connection still lives before each use, at the price of a statement. Without it the
    first use after a restart of the server raises Unavailable: for loops that go on by themselves.
    """

    def __init__(
        self,
        url: str | sa.URL,
        *,
        pool_size: int = 5,
        pool_wait_s: float = 5.0,
        connect_timeout_s: int = 5,
        silence_s: float = 15.0,
        pre_ping: bool = True,
        prepare: bool = False,
    ) -> None:
        """`prepare` statements that come again and again: never behind a pooler in transaction mode.

        `silence_s`: how long a line may carry nothing back, not even that something arrived, until it is broken.
        """
        self.prepares = prepare
        self.engine = sa.create_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=pool_wait_s,
            pool_pre_ping=pre_ping,
            pool_use_lifo=True,
            isolation_level="READ COMMITTED",
            connect_args={
                "prepare_threshold": PREPARE_AFTER if prepare else None,
                "connect_timeout": connect_timeout_s,
                **_watched(url, silence_s),
            },
            skip_autocommit_rollback=True,
        ).execution_options(postgresql_readonly=False)
        sa.event.listen(self.engine, "commit", _refuse_by_hand)

    @contextmanager
    def transaction(self, role: Role | None = None) -> Iterator[Transaction]:
        """Commit on success, roll back on any error. Nested use is a fault: one transaction, one commit.

        With `role`, everything inside runs under that person's database role.
        Raises Unavailable when the database cannot be reached; other database errors pass through.
        """
        if _inside.get():
            raise CallInsideTransaction(
                "A transaction is open already; pass it on instead of opening another."
            )
        mark = _inside.set(True)
        try:
            with reachable(), self.engine.begin() as connection:
                if role is not None:
                    connection.exec_driver_sql(f"SET LOCAL ROLE nottwice_{Role(role).value}")
                yield Transaction(connection)
        finally:
            _inside.reset(mark)

    def run(self, body: Callable[[Transaction], T], *, role: Role | None = None) -> T:
        """Run `body` in a transaction of its own, again after a serialization failure, a deadlock or a referee's word.

        The whole body is repeated, so it must keep nothing from a try that failed.
        """
        for tries_left in reversed(range(TRIES_MAX)):
            try:
                with self.transaction(role) as tx:
                    return body(tx)
            except DBAPIError as error:
                if not (is_retried(error) and tries_left):
                    raise
                time.sleep(pause_s(TRIES_MAX - tries_left))
        raise AssertionError("unreachable")

    def connection(self) -> psycopg.Connection[Any]:
        """One of its own, for who closes it. Raises Unavailable."""
        with reachable():
            lent = self.engine.raw_connection()
            driver = lent.driver_connection
            lent.detach()
        return cast("psycopg.Connection[Any]", driver)

    def close(self) -> None:
        """End the connections; one that a thread still holds ends when it is given back."""
        sa.event.listen(self.engine, "checkin", _end)
        self.engine.dispose()


def _end(_: object, given_back: Any) -> None:
    given_back.invalidate()


def usable(url: str) -> str:
    """The URL itself. Raises Misconfigured for what neither SQLAlchemy nor libpq could use, without the URL."""
    try:
        psycopg.conninfo.make_conninfo("", **connect_options(url))
    except (sa.exc.ArgumentError, psycopg.ProgrammingError, ValueError) as error:
        what = (
            str(error).strip() if isinstance(error, psycopg.ProgrammingError) else "it is not written as one"
        )
        raise Misconfigured(f"DATABASE_URL cannot be used: {what}.") from None
    return url


def connect_options(url: str | sa.URL) -> dict[str, Any]:
    """What psycopg is called with for a URL, one that names several hosts included."""
    parts = sa.make_url(url)
    _, options = parts.get_dialect()().create_connect_args(parts)
    return dict(options)


def _watched(url: str | sa.URL, silence_s: float) -> dict[str, int]:
    """libpq's options that bound a silence, except those that the URL has itself: for our end of the line alone.

    Without them a commit that a network swallows is waited for as long as the system tries, a quarter of an hour and
    more. A server on this machine's own socket has none (libpq, 32.1.2: "ignored for Unix-domain sockets").
    """
    third_s = max(1, round(silence_s / 3))
    options = {
        "tcp_user_timeout": max(1, round(silence_s * 1000)),  # of what was sent
        "keepalives_idle": third_s,  # of what is waited for
        "keepalives_interval": third_s,
        "keepalives_count": 2,
    }
    return {name: value for name, value in options.items() if name not in sa.make_url(url).query}


def sqlstate(error: BaseException) -> str | None:
    """The five letters PostgreSQL gives an error, or None when it never reached us."""
    original = error.orig if isinstance(error, StatementError) else error
    return original.sqlstate if isinstance(original, psycopg.Error) else None


def pause_s(tries: int) -> float:
    """How long to wait after so many tries, each time another while."""
    return random.uniform(0.002, 0.02) * tries


def is_retried(error: DBAPIError) -> bool:
    """Whether the server undid everything for a reason that is gone when it is tried again."""
    constraint = getattr(getattr(error.orig, "diag", None), "constraint_name", None)
    return sqlstate(error) in RETRIED_BLINDLY or constraint in REFEREES


def outside_transactions(call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run a provider call or a slow part. Raises CallInsideTransaction when this thread or task holds one open."""
    refuse_inside_transaction()
    return call(*args, **kwargs)


def refuse_inside_transaction() -> None:
    """Raises CallInsideTransaction when this thread or task holds a transaction open."""
    if _inside.get():
        raise CallInsideTransaction("A network or model call was about to run inside an open transaction.")


@contextmanager
def reachable() -> Iterator[None]:
    """Raises Unavailable for what says that the database cannot be reached; all else as it is."""
    try:
        yield
    except LedgerError:
        raise
    except (OperationalError, sa.exc.TimeoutError) as error:
        if isinstance(error, OperationalError) and not (
            error.connection_invalidated or sqlstate(error) in UNREACHABLE
        ):
            raise
        raise Unavailable(
            f"The database did not answer ({_first_line(error)}). Nothing was lost; try again."
        ) from error


def _first_line(error: sa.exc.SQLAlchemyError) -> str:
    """The server's or the network's own words; a statement, its values and a password are never among them."""
    words = str(getattr(error, "orig", None) or "").strip().splitlines()
    return words[0][:WORDS_MAX].rstrip(".?") if words else type(error).__name__
