"""What a rule of retention is: which rows still have something, from when its time counts, and how it goes.

Every rule is one statement over one page of one namespace. It finds the page through a partial index that holds only
rows which still have the thing, in the order in which they are over their time; it takes their locks, skips what is
locked (it is somebody's: the next time), and repeats under the lock what made them due. What may not go yet because
something that belongs to it is open is noted with a later time, so that the next look does not meet it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

Period = Literal[
    "event_keys_days", "event_bodies_days", "quarantined_days", "action_contents_days", "action_keys_days"
]

FIRST = "-infinity"


@dataclass(frozen=True, slots=True)
class Rule:
    """`table` has the columns id and namespace, and is called r.

    `has` and `since` are the condition and the second column of its index. `needed` gives the time from which the
    period counts instead, NULL when nothing needs the row h; `waits` notes that time. `goes` are parts of the statement
    that remove it from the rows in `over`, among them `gone` with id and n, the bytes; `counted` tells the same of what
    would go. `bytes` is the size of c's content, so that one transaction does not remove too much.
    """

    what: str
    period: Period
    table: str
    has: str
    since: str
    needed: str
    waits: str
    goes: str
    counted: str = "gone AS (SELECT id, 0 AS n FROM over)"
    size: str = "0"
    lock: Literal["NO KEY UPDATE", "UPDATE"] = "NO KEY UPDATE"


PAGE = """
WITH candidates AS MATERIALIZED (
    SELECT r.id, {since} AS since FROM {table} r
    WHERE {has} AND r.namespace = :namespace AND {since} < now() - make_interval(secs => :kept_s)
      AND ({since}, r.id) > (CAST(:after_since AS timestamptz), CAST(:after_id AS bigint))
    ORDER BY {since}, r.id LIMIT :rows_max),
looked AS MATERIALIZED (
    SELECT id, since FROM (SELECT s.id, s.since, sum(s.n) OVER (ORDER BY s.since, s.id) - s.n AS ahead
                           FROM (SELECT c.id, c.since, {size} AS n FROM candidates c) AS s) AS s
    WHERE ahead < :bytes_max),
held AS MATERIALIZED (
    SELECT r.* FROM {table} r JOIN looked USING (id)
    WHERE {has} AND {since} < now() - make_interval(secs => :kept_s)
    ORDER BY r.id{lock}),
judged AS MATERIALIZED (SELECT h.id, {needed} AS needed_at FROM held h),
over AS MATERIALIZED (SELECT id FROM judged WHERE needed_at IS NULL),
{changes}
SELECT (SELECT count(*) FROM candidates) AS candidates, (SELECT count(*) FROM looked) AS looked,
       (SELECT max(since) FROM looked) AS since, (SELECT max(id) FROM looked WHERE since = (SELECT max(since) FROM looked)) AS id,
       (SELECT count(*) FROM gone) AS n, (SELECT CAST(coalesce(sum(n), 0) AS bigint) FROM gone) AS bytes
"""

# One hop through the index a namespace, however many rows each has.
DUE = """
WITH RECURSIVE hop AS (
    (SELECT r.namespace FROM {table} r WHERE {has} ORDER BY r.namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT r.namespace FROM {table} r WHERE {has} AND r.namespace > hop.namespace ORDER BY r.namespace LIMIT 1)
    FROM hop WHERE hop.namespace IS NOT NULL)
SELECT hop.namespace, CAST(extract(epoch FROM now() - first.since) AS double precision) AS age_s
FROM hop, LATERAL (SELECT {since} AS since FROM {table} r WHERE {has} AND r.namespace = hop.namespace
                   ORDER BY {since} LIMIT 1) AS first
WHERE hop.namespace IS NOT NULL
"""


@cache
def page(rule: Rule, *, dry_run: bool) -> str:
    """The statement for one page: what goes is gone with it, or only counted."""
    changes = rule.counted if dry_run else f"{rule.goes},\nwaits AS ({rule.waits})"
    lock = "" if dry_run else f" FOR {rule.lock} OF r SKIP LOCKED"
    words = {
        "table": rule.table,
        "has": rule.has,
        "since": rule.since,
        "size": rule.size,
        "needed": rule.needed,
    }
    return PAGE.format(**words, lock=lock, changes=changes)


@cache
def due(rule: Rule) -> str:
    """Of each namespace that has anything of this sort, how old the oldest is."""
    return DUE.format(table=rule.table, has=rule.has, since=rule.since)
