"""Webhook endpoints at a provider: whether each is still switched on, when that was last known, and who asks next.

A provider switches an endpoint off after days of failures, and tells nobody (AgentMail: five days of nothing else).
What cannot be asked is not off: it is not known, since its last answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ledger.database import Transaction

State = Literal["enabled", "disabled", "gone"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint as its provider lists it; "gone" is one that should be listed and is not."""

    endpoint_id: str
    url: str
    state: State


@dataclass(frozen=True, slots=True)
class Off(Endpoint):
    """One that does not deliver. `since_s` is how long ago we first saw it so; `alone`: no other of its account is on."""

    account: str
    label: str
    since_s: float
    alone: bool


@dataclass(frozen=True, slots=True)
class Watched:
    """One account: how many of its endpoints are on, and how long ago it last answered (or was first asked)."""

    account: str
    label: str
    on: int
    known: int
    answered: bool
    unanswered: bool
    silent_s: float
    words: str


ASK = """
INSERT INTO nottwice.endpoint_polls AS p (account, label) VALUES (:account, :label)
ON CONFLICT (account) DO UPDATE SET asked_at = now(), label = excluded.label
WHERE p.asked_at < now() - make_interval(secs => :every_s)
RETURNING asked_at
"""


def ask(tx: Transaction, account: str, label: str, *, every_s: float) -> datetime | None:
    """When it is our turn to ask, the moment of the question, which its answer must name; else None."""
    row = tx.first(ASK, account=account, label=label, every_s=every_s)
    return row.asked_at if row else None


ANSWERED = """
UPDATE nottwice.endpoint_polls SET answered_at = now(), unanswered_since = NULL, words = ''
WHERE account = :account AND asked_at = :asked_at RETURNING account
"""
LISTED = """
WITH listed AS (SELECT * FROM unnest(CAST(:ids AS text[]), CAST(:urls AS text[]), CAST(:states AS text[]))
                                   AS l(endpoint_id, url, state)),
missing AS (SELECT e.endpoint_id, e.url, 'gone' AS state FROM nottwice.endpoints e
            WHERE e.account = :account AND NOT EXISTS (SELECT FROM listed) FOR NO KEY UPDATE),
replaced AS (DELETE FROM nottwice.endpoints e USING (SELECT FROM listed LIMIT 1) AS others
             WHERE e.account = :account AND NOT EXISTS (SELECT FROM listed l WHERE l.endpoint_id = e.endpoint_id))
INSERT INTO nottwice.endpoints AS e (account, endpoint_id, url, state)
SELECT :account, endpoint_id, url, state FROM listed UNION ALL SELECT :account, endpoint_id, url, state FROM missing
ON CONFLICT (account, endpoint_id) DO UPDATE
SET url = excluded.url, state = excluded.state,
    since = CASE WHEN e.state = excluded.state THEN e.since ELSE now() END
"""


def answered(tx: Transaction, account: str, asked_at: datetime, listed: Sequence[Endpoint]) -> bool:
    """Keep what was said, unless somebody asked again meanwhile; whether it was kept.

    One that is not listed any more was replaced where others are; where none is, it is gone.
    """
    if tx.first(ANSWERED, account=account, asked_at=asked_at) is None:
        return False
    tx.execute(
        LISTED,
        account=account,
        ids=[one.endpoint_id for one in listed],
        urls=[one.url for one in listed],
        states=[one.state for one in listed],
    )
    return True


UNANSWERED = """
UPDATE nottwice.endpoint_polls SET unanswered_since = coalesce(unanswered_since, :asked_at), words = :words
WHERE account = :account AND asked_at = :asked_at
"""


def unanswered(tx: Transaction, account: str, asked_at: datetime, words: str) -> None:
    """Nothing is known by it, and nothing that was known is forgotten."""
    tx.execute(UNANSWERED, account=account, asked_at=asked_at, words=words)


def forget(tx: Transaction, *, unasked_s: float) -> None:
    """Drop accounts that nobody asks about any more: they are in no configuration."""
    sql = "DELETE FROM nottwice.endpoint_polls WHERE asked_at < now() - make_interval(secs => :unasked_s)"
    tx.execute(sql, unasked_s=unasked_s)


OFF = """
SELECT e.account, p.label, e.endpoint_id, e.url, e.state, nottwice.seconds_since(e.since) AS since_s,
       NOT EXISTS (SELECT FROM nottwice.endpoints o WHERE o.account = e.account AND o.state = 'enabled') AS alone
FROM nottwice.endpoints e JOIN nottwice.endpoint_polls p USING (account)
WHERE e.state <> 'enabled' ORDER BY e.since, e.endpoint_id
"""


def off(tx: Transaction) -> tuple[Off, ...]:
    """The endpoints that deliver nothing, longest first."""
    return tuple(Off(**row._asdict()) for row in tx.all(OFF))


WATCHED = """
SELECT p.account, p.label, count(e.endpoint_id) FILTER (WHERE e.state = 'enabled') AS on, count(e.endpoint_id) AS known,
       p.answered_at IS NOT NULL AS answered, p.unanswered_since IS NOT NULL AS unanswered, p.words,
       nottwice.seconds_since(coalesce(p.answered_at, p.unanswered_since, p.asked_at)) AS silent_s
FROM nottwice.endpoint_polls p LEFT JOIN nottwice.endpoints e USING (account) GROUP BY p.account ORDER BY p.account
"""


def watched(tx: Transaction) -> list[Watched]:
    return [Watched(**row._asdict()) for row in tx.all(WATCHED)]
