"""Counts of minutes become counts of hours, and those counts of months. Sums stay what they were, at every instant."""

from __future__ import annotations

from ledger.database import Transaction

# Table and columns are ours, never somebody's words.
FOLD = """
WITH old AS (
    DELETE FROM nottwice.{origin} WHERE {over}
    RETURNING date_trunc('{unit}', {time}) AS hour, {about}, n),
folded AS (
    INSERT INTO nottwice.{table}_hourly AS kept (hour, {about}, n)
    SELECT hour, {about}, sum(n) FROM old GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (hour, {about}) DO UPDATE SET n = kept.n + excluded.n)
SELECT FROM old
"""


def minutes(tx: Transaction, table: str, about: str, *, older_than_s: float) -> int:
    """Fold old minutes of `table` into hours of `table_hourly`; returns the minute rows taken. `about`: its two columns."""
    over = "minute < date_trunc('hour', now() - make_interval(secs => :s))"
    sql = FOLD.format(table=table, origin=table, over=over, unit="hour", time="minute", about=about)
    return tx.execute(sql, s=older_than_s).rowcount


def hours(tx: Transaction, table: str, about: str, *, older_than_s: float) -> int:
    """Fold old hours of `table_hourly` into months; returns the rows taken. A month stands under its first hour."""
    over = (
        "hour < date_trunc('month', now() - make_interval(secs => :s)) AND hour <> date_trunc('month', hour)"
    )
    sql = FOLD.format(
        table=table, origin=f"{table}_hourly", over=over, unit="month", time="hour", about=about
    )
    return tx.execute(sql, s=older_than_s).rowcount
