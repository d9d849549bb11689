"""One thread's way into the ledger: the transaction that makes deliveries durable, and what its failure means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from sqlalchemy.exc import DataError, DBAPIError

from ledger import faults, inbox
from ledger.database import Database, Transaction, sqlstate
from ledger.errors import Unavailable
from ledger.receiver.sources.adapter import Item
from ledger.records import Acceptance

# Of a write whose commit may or may not have happened; the first may meet a connection that a restart has broken:
# nobody looks before each use whether it lives, which would be a statement more for each batch.
TRIES_MAX = 3
HURRY = 10
LOCK_TIMEOUT = "55P03"
# Trouble of the server, not of one row: resources, operator, system, connection, rights and schema, read-only.
OF_THE_SERVER = ("53", "57", "58", "08", "25", "28", "3D", "42", "XX")
OF_THE_CONTENT = ("22", "23", "54")  # data, constraint, program limit

# One statement, whatever the server's default: a weaker one acknowledges what a crash may still take away. Every row is
# found by a key: a plan that was kept from the time when a table was small walked all of it when it had grown.
LIMITS = """
SELECT set_config('lock_timeout', '{lock_ms}', true), set_config('statement_timeout', '{statement_ms}', true),
       set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('on', 'remote_apply')
                                             THEN current_setting('synchronous_commit') ELSE 'on' END, true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
"""


class Writer:
    """Used by one thread at a time. Its id keeps its counters apart from everybody else's."""

    def __init__(self, database: Database, *, lock_wait_s: float, statement_s: float) -> None:
        self._database, self._id = database, uuid4()
        self._lock_wait_s, self._statement_s = lock_wait_s, statement_s

    def store(self, items: Sequence[Item], *, hurried: bool = False) -> list[Acceptance]:
        """Durable when it returns. Raises Unavailable, or the database's own error; then nothing is acknowledged.

        `hurried`: somebody's lock was waited for already, so hardly wait again.
        A commit without an answer may have happened: the same write is tried again, and meets its own rows.
        """
        for tries_left in reversed(range(TRIES_MAX)):
            try:
                stored = self._store_once(items, hurried)
                break
            except Unavailable:
                if not tries_left:
                    raise
        faults.point("receiver.after_commit")
        return stored

    def _store_once(self, items: Sequence[Item], hurried: bool) -> list[Acceptance]:
        listener = _Listener()
        lock_wait_s = self._lock_wait_s / HURRY if hurried else self._lock_wait_s
        try:
            stored = self._database.run(lambda tx: self._accept(tx, items, lock_wait_s, listener))
        finally:
            listener.leave()
        if listener.warned:
            raise Unavailable("The commit returned with a warning: a standby may not have it.")
        return stored

    def _accept(
        self, tx: Transaction, items: Sequence[Item], lock_wait_s: float, listener: _Listener
    ) -> list[Acceptance]:
        listener.listen(tx)
        tx.begin(limits(lock_wait_s, self._statement_s))
        faults.point("receiver.before_insert")
        stored = inbox.accept(tx, items, writer=self._id)
        faults.point("receiver.before_commit")
        return stored


class _Listener:
    """Hears the server's warnings: a wait for a synchronous standby that was broken off ends in a mere warning."""

    def __init__(self) -> None:
        self.warned = False
        self._connection: Any = None

    def listen(self, tx: Transaction) -> None:
        self.leave()  # a transaction that is run again may have another connection
        self._connection = tx.connection.connection.driver_connection
        self._connection.add_notice_handler(self._hear)

    def leave(self) -> None:
        if self._connection is not None:
            self._connection.remove_notice_handler(self._hear)
            self._connection = None

    def _hear(self, notice: Any) -> None:
        self.warned = self.warned or notice.severity_nonlocalized == "WARNING"


def is_lock_timeout(error: Exception) -> bool:
    """Whether somebody else held a row or a key for longer than we wait."""
    return isinstance(error, DBAPIError) and sqlstate(error) == LOCK_TIMEOUT


def is_about_content(error: Exception) -> bool:
    """Whether the same bytes would fail again: then nobody must be asked to send them again."""
    if isinstance(error, DBAPIError):
        state = sqlstate(error)
        return state.startswith(OF_THE_CONTENT) if state else isinstance(error, DataError)
    return isinstance(error, ValueError)  # the driver could not even write it down


def is_about_one(error: Exception) -> bool:
    """Whether one request of a batch may be to blame, so that the others should be tried without it."""
    if isinstance(error, Unavailable):
        return False
    return not (sqlstate(error) or "").startswith(OF_THE_SERVER)


def limits(lock_wait_s: float, statement_s: float) -> str:
    """What every transaction of the front door begins with."""
    return LIMITS.format(lock_ms=_ms(lock_wait_s), statement_ms=_ms(statement_s))


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
