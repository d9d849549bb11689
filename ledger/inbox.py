"""The front door's one transaction: accept many deliveries, each durable exactly once.

Accept is two statements, insert then read: a single one returns nothing to the second of two racing deliveries.
Duplicates never rewrite the stored row. What the caller acknowledges is durable when its transaction has committed,
and every path writes something (an event, a counter), so that even a duplicate waits for a synchronous standby.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from ledger import counters
from ledger.database import Transaction
from ledger.errors import Unavailable
from ledger.records import Acceptance, AcceptanceKind, Delivery, Unusable, digest_of

DELIVERY_IDS_MAX = 100  # distinct delivery ids kept per event; the rest are counted under ''
ROUNDS_MAX = 5

# Sorted by key, so that two receivers meet in the same order and never deadlock.
INSERT = """
WITH arrived AS (
    SELECT * FROM unnest(
        CAST(:namespaces AS text[]), CAST(:sources AS text[]), CAST(:types AS text[]), CAST(:event_keys AS text[]),
        CAST(:key_digests AS bytea[]), CAST(:occurrence_digests AS bytea[]), CAST(:content_digests AS bytea[]),
        CAST(:delivery_ids AS text[]), CAST(:occurred_ats AS timestamptz[]), CAST(:ignored AS boolean[]),
        CAST(:content_types AS text[]), CAST(:bodies AS bytea[]))
      AS d(namespace, source, type, event_key, key_digest, occurrence_digest, content_digest, delivery_id, occurred_at, ignored,
           content_type, body)),
stored AS (
    INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, occurrence_digest, content_digest, delivery_id,
                                 occurred_at, state, ending, due_at, ended_at)
    SELECT namespace, source, type, event_key, key_digest, occurrence_digest, content_digest, delivery_id, occurred_at,
           CASE WHEN ignored THEN 'completed' ELSE 'pending' END, CASE WHEN ignored THEN 'ignored' END,
           CASE WHEN ignored THEN NULL ELSE now() END, CASE WHEN ignored THEN now() END
    FROM arrived ORDER BY namespace, key_digest
    ON CONFLICT DO NOTHING
    RETURNING id, namespace, key_digest),
kept AS (
    INSERT INTO nottwice.event_contents (event_id, content_type, body)
    SELECT s.id, a.content_type, a.body FROM stored s JOIN arrived a USING (namespace, key_digest))
SELECT id, namespace, key_digest FROM stored
"""

# By key first: a delivery that meets one event by its key and another by its occurrence belongs to its key.
FIND = """
SELECT d.i, coalesce(k.id, o.id) AS id,
       CASE WHEN k.id IS NOT NULL THEN k.content_digest ELSE o.content_digest END AS content_digest
FROM unnest(CAST(:is AS integer[]), CAST(:namespaces AS text[]), CAST(:key_digests AS bytea[]), CAST(:occurrence_digests AS bytea[]))
     AS d(i, namespace, key_digest, occurrence_digest)
LEFT JOIN nottwice.events k ON k.namespace = d.namespace AND k.key_digest = d.key_digest
LEFT JOIN nottwice.events o ON o.namespace = d.namespace AND o.occurrence_digest = d.occurrence_digest
                           AND d.occurrence_digest IS NOT NULL
WHERE coalesce(k.id, o.id) IS NOT NULL
"""


def accept(tx: Transaction, items: Sequence[Delivery | Unusable], *, writer: UUID) -> list[Acceptance]:
    """Store every item in this transaction; what became of each, in the order given.

    A constant number of statements whatever the size. Raises Unavailable when a row keeps vanishing (a purge races
    us); every other error is the database's own, and then nothing of the batch is stored.
    """
    deliveries = [_clean(item) for item in items if isinstance(item, Delivery)]
    outcomes = iter(_accept(tx, deliveries))
    unusable = [item for item in items if isinstance(item, Unusable)]
    _quarantine(tx, unusable)
    answers = [
        next(outcomes) if isinstance(item, Delivery) else Acceptance(AcceptanceKind.QUARANTINED, None)
        for item in items
    ]
    _count(tx, items, answers, writer)
    return answers


def lane_key(item: Delivery | Unusable) -> bytes:
    """What a lock that hangs is about: the event's identity, or the quarantined bytes."""
    if isinstance(item, Delivery):
        return digest_of(item.namespace, item.key_digest)
    return digest_of(item.source, item.body, str(item.index))


