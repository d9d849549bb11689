"""Per-minute counters. Each writer (a connection) has rows of its own, so that no two ever wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from ledger.database import Transaction
from ledger.database.asking import Statement, statement
from ledger.database.columns import Numbers, Texts
from ledger.figures import folding

BUMP = """
INSERT INTO nottwice.counters (minute, namespace, metric, writer, n)
SELECT date_trunc('minute', now()), c.namespace, c.metric, :writer, c.n
FROM unnest(CAST(:namespaces AS text[]), CAST(:metrics AS text[]), CAST(:ns AS bigint[])) AS c(namespace, metric, n)
ORDER BY c.namespace, c.metric
ON CONFLICT (minute, namespace, metric, writer) DO UPDATE SET n = nottwice.counters.n + excluded.n
"""


def bump_many(tx: Transaction, writer: UUID, counts: Mapping[tuple[str, str], int]) -> None:
    """Add to several (namespace, metric) counters of this minute, in one statement."""
    if counts:
        sql, values = bumping(writer, counts)
        tx.execute(sql, **values)


def bumping(writer: UUID, counts: Mapping[tuple[str, str], int]) -> Statement:
    """The statement of `bump_many`."""
    return statement(
        BUMP,
        writer=writer,
        namespaces=Texts([namespace for namespace, _ in counts]),
        metrics=Texts([metric for _, metric in counts]),
        ns=Numbers(list(counts.values())),
    )


def bump(tx: Transaction, writer: UUID, namespace: str, metric: str, n: int = 1) -> None:
    bump_many(tx, writer, {(namespace, metric): n})


def total(tx: Transaction, metric: str) -> int:
    """Since the installation: the hours that are folded plus the minutes that are not."""
    return int(
        tx.one(
            """SELECT coalesce((SELECT sum(n) FROM nottwice.counters WHERE metric = :metric), 0)
                    + coalesce((SELECT sum(n) FROM nottwice.counters_hourly WHERE metric = :metric), 0) AS n""",
            metric=metric,
        ).n
    )


def fold(tx: Transaction, *, older_than_s: float = 86_400.0) -> int:
    """Fold old minutes into hours; returns the minute rows taken. Sums stay what they were, at every instant."""
    return folding.minutes(tx, "counters", "namespace, metric", older_than_s=older_than_s)


def fold_hours(tx: Transaction, *, older_than_s: float) -> int:
    """Fold old hours into months; returns the rows taken. A month stands under its first hour. Sums stay as they were."""
    return folding.hours(tx, "counters", "namespace, metric", older_than_s=older_than_s)
