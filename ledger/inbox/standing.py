"""What stands already under the key or the occurrence of what arrives: found, and noted as a further delivery of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ledger.database import Transaction
from ledger.database.asking import Asking, Rows, statement
from ledger.database.columns import Bytes, Numbers, SmallNumbers, Texts
from ledger.records import Acceptance, AcceptanceKind, Delivery

DELIVERY_IDS_MAX = 100  # distinct delivery ids kept per event; the rest are counted under ''
DELIVERY_ID_CHARACTERS_MAX = 500  # it is part of a primary key: an index entry ends at about 2,700 bytes
KINDS = {kind.value: kind for kind in AcceptanceKind}

Waiting = Mapping[int, Delivery]  # deliveries without an answer yet, by their place in the batch
Answers = dict[int, Acceptance]

# By key first: a delivery that meets one event by its key and another by its occurrence belongs to its key, so the second
# is not looked for. Only under the same key are contents compared: what a catch-up lists looks different from what the
# webhook brought. A content that is gone, or whose digest was made by other rules, cannot be compared.
FIND = """
SELECT d.i, coalesce(k.id, o.id) AS id,
       CASE WHEN k.id IS NULL OR k.content_digest = d.content_digest THEN 'duplicate'
            WHEN k.content_digest IS NULL OR k.key_rule <> d.key_rule THEN 'not_compared'
            ELSE 'conflict' END AS became, d.namespace, d.delivery_id
FROM unnest(CAST(:places AS bigint[]), CAST(:namespaces AS text[]), CAST(:key_digests AS bytea[]), CAST(:occurrence_digests AS bytea[]),
            CAST(:content_digests AS bytea[]), CAST(:key_rules AS smallint[]), CAST(:delivery_ids AS text[]))
     AS d(i, namespace, key_digest, occurrence_digest, content_digest, key_rule, delivery_id)
LEFT JOIN LATERAL (SELECT e.id, e.content_digest, e.key_rule FROM nottwice.events e
                   WHERE e.namespace = d.namespace AND e.key_digest = d.key_digest OFFSET 0) k ON true
LEFT JOIN LATERAL (SELECT e.id FROM nottwice.events e
                   WHERE k.id IS NULL AND e.namespace = d.namespace AND e.occurrence_digest = d.occurrence_digest OFFSET 0) o ON true
WHERE coalesce(k.id, o.id) IS NOT NULL
"""

# In one go with the finding, sorted, so that two receivers meet in the same order: by their delivery id; beyond the cap
# (a retry storm) under ''. A conflict is a duplicate delivery too, and so is what could not be compared. Of fewer than
# `least` none is noted, and none is told of. `again` is materialized: else each row would be looked up twice.
NOTE = """
WITH looked AS MATERIALIZED (FOUND),
found AS MATERIALIZED (SELECT * FROM looked WHERE (SELECT count(*) FROM looked) >= :least),
again AS MATERIALIZED (
    SELECT f.*, coalesce((SELECT true FROM nottwice.duplicates x
                          WHERE x.event_id = f.event_id AND x.delivery_id = f.delivery_id), false) AS known
    FROM (SELECT id AS event_id, delivery_id, count(*) AS n, count(*) FILTER (WHERE became = 'not_compared') AS not_compared
          FROM found GROUP BY id, delivery_id) f),
placed AS (
    SELECT again.*, CASE WHEN known THEN 0 ELSE row_number() OVER (PARTITION BY event_id, known ORDER BY delivery_id)
        + (SELECT count(*) FROM (SELECT FROM nottwice.duplicates y WHERE y.event_id = again.event_id LIMIT :ids_max) z) END AS place
    FROM again),
counted AS (
    INSERT INTO nottwice.counters (minute, namespace, metric, writer, n)
    SELECT date_trunc('minute', now()), namespace, 'duplicate', :writer, count(*) FROM found GROUP BY namespace ORDER BY namespace
    ON CONFLICT (minute, namespace, metric, writer) DO UPDATE SET n = nottwice.counters.n + excluded.n),
noted AS (
    INSERT INTO nottwice.duplicates (event_id, delivery_id, deliveries, not_compared)
    SELECT event_id, CASE WHEN place <= :ids_max THEN delivery_id ELSE '' END AS kept_as, sum(n), sum(not_compared)
    FROM placed GROUP BY event_id, kept_as ORDER BY event_id, kept_as
    ON CONFLICT (event_id, delivery_id) DO UPDATE
    SET deliveries = nottwice.duplicates.deliveries + excluded.deliveries,
        not_compared = nottwice.duplicates.not_compared + excluded.not_compared, last_seen_at = now())
SELECT i, id, became FROM found
""".replace("FOUND", FIND)


def find_standing(tx: Transaction, waiting: Waiting) -> Answers:
    """Find the events that were there first. Alone it is a look, no promise: only accepting decides."""
    return _answers(tx.straight(FIND, **_columns(waiting)))


def noting(waiting: Waiting, writer: UUID, least: int = 0) -> Asking[Answers]:
    """Find them, and count each delivery: for the minute, and by its delivery id under its event.

    When fewer than `least` are found none is counted, locked or answered: who would go on to insert the others must not
    hold rows here, or two receivers would meet in different order.
    """
    found = yield statement(NOTE, **_columns(waiting), writer=writer, ids_max=DELIVERY_IDS_MAX, least=least)
    return _answers(found)


def _columns(waiting: Waiting) -> dict[str, Any]:
    standing = list(waiting.values())
    return {
        "places": Numbers(list(waiting)),
        "namespaces": Texts([d.namespace for d in standing]),
        "key_digests": Bytes([d.key_digest for d in standing]),
        "occurrence_digests": Bytes([d.occurrence_digest for d in standing]),
        "content_digests": Bytes([d.content_digest for d in standing]),
        "key_rules": SmallNumbers([d.key_rule for d in standing]),
        "delivery_ids": Texts([d.delivery_id[:DELIVERY_ID_CHARACTERS_MAX] for d in standing]),
    }


def _answers(found: Rows) -> Answers:
    return {i: Acceptance(KINDS[became], id_) for i, id_, became, *_ in found}