def _accept(tx: Transaction, deliveries: list[Delivery]) -> list[Acceptance]:
    answers: list[Acceptance | None] = [None] * len(deliveries)
    for _ in range(ROUNDS_MAX):
        open_ = [i for i, answer in enumerate(answers) if answer is None]
        if not open_:
            break
        _insert_new(tx, deliveries, open_, answers)
        _find_standing(tx, deliveries, [i for i in open_ if answers[i] is None], answers)
    done = [answer for answer in answers if answer is not None]
    if len(done) != len(answers):
        raise Unavailable("An event kept vanishing while it was looked for. Nothing was stored; try again.")
    return done


def _insert_new(
    tx: Transaction, deliveries: list[Delivery], open_: list[int], answers: list[Acceptance | None]
) -> None:
    """Insert one delivery a key; whoever shares a key or an occurrence with it in this batch is found afterwards."""
    first = _first_of_each(deliveries, open_)
    rows = tx.all(INSERT, **_columns(deliveries[i] for i in first))
    stored = {(row.namespace, bytes(row.key_digest)): row.id for row in rows}
    for i in first:
        event_id = stored.get((deliveries[i].namespace, deliveries[i].key_digest))
        if event_id is not None:
            answers[i] = Acceptance(AcceptanceKind.ACCEPTED, event_id)


def _first_of_each(deliveries: list[Delivery], open_: list[int]) -> list[int]:
    seen: set[tuple[str, bytes]] = set()
    first = []
    for i in open_:
        identity = (deliveries[i].namespace, deliveries[i].key_digest)
        if identity not in seen:
            seen.add(identity)
            first.append(i)
    return first


def _find_standing(
    tx: Transaction, deliveries: list[Delivery], missing: list[int], answers: list[Acceptance | None]
) -> None:
    if not missing:
        return
    rows = tx.all(
        FIND,
        **{"is": missing},
        namespaces=[deliveries[i].namespace for i in missing],
        key_digests=[deliveries[i].key_digest for i in missing],
        occurrence_digests=[deliveries[i].occurrence_digest for i in missing],
    )
    for row in rows:
        # Where the first content is gone nobody can compare: a duplicate, not a conflict.
        other = (
            row.content_digest is not None and bytes(row.content_digest) != deliveries[row.i].content_digest
        )
        kind = AcceptanceKind.CONFLICT if other else AcceptanceKind.DUPLICATE
        answers[row.i] = Acceptance(kind, row.id)
    found = [(answers[i], deliveries[i]) for i in missing]
    again = [(answer, delivery) for answer, delivery in found if answer is not None]
    _note_duplicates(tx, again)
    _keep_conflicts(tx, [(a, d) for a, d in again if a.kind is AcceptanceKind.CONFLICT])


def _note_duplicates(tx: Transaction, again: list[tuple[Acceptance, Delivery]]) -> None:
    counts: dict[tuple[int | None, str], int] = {}
    for answer, delivery in again:
        key = (answer.event_id, delivery.delivery_id[:500])
        counts[key] = counts.get(key, 0) + 1
    if counts:
        tx.execute(
            """INSERT INTO nottwice.duplicates (event_id, delivery_id, deliveries)
               SELECT event_id, kept_as, sum(n) FROM (
                   SELECT d.event_id, d.n, CASE WHEN
                       EXISTS (SELECT FROM nottwice.duplicates x
                               WHERE x.event_id = d.event_id AND x.delivery_id = d.delivery_id)
                       OR (SELECT count(*) FROM (SELECT FROM nottwice.duplicates y
                                                 WHERE y.event_id = d.event_id LIMIT :ids_max) z) < :ids_max
                       THEN d.delivery_id ELSE '' END AS kept_as
                   FROM unnest(CAST(:event_ids AS bigint[]), CAST(:delivery_ids AS text[]), CAST(:ns AS bigint[]))
                        AS d(event_id, delivery_id, n)) AS counted
               GROUP BY event_id, kept_as ORDER BY event_id, kept_as
               ON CONFLICT (event_id, delivery_id) DO UPDATE
               SET deliveries = nottwice.duplicates.deliveries + excluded.deliveries, last_seen_at = now()""",
            event_ids=[event_id for event_id, _ in counts],
            delivery_ids=[delivery_id for _, delivery_id in counts],
            ns=list(counts.values()),
            ids_max=DELIVERY_IDS_MAX,
        )


