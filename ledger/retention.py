"""What is kept no longer than it is needed: `nottwice prune`. Only finished work, in small batches, each a transaction.

Four things go: the bodies of completed events whose actions are settled too; the contents and recipients of settled
actions; per-minute counters, which are folded into hours; and whom a provider named when it told of their messages.
Rows are stripped, not removed: keys, digests, states and attempts stay, so that a late delivery is a duplicate still
and cannot send twice. What is pending, set aside, under way or waiting for a person is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from ledger import counters
from ledger.database import Database, Transaction
from ledger.settings import RetentionSettings

BATCH = 200
DAY_S = 86_400.0

Advance = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one kind of rows came to: how many (of `rows`, in plural) and how many bytes."""

    what: str
    older_than_days: float
    rows: int
    content_bytes: int = 0


# Keyset over what still has a body. `looked` ends the walk: where all of a page came after the cutoff, so did the
# rest, but for requests that were under way together. An event that is locked is somebody's: the next time.
BODIES = """
WITH looked AS MATERIALIZED (
    SELECT c.event_id AS id, e.accepted_at AS came_at
    FROM nottwice.event_contents c JOIN nottwice.events e ON e.id = c.event_id
    WHERE c.event_id > :after ORDER BY c.event_id LIMIT :batch),
over AS MATERIALIZED (
    SELECT e.id FROM nottwice.events e JOIN looked USING (id)
    WHERE e.state = 'completed' AND e.ended_at < now() - make_interval(secs => :kept_s)
      AND NOT EXISTS (SELECT FROM nottwice.actions a
                      WHERE a.event_id = e.id AND (a.settled_at IS NULL OR a.settled_at >= now() - make_interval(secs => :kept_s)))
    ORDER BY e.id {lock})
"""
BODIES_GO = """,
gone AS (DELETE FROM nottwice.event_contents c USING over WHERE c.event_id = over.id RETURNING c.event_id AS id, octet_length(c.body) AS n),
stripped AS (
    -- Without its digest: what cannot be compared any more is a duplicate, never a conflict.
    UPDATE nottwice.events e SET content_digest = NULL, version = e.version + 1 FROM gone WHERE e.id = gone.id)
"""
BODIES_COUNTED = """,
gone AS (SELECT c.event_id AS id, octet_length(c.body) AS n FROM nottwice.event_contents c JOIN over ON c.event_id = over.id)
"""
CONTENTS = """
WITH looked AS MATERIALIZED (
    SELECT c.action_id AS id, a.created_at AS came_at
    FROM nottwice.action_contents c JOIN nottwice.actions a ON a.id = c.action_id
    WHERE c.action_id > :after ORDER BY c.action_id LIMIT :batch),
over AS MATERIALIZED (
    SELECT a.id FROM nottwice.actions a JOIN looked USING (id)
    WHERE a.settled_at < now() - make_interval(secs => :kept_s)
    ORDER BY a.id {lock})
"""
CONTENTS_GO = """,
gone AS (DELETE FROM nottwice.action_contents c USING over WHERE c.action_id = over.id
         RETURNING c.action_id AS id, octet_length(c.content) AS n)
"""
CONTENTS_COUNTED = """,
gone AS (SELECT c.action_id AS id, octet_length(c.content) AS n FROM nottwice.action_contents c JOIN over ON c.action_id = over.id)
"""
NOTICES = """
WITH looked AS MATERIALIZED (
    SELECT n.id, n.noted_at AS came_at, n.account, n.message_id FROM nottwice.notices n
    WHERE n.id > :after AND (n.recipient <> '' OR n.detail <> '') ORDER BY n.id LIMIT :batch),
over AS MATERIALIZED (
    SELECT n.id FROM nottwice.notices n JOIN looked USING (id)
    WHERE n.noted_at < now() - make_interval(secs => :kept_s)
      AND NOT EXISTS (SELECT FROM nottwice.messages m JOIN nottwice.actions a ON a.id = m.action_id
                      WHERE m.account = looked.account AND m.message_id = looked.message_id
                        AND (a.settled_at IS NULL OR a.settled_at >= now() - make_interval(secs => :kept_s)))
    ORDER BY n.id {lock})
"""
NOTICES_GO = """,
told AS (SELECT n.id, octet_length(n.recipient) + octet_length(n.detail) AS n FROM nottwice.notices n JOIN over USING (id)),
stripped AS (UPDATE nottwice.notices n SET recipient = '', detail = '' FROM over WHERE n.id = over.id RETURNING n.id),
gone AS (SELECT told.id, told.n FROM told JOIN stripped USING (id))
"""
NOTICES_COUNTED = """,
gone AS (SELECT n.id, octet_length(n.recipient) + octet_length(n.detail) AS n FROM nottwice.notices n JOIN over USING (id))
"""
SUMS = """
SELECT (SELECT max(id) FROM looked) AS last,
       (SELECT count(*) FROM looked) AS looked,
       (SELECT count(*) FROM gone) AS n,
       (SELECT coalesce(sum(n), 0)::bigint FROM gone) AS bytes,
       coalesce((SELECT min(came_at) >= now() - make_interval(secs => :kept_s) FROM looked), true) AS all_young
"""
LOCK = "FOR NO KEY UPDATE SKIP LOCKED"


def prune(
    database: Database,
    kept: RetentionSettings,
    *,
    dry_run: bool = False,
    advance: Advance = lambda n, of: None,
) -> Iterator[Pruned]:
    """Remove what is over its time, one kind after the other; with `dry_run` only count it.

    `advance` hears how many rows were looked at. Stopped at any moment, it has lost nothing and goes on the next time.
    """
    bodies = BODIES + (BODIES_COUNTED if dry_run else BODIES_GO) + SUMS
    contents = CONTENTS + (CONTENTS_COUNTED if dry_run else CONTENTS_GO) + SUMS
    notices = NOTICES + (NOTICES_COUNTED if dry_run else NOTICES_GO) + SUMS
    lock = "" if dry_run else LOCK
    for what, sql, days in (
        ("event bodies", bodies, kept.event_bodies_days),
        ("action contents", contents, kept.action_contents_days),
    ):
        rows, content_bytes = _walk(database, sql.replace("{lock}", lock), days * DAY_S, advance)
        yield Pruned(what, days, rows, content_bytes)
    yield Pruned("per-minute counters", 1.0, _minutes(database, dry_run=dry_run))
    days = kept.action_contents_days
    told = _walk(database, notices.replace("{lock}", lock), days * DAY_S, advance)
    yield Pruned("notices' recipients", days, *told)


def _walk(database: Database, sql: str, kept_s: float, advance: Advance) -> tuple[int, int]:
    after = looked = rows = content_bytes = 0
    while True:
        page = database.run(partial(_page, sql=sql, after=after, kept_s=kept_s))
        rows, content_bytes, looked = rows + page.n, content_bytes + page.bytes, looked + page.looked
        advance(looked, None)
        if page.looked < BATCH or page.all_young:
            return rows, content_bytes
        after = page.last


def _page(tx: Transaction, sql: str, after: int, kept_s: float) -> sa.Row[Any]:
    return tx.one(sql, after=after, batch=BATCH, kept_s=kept_s)


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
