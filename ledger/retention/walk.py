"""One rule carried out in one namespace, page by page; and how late the oldest of everything is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ledger.database import Database, Transaction
from ledger.retention import actions as retention_actions
from ledger.retention import events as retention_events
from ledger.retention.rules import FIRST, Rule, due, page
from ledger.settings.retention import DAY_S, Periods, RetentionSettings

RULES = (
    retention_events.BODIES,
    retention_events.QUARANTINE,
    retention_events.KEYS,
    retention_events.FINDINGS,
    retention_actions.CONTENTS,
    retention_actions.NOTICES,
    retention_actions.KEYS,
)
# Every page comes in the order of an index. With the statistics of a table that was still empty, a planner would rather
# read it whole.
IN_ORDER = "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)"


@dataclass(frozen=True, slots=True)
class Overdue:
    """The oldest of one sort in one namespace, and how long its time is over; not over yet when below 0."""

    rule: Rule
    namespace: str
    late_s: float


@dataclass(slots=True)
class Walk:
    """What one rule removes from one namespace. `step()` until `done`; each is a transaction of its own."""

    rule: Rule
    namespace: str
    settings: RetentionSettings
    once_ever: Sequence[str] = ()
    dry_run: bool = False
    rows: int = 0
    content_bytes: int = 0
    looked: int = 0
    done: bool = False
    _place: tuple[datetime | str, int] = field(default=(FIRST, 0))

    @property
    def days(self) -> float:
        return _days(self.settings.of(self.namespace), self.rule)

    def step(self, database: Database) -> None:
        """The next page. Stopped at any moment, nothing is lost: what is left goes the next time."""
        row = database.run(self._page)
        self.rows, self.content_bytes, self.looked = (
            self.rows + row.n,
            self.content_bytes + row.bytes,
            self.looked + row.looked,
        )
        self._place = (row.since, row.id)
        self.done = row.candidates < self.settings.batch_rows and row.looked == row.candidates

    def _page(self, tx: Transaction) -> sa.Row[Any]:
        kept = self.settings.of(self.namespace)
        tx.execute(IN_ORDER)
        return tx.one(
            page(self.rule, dry_run=self.dry_run),
            namespace=self.namespace,
            kept_s=self.days * DAY_S,
            keys_s=kept.event_keys_days * DAY_S,
            once_ever=list(self.once_ever),
            after_since=self._place[0],
            after_id=self._place[1],
            rows_max=self.settings.batch_rows,
            bytes_max=self.settings.batch_bytes_max,
        )


def overdue(tx: Transaction, settings: RetentionSettings, rules: Sequence[Rule] = RULES) -> list[Overdue]:
    """Of each sort and namespace, the oldest. One statement a sort, whose cost grows with the number of namespaces."""
    tx.execute(IN_ORDER)
    return [
        Overdue(rule, row.namespace, row.age_s - _days(settings.of(row.namespace), rule) * DAY_S)
        for rule in rules
        for row in tx.all(due(rule))
    ]


def late_s(tx: Transaction, settings: RetentionSettings) -> float:
    """How long the oldest that is over its time has been so, in seconds; 0 when nothing is."""
    return max((one.late_s for one in overdue(tx, settings) if one.late_s > 0), default=0.0)


def _days(kept: Periods, rule: Rule) -> float:
    days: float = getattr(kept, rule.period)
    return days