def _keep_conflicts(tx: Transaction, conflicts: list[tuple[Acceptance, Delivery]]) -> None:
    distinct = {(answer.event_id, delivery.content_digest): delivery for answer, delivery in conflicts}
    if distinct:
        tx.execute(
            """INSERT INTO nottwice.conflicts (event_id, content_digest, delivery_id, content_type, body)
               SELECT * FROM unnest(CAST(:event_ids AS bigint[]), CAST(:content_digests AS bytea[]), CAST(:delivery_ids AS text[]),
                                    CAST(:content_types AS text[]), CAST(:bodies AS bytea[]))
                    AS c(event_id, content_digest, delivery_id, content_type, body)
               ORDER BY event_id, content_digest
               ON CONFLICT (event_id, content_digest) DO UPDATE
               SET deliveries = nottwice.conflicts.deliveries + 1, last_seen_at = now()""",
            event_ids=[event_id for event_id, _ in distinct],
            content_digests=[digest for _, digest in distinct],
            delivery_ids=[d.delivery_id for d in distinct.values()],
            content_types=[d.content_type for d in distinct.values()],
            bodies=[d.body for d in distinct.values()],
        )


def _quarantine(tx: Transaction, items: list[Unusable]) -> None:
    distinct = {(item.source, hashlib.sha256(item.body).digest(), item.index): item for item in items}
    if distinct:
        tx.execute(
            """INSERT INTO nottwice.quarantine (namespace, source, body_digest, element, reason, body)
               SELECT * FROM unnest(CAST(:namespaces AS text[]), CAST(:sources AS text[]), CAST(:digests AS bytea[]),
                                    CAST(:elements AS integer[]), CAST(:reasons AS text[]), CAST(:bodies AS bytea[]))
                    AS q(namespace, source, body_digest, element, reason, body)
               ORDER BY source, body_digest, element
               ON CONFLICT (source, body_digest, element) DO UPDATE
               SET deliveries = nottwice.quarantine.deliveries + 1, last_seen_at = now()""",
            namespaces=[item.namespace for item in distinct.values()],
            sources=[source for source, _, _ in distinct],
            digests=[digest for _, digest, _ in distinct],
            elements=[index for _, _, index in distinct],
            reasons=[_storable(item.reason) for item in distinct.values()],
            bodies=[item.body for item in distinct.values()],
        )


def _count(
    tx: Transaction, items: Sequence[Delivery | Unusable], answers: list[Acceptance], writer: UUID
) -> None:
    counts: dict[tuple[str, str], int] = {}
    for item, answer in zip(items, answers, strict=True):
        metrics = [answer.kind.value]
        if answer.kind is AcceptanceKind.CONFLICT:  # a conflict is a duplicate delivery too
            metrics.append(AcceptanceKind.DUPLICATE.value)
        for metric in metrics:
            counts[item.namespace, metric] = counts.get((item.namespace, metric), 0) + 1
    counters.bump_many(tx, writer, counts)


def _columns(deliveries: Iterable[Delivery]) -> dict[str, list[Any]]:
    rows = list(deliveries)
    return {
        "namespaces": [d.namespace for d in rows],
        "sources": [d.source for d in rows],
        "types": [d.type for d in rows],
        "event_keys": [d.event_key for d in rows],
        "key_digests": [d.key_digest for d in rows],
        "occurrence_digests": [d.occurrence_digest for d in rows],
        "content_digests": [d.content_digest for d in rows],
        "delivery_ids": [d.delivery_id for d in rows],
        "occurred_ats": [d.occurred_at for d in rows],
        "ignored": [d.ignored for d in rows],
        "content_types": [d.content_type for d in rows],
        "bodies": [d.body for d in rows],
    }


def _clean(delivery: Delivery) -> Delivery:
    """The adapters quarantine what PostgreSQL's text cannot hold; a stray one must not become a 5xx for ever."""
    return replace(
        delivery,
        type=_storable(delivery.type),
        event_key=_storable(delivery.event_key),
        delivery_id=_storable(delivery.delivery_id),
        content_type=_storable(delivery.content_type),
    )


def _storable(text: str) -> str:
    return text.replace("\x00", "�").encode("utf-8", "replace").decode()
