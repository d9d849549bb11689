"""What is kept no longer than it is needed. Only finished work, in small batches, each a transaction.

`nottwice prune` removes all that is over its time; a worker's maintenance does the same in rounds of its own. Rows are
stripped, not removed: numbers, states, times and digests of what was sent stay. What is pending, set aside, under way
or waiting for a person is never touched. docs/retention.md says what goes when; the rules stand in `retention_events`
and `retention_actions`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic as clock

from ledger.database import Database, Transaction
from ledger.figures import counters, refusals
from ledger.retention.actions import STRANGERS, STRANGERS_COUNTED
from ledger.retention.rules import Rule
from ledger.retention.walk import RULES, Overdue, Walk, overdue
from ledger.settings.retention import DAY_S, RetentionSettings

DUTY = "prune"
LEASE_S = 60.0  # after which a round whose worker was killed is anybody's
STRANGERS_WHAT = "messages of nobody we know"

Advance = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one kind of rows came to: how many (of `what`, in plural) and how many bytes. `namespace` '': all the others."""

    what: str
    older_than_days: float
    rows: int
    content_bytes: int = 0
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """What one turn removed, by what it is, and whether more is left than fitted into it."""

    counts: Mapping[str, int]
    more: bool


def prune(
    database: Database,
    settings: RetentionSettings,
    *,
    once_ever: Sequence[str] = (),
    dry_run: bool = False,
    advance: Advance = lambda n, of: None,
) -> Iterator[Pruned]:
    """Remove all that is over its time, one kind after the other; with `dry_run` only count it.

    `once_ever` are the kinds of action whose keys are kept for good. `advance` hears how many rows were looked at.
    Stopped at any moment, it has lost nothing and goes on the next time.
    """
    looked = 0
    for rule in RULES:
        due = _due(database, settings, (rule,))
        walks = [Walk(rule, one.namespace, settings, once_ever, dry_run) for one in due]
        for walk in walks:
            while not walk.done:
                walk.step(database)
                advance(looked + walk.looked, None)
            looked += walk.looked
        yield from _told(rule, walks, settings)
    yield Pruned("per-minute counters", 1.0, _minutes(database, dry_run=dry_run))
    days = settings.keys_days_max
    yield Pruned(STRANGERS_WHAT, days, _strangers(database, settings, dry_run=dry_run))


def _due(database: Database, settings: RetentionSettings, rules: Sequence[Rule] = RULES) -> list[Overdue]:
    found = database.run(lambda tx: overdue(tx, settings, rules))
    return [one for one in found if one.late_s > 0]


def _told(rule: Rule, walks: Sequence[Walk], settings: RetentionSettings) -> Iterator[Pruned]:
    """The namespaces without periods of their own together, and each of the others."""
    days: float = getattr(settings, rule.period)
    plain = [walk for walk in walks if walk.days == days]
    yield Pruned(rule.what, days, sum(w.rows for w in plain), sum(w.content_bytes for w in plain))
    for walk in walks:
        if walk not in plain:
            yield Pruned(rule.what, walk.days, walk.rows, walk.content_bytes, walk.namespace)


# ── A worker's round ──────────────────────────────────────────────────────────────────────────────────

# The row is the referee: of all workers that ask at once, the first has the round until it ends, or its lease does.
BEGIN = """
INSERT INTO nottwice.maintenance AS m (duty, resume_at) VALUES (:duty, clock_timestamp() + make_interval(secs => :lease_s))
ON CONFLICT (duty) DO UPDATE SET
    last_at = clock_timestamp(), resume_at = clock_timestamp() + make_interval(secs => :lease_s)
    WHERE m.resume_at <= clock_timestamp()
RETURNING duty
"""
END = "UPDATE nottwice.maintenance SET resume_at = clock_timestamp() + make_interval(secs => :pause_s) WHERE duty = :duty"


def round_(database: Database, settings: RetentionSettings, once_ever: Sequence[str] = ()) -> Round | None:
    """A worker's turn: a batch of each kind and namespace after the other, for `round_within_s` at most.

    None when it is not time yet, or another worker has the turn. While more is left the next turn comes after
    `pause_s`, else after `round_every_s`.
    """
    if not database.run(partial(_begin, lease_s=LEASE_S)):
        return None
    pause_s = settings.pause_s
    try:
        done = _turn(database, settings, once_ever)
        pause_s = settings.pause_s if done.more else settings.round_every_s
    finally:
        database.run(lambda tx: tx.execute(END, duty=DUTY, pause_s=pause_s) and None)
    return done


def _begin(tx: Transaction, *, lease_s: float) -> bool:
    return tx.first(BEGIN, duty=DUTY, lease_s=lease_s) is not None


def _turn(database: Database, settings: RetentionSettings, once_ever: Sequence[str]) -> Round:
    latest_first = sorted(_due(database, settings), key=lambda one: -one.late_s)
    walks = deque(Walk(one.rule, one.namespace, settings, once_ever) for one in latest_first)
    ends_at, counts, is_time = clock() + settings.round_within_s, Counter[str](), True
    while walks and is_time:  # one batch at the least, else the turns of a slow server would do nothing
        walk = walks.popleft()
        before = walk.rows
        walk.step(database)
        counts[walk.rule.what] += walk.rows - before
        if not walk.done:
            walks.append(walk)
        is_time = clock() < ends_at
    if not walks:
        counts[STRANGERS_WHAT] += database.run(partial(_strangers_page, settings=settings))
        database.run(partial(counters.fold_hours, older_than_s=settings.keys_days_max * DAY_S))
        database.run(partial(refusals.fold_hours, older_than_s=settings.keys_days_max * DAY_S))
    return Round(+counts, more=bool(walks) or counts[STRANGERS_WHAT] >= settings.batch_rows)


# ── What has no namespace ─────────────────────────────────────────────────────────────────────────────


def _strangers(database: Database, settings: RetentionSettings, *, dry_run: bool) -> int:
    if dry_run:
        kept_s = settings.keys_days_max * DAY_S
        return database.run(lambda tx: int(tx.one(STRANGERS_COUNTED, kept_s=kept_s).n))
    rows = taken = database.run(partial(_strangers_page, settings=settings))
    while taken >= settings.batch_rows:
        rows += (taken := database.run(partial(_strangers_page, settings=settings)))
    return rows


def _strangers_page(tx: Transaction, *, settings: RetentionSettings) -> int:
    kept_s = settings.keys_days_max * DAY_S
    return tx.execute(STRANGERS, kept_s=kept_s, rows_max=settings.batch_rows).rowcount


def _minutes(database: Database, *, dry_run: bool) -> int:
    """Minutes older than a day, folded a day at a time; the sums since the installation stay what they were."""
    age_s, rows = database.run(_oldest_minute_s), 0
    if dry_run:
        return database.run(_old_minutes)
    while age_s > DAY_S:
        age_s = max(DAY_S, age_s - DAY_S)
        rows += database.run(partial(counters.fold, older_than_s=age_s))
    return rows


def _oldest_minute_s(tx: Transaction) -> float:
    return float(tx.one("SELECT nottwice.seconds_since(min(minute)) AS s FROM nottwice.counters").s)


def _old_minutes(tx: Transaction) -> int:
    sql = "SELECT count(*) AS n FROM nottwice.counters WHERE minute < date_trunc('hour', now() - interval '1 day')"
    return int(tx.one(sql).n)
