"""What slows a ledger down from below: a transaction that stays open, rows that vacuum does not remove, clocks that differ.

Read from the server's own statistics, so nothing here costs with history.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger.database import Transaction


@dataclass(frozen=True, slots=True)
class OldestTransaction:
    """Of this database, prepared ones included. `hidden` sessions are those that the ledger's owner may not see."""

    age_s: float
    who: str
    hidden: int


@dataclass(frozen=True, slots=True)
class DeadRows:
    """The table with the most dead rows for its size, how many, and from how many on vacuum would begin."""

    table: str
    rows: int
    vacuum_from: int


@dataclass(frozen=True, slots=True)
class Clock:
    """The living process whose host's clock is furthest from the database's; ahead is positive, seconds."""

    kind: str
    name: str
    host: str
    ahead_s: float


def oldest_transaction(tx: Transaction) -> OldestTransaction:
    """This one and what workers wait in are among them; both last seconds."""
    return OldestTransaction(
        **tx.one("SELECT age_s, who, hidden FROM nottwice.oldest_transaction()")._asdict()
    )


# As PostgreSQL's manual has it ("The Autovacuum Daemon"): a threshold, and a share of the table.
DEAD_ROWS = """
SELECT s.relname AS "table", s.n_dead_tup AS rows,
       CAST(CAST(current_setting('autovacuum_vacuum_threshold') AS float8)
            + CAST(current_setting('autovacuum_vacuum_scale_factor') AS float8) * greatest(c.reltuples, 0) AS bigint) AS vacuum_from
FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
WHERE s.schemaname = 'nottwice' ORDER BY s.n_dead_tup DESC LIMIT 1
"""


def dead_rows(tx: Transaction) -> DeadRows:
    """By the server's own counting, which is about a second old."""
    return DeadRows(**tx.one(DEAD_ROWS)._asdict())


CLOCKS = """
SELECT kind, name, host, ahead_s FROM nottwice.workers
WHERE stopped_at IS NULL AND seen_at > now() - make_interval(secs => :silent_s) ORDER BY abs(ahead_s) DESC LIMIT 1
"""


def clocks(tx: Transaction, silent_s: float) -> Clock | None:
    """Of the processes that gave a sign within `silent_s`, as of that sign. None when there is none."""
    row = tx.first(CLOCKS, silent_s=silent_s)
    return None if row is None else Clock(**row._asdict())
