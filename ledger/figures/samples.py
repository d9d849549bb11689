"""How large the ledger is, hour by hour for a month: for the charts of Health, and for what a day adds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ledger.database import Transaction

KEPT_DAYS = 31
PAUSE_S = 50.0  # of several workers that ask in one minute, one measures
DAY_H = 24

TAKE = """
INSERT INTO nottwice.samples AS old (hour, events_bytes, event_contents_bytes, sends_bytes, record_bytes, others_bytes,
                                     oldest_transaction_s)
SELECT date_trunc('hour', now()), coalesce(sum(bytes) FILTER (WHERE kind = 'events'), 0),
       coalesce(sum(bytes) FILTER (WHERE kind = 'event contents'), 0), coalesce(sum(bytes) FILTER (WHERE kind = 'sends'), 0),
       coalesce(sum(bytes) FILTER (WHERE kind = 'record'), 0), coalesce(sum(bytes) FILTER (WHERE kind = 'others'), 0),
       (SELECT age_s FROM nottwice.oldest_transaction())
FROM nottwice.table_bytes()
WHERE NOT EXISTS (SELECT FROM nottwice.samples WHERE taken_at > now() - make_interval(secs => :pause_s))
HAVING count(*) > 0
ON CONFLICT (hour) DO UPDATE SET
    taken_at = now(), events_bytes = excluded.events_bytes, event_contents_bytes = excluded.event_contents_bytes,
    sends_bytes = excluded.sends_bytes, record_bytes = excluded.record_bytes, others_bytes = excluded.others_bytes,
    oldest_transaction_s = greatest(old.oldest_transaction_s, excluded.oldest_transaction_s)
"""
FORGET = "DELETE FROM nottwice.samples WHERE hour < now() - make_interval(days => :days)"


def take(tx: Transaction, *, pause_s: float = PAUSE_S) -> None:
    """Measure, unless somebody did so within `pause_s`, and forget what is over a month old."""
    tx.execute(TAKE, pause_s=pause_s)
    tx.execute(FORGET, days=KEPT_DAYS)


@dataclass(frozen=True, slots=True)
class Sample:
    """One hour: bytes at its last measuring, and the longest transaction seen in it, seconds."""

    hour: datetime
    events_bytes: int
    event_contents_bytes: int
    sends_bytes: int
    record_bytes: int
    others_bytes: int
    oldest_transaction_s: float

    @property
    def bytes(self) -> int:
        kinds = (self.events_bytes, self.event_contents_bytes, self.sends_bytes, self.record_bytes)
        return sum(kinds) + self.others_bytes


SINCE = """
SELECT hour, events_bytes, event_contents_bytes, sends_bytes, record_bytes, others_bytes, oldest_transaction_s
FROM nottwice.samples WHERE hour > now() - make_interval(hours => :hours) ORDER BY hour
"""


def month(tx: Transaction) -> tuple[Sample, ...]:
    """Of 30 days, the oldest first; hours in which no worker ran are missing."""
    return _since(tx, 30 * DAY_H)


def _since(tx: Transaction, hours: int) -> tuple[Sample, ...]:
    return tuple(Sample(**row._asdict()) for row in tx.all(SINCE, hours=hours))


@dataclass(frozen=True, slots=True)
class Growth:
    """What `hours` have added, in bytes; less than a day where the ledger was not measured longer."""

    bytes: int
    hours: float


def day(tx: Transaction) -> Growth | None:
    """What the last day added. None before two hours were measured."""
    measured = _since(tx, DAY_H + 1)
    if len(measured) < 2:
        return None
    first, last = measured[0], measured[-1]
    return Growth(last.bytes - first.bytes, (last.hour - first.hour).total_seconds() / 3600)
