"""What the front door turned away, counted by the minute, the source and the reason.

Receivers count in memory and add once in a while, so that a forged request costs no transaction; each adds to rows of
its own, so that no two wait for each other. A count is of the minute in which it was added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from ledger.database import Transaction
from ledger.figures import folding


class Refusal(StrEnum):
    """Why a request was turned away. The last two were in order, and are asked for again."""

    BAD_SIGNATURE = "bad_signature"
    MALFORMED = "malformed"  # not a document, or empty
    CUT_SHORT = "cut_short"  # it ended before its end
    TOO_SLOW = "too_slow"
    TOO_LARGE = "too_large"
    CODED = "coded"  # compressed, in a way that the source does not take
    UNKNOWN_SOURCE = "unknown_source"
    WRONG_METHOD = "wrong_method"
    NOT_HTTP = "not_http"
    NO_ROOM = "no_room"  # too many bodies in hand
    NOT_STORED = "not_stored"


Counts = Mapping[tuple[str, Refusal], int]  # by the source's name, '' for an address that is none of ours


@dataclass(frozen=True, slots=True)
class Refused:
    """How often one source's requests met one refusal, and in which minute last."""

    source: str
    reason: Refusal
    n: int
    last_at: datetime


ADD = """
INSERT INTO nottwice.refusals (minute, source, reason, writer, n)
SELECT date_trunc('minute', now()), r.source, r.reason, :writer, r.n
FROM unnest(CAST(:sources AS text[]), CAST(:reasons AS text[]), CAST(:ns AS bigint[])) AS r(source, reason, n)
ORDER BY r.source, r.reason
ON CONFLICT (minute, source, reason, writer) DO UPDATE SET n = nottwice.refusals.n + excluded.n
"""


def add(tx: Transaction, writer: UUID, counts: Counts) -> None:
    """Add to this minute's counts, in one statement. `writer` is the start of the process that counted."""
    if counts:
        tx.execute(
            ADD,
            writer=writer,
            sources=[source for source, _ in counts],
            reasons=[reason.value for _, reason in counts],
            ns=list(counts.values()),
        )


def lately(tx: Transaction, *, minutes: int = 60) -> list[Refused]:
    """What was refused in the last minutes, a source and a reason a row, the most frequent first.

    A day's minutes at most are kept; older ones are folded into hours.
    """
    rows = tx.all(
        """SELECT source, reason, CAST(sum(n) AS bigint) AS n, max(minute) AS last_at FROM nottwice.refusals
           WHERE minute > now() - make_interval(mins => :minutes)
           GROUP BY source, reason ORDER BY n DESC, source, reason""",
        minutes=minutes,
    )
    return [Refused(row.source, Refusal(row.reason), row.n, row.last_at) for row in rows]


def fold(tx: Transaction, *, older_than_s: float = 86_400.0) -> int:
    """Fold old minutes into hours; returns the minute rows taken. Sums stay what they were, at every instant."""
    return folding.minutes(tx, "refusals", "source, reason", older_than_s=older_than_s)


def fold_hours(tx: Transaction, *, older_than_s: float) -> int:
    """Fold old hours into months; returns the rows taken. A month stands under its first hour. Sums stay as they were."""
    return folding.hours(tx, "refusals", "source, reason", older_than_s=older_than_s)
