"""Statements sent without waiting for the answer of the one before: libpq's pipeline mode, on our own terms.

What reaches the server is always whole, statements and the Sync behind them in one write. Without its Sync the server
takes a transaction for busy: neither `statement_timeout`, which ends with the statement, nor
`idle_in_transaction_session_timeout`, which begins when a Sync is answered, would end it while this process stands still,
and its locks would stay. psycopg's own `Pipeline` writes the two apart (PostgreSQL 18: 34.5, 54.2.4, 19.11.1).

The same statement again and again is parsed once: what follows it names the unnamed statement, within one transaction,
so that a pooler in transaction mode may stand between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.waiting import Ready, Wait

# Answers that nobody takes: so many fit between server and client while this process stands still (a socket's 208 kB hold
# some 250). A server that waits for room to answer is busy, too.
AHEAD_MAX = 64
TOGETHER_MAX = 16  # statements in one write
BYTES_MAX = 4_000  # of them; libpq writes by itself what fills its 8 kB (pqPutMsgEnd in fe-misc.c)
MESSAGES_BYTES = 80  # what a statement needs beside its words and values
NO_COPY = "COPY cannot be used here."

COPIES = frozenset({ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH})


class Sent:
    """A statement under way: `result` once its answer was taken."""

    __slots__ = ("_line", "_result")

    def __init__(self, line: SentAhead) -> None:
        self._line = line
        self._result: PGresult | None = None

    @property
    def result(self) -> PGresult:
        """What it brought. Raises the first error of all that was sent."""
        self._line.settle()
        if self._result is None:
            raise psycopg.InterfaceError("Its transaction has ended without it.")
        return self._result

    def take(self, result: PGresult) -> None:
        self._result = result


class SentAhead:
    """One connection within one transaction. An error is told by the next answer that is asked for, and at the end.

    Whoever caught one is told again at the end: what it was an answer to may have been somebody else's statement.
    """

    def __init__(self, driver: psycopg.Connection[Any]) -> None:
        """From now on, until `end`, nobody else may use the connection."""
        self.driver, self._own, self._coding = driver, driver.pgconn, driver.info.encoding
        self._under_way: deque[Sent] = deque()
        self._unwritten, self._unwritten_bytes, self._syncs = 0, 0, 0
        self._parsed: tuple[bytes, tuple[int, ...]] | None = None
        self._first_error: psycopg.Error | None = None
        self._transformer = Transformer(driver)
        self._own.enter_pipeline_mode()

    def send(self, statement: sa.TextClause, values: Mapping[str, Any]) -> Sent:
        """Send one statement, soon; after AHEAD_MAX of them, wait for those before it."""
        if len(self._under_way) >= AHEAD_MAX:
            self.settle()
        sql, names = numbered(statement)
        params = self._transformer.dump_sequence(
            [values[name] for name in names], [PyFormat.AUTO] * len(names)
        )
        size = MESSAGES_BYTES + len(sql) + sum(len(param) for param in params if param is not None)
        if self._unwritten_bytes + size > BYTES_MAX:
            self._write()
        self._put(sql, params)
        self._unwritten, self._unwritten_bytes = self._unwritten + 1, self._unwritten_bytes + size
        if self._unwritten >= TOGETHER_MAX or size > BYTES_MAX:
            self._write()
        sent = Sent(self)
        self._under_way.append(sent)
        return sent

    def _put(self, sql: bytes, params: Sequence[Buffer | None]) -> None:
        types, formats = self._transformer.types or (), self._transformer.formats
        if self._parsed == (sql, types):
            self._own.send_query_prepared(b"", params, param_formats=formats)
            return
        self._own.send_query_params(sql, params, param_types=types, param_formats=formats)
        self._parsed = (sql, types)

    def _write(self) -> None:
        if self._unwritten:
            self._own.pipeline_sync()
            self._unwritten, self._unwritten_bytes, self._syncs = 0, 0, self._syncs + 1

    def settle(self) -> None:
        """Wait until all that was sent has run. Raises the first error of it, at each call."""
        if self._under_way:
            self._write()
            self.wait_for_all()
        if self._first_error is not None:
            raise self._first_error

    def wait_for_all(self) -> None:
        """One look at the line. Raises OperationalError when it broke."""
        self.driver.wait(self._take_answers())

    def _take_answers(self) -> PQGen[None]:
        while self._own.flush():
            yield from self._moved(Wait.RW)
        while self._syncs:
            while self._own.is_busy():
                yield from self._moved(Wait.R)
            self._take(self._own.get_result())

    def _moved(self, what: Wait) -> PQGen[None]:
        while not (ready := (yield what)):
            pass  # no longer than the loop's own interval
        if ready & Ready.R:
            self._own.consume_input()

    def _take(self, result: PGresult | None) -> None:
        """A statement's answer, the nothing behind it, or the answer to a Sync."""
        if result is None:
            self._refuse_a_lost_one()
            self._under_way.popleft()
        elif result.status == ExecStatus.PIPELINE_SYNC:
            self._syncs -= 1
        elif result.status in COPIES:
            self._own.finish()
            raise psycopg.NotSupportedError(NO_COPY)
        else:
            if result.status == ExecStatus.FATAL_ERROR and self._first_error is None:
                self._first_error = psycopg.errors.error_from_result(result, encoding=self._coding)
            self._under_way[0].take(result)

    def _refuse_a_lost_one(self) -> None:
        if self._own.status == ConnStatus.BAD:
            raise self._first_error or psycopg.OperationalError(self._own.get_error_message(self._coding))

    def rows(self, sent: Sent) -> list[tuple[Any, ...]]:
        """What a statement brought."""
        result = sent.result
        loaded = Transformer(self.driver)
        loaded.set_pgresult(result)
        return loaded.load_rows(0, result.ntuples, tuple)

    def columns(self, sent: Sent) -> list[str]:
        result = sent.result
        return [(result.fname(n) or b"").decode(self._coding) for n in range(result.nfields)]

    @staticmethod
    def rowcount(sent: Sent) -> int:
        """How many rows it brought or changed; -1 where there is no such number."""
        brought = sent.result
        if brought.status == ExecStatus.TUPLES_OK:
            return brought.ntuples
        return -1 if brought.command_tuples is None else brought.command_tuples

    def end(self) -> None:
        """Let others use the connection again. Raises the first error of all that was sent."""
        try:
            self.settle()
        finally:
            self._own.exit_pipeline_mode()


@lru_cache(maxsize=512)
def numbered(statement: sa.TextClause) -> tuple[bytes, Sequence[str]]:
    """A statement with its values numbered as the protocol numbers them, and their names in that order."""
    compiled = statement.compile(dialect=_DIALECT)
    return str(compiled).encode(), tuple(compiled.positiontup or ())


_KIND: Any = sa.make_url("postgresql+psycopg://").get_dialect()
_DIALECT = _KIND(paramstyle="numeric_dollar")
