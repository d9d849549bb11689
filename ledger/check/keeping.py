"""Findings about the house itself: the record, what is over its time, and what strains the database."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.check.found import Finding, Topic, critical, duration, late, size, warning
from ledger.check.seen import Seen
from ledger.settings import AlertSettings
from ledger.terminal import plain

VACUUM_TIMES = 2  # so often over what vacuum begins at, it has not come, or could remove nothing


def record(seen: Seen) -> Iterator[Finding]:
    """What the last check of the record found; nothing is walked here."""
    last = seen.last_check
    if last is not None and last.broken is not None:
        yield critical(Topic.CHAIN, f"The record is not whole: {last.broken.words} Do not change anything.")


def unpruned(seen: Seen, limits: AlertSettings) -> Iterator[Finding]:
    over = seen.overdue
    if over is not None and over.late_s > limits.unpruned_s:
        what = f"{over.rule.what} of {plain(over.namespace)} are over their time, the oldest for {duration(over.late_s)}"
        yield warning(Topic.PRUNED, f"{what}. Does a worker run? By hand: nottwice prune.")


def strained(seen: Seen, limits: AlertSettings) -> Iterator[Finding]:
    """Late or unusual is a warning; a transaction or a clock that is many times over its limit is critical."""
    open_ = seen.transaction
    what = f"A transaction is open for {duration(open_.age_s)} ({plain(open_.who)}): meanwhile vacuum removes nothing."
    found = late(Topic.TRANSACTION, what, open_.age_s, limits.transaction_s, limits.critical_times)
    return iter(
        [one for one in (found, _dead_rows(seen, limits), _clock(seen, limits), _growth(seen, limits)) if one]
    )


def dead_rows_limit(seen: Seen, limits: AlertSettings) -> int:
    """A table may have as many as vacuum lets stand."""
    return max(limits.dead_rows_max, VACUUM_TIMES * seen.dead_rows.vacuum_from)


def _dead_rows(seen: Seen, limits: AlertSettings) -> Finding | None:
    dead = seen.dead_rows
    if dead.rows <= dead_rows_limit(seen, limits):
        return None
    what = (
        f"Table {plain(dead.table)} has {dead.rows:,} dead rows; vacuum would begin at {dead.vacuum_from:,}."
    )
    return warning(Topic.DEAD_ROWS, f"{what} Is a transaction open, or autovacuum off?")


def _clock(seen: Seen, limits: AlertSettings) -> Finding | None:
    if (one := seen.clock) is None:
        return None
    way = "ahead of" if one.ahead_s > 0 else "behind"
    what = f"The clock of {plain(one.host)} ({one.kind} {plain(one.name)}) is {duration(abs(one.ahead_s))} {way} the database's."
    return late(Topic.CLOCKS, what, abs(one.ahead_s), limits.clock_s, limits.critical_times)


def _growth(seen: Seen, limits: AlertSettings) -> Finding | None:
    if (grown := seen.growth) is None or grown.bytes <= limits.growth_mb_max * 1e6:
        return None
    return warning(
        Topic.GROWTH,
        f"The ledger grew by {size(grown.bytes)} in {grown.hours:.0f} h. Is [retention] as you mean it?",
    )
