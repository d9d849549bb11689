"""What arrives and is no new event: duplicates, conflicts, and what cannot be used.

None of it touches the event's row. Every function takes a whole batch, is one statement, and sorts what it writes,
so that two receivers meet in the same order.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from uuid import UUID

from ledger.asking import Asking, statement
from ledger.columns import Bytes, Numbers, Texts
from ledger.payload import storable
from ledger.records import Delivery, Unusable

DELIVERY_IDS_MAX = 100  # distinct delivery ids kept per event; the rest are counted under ''
DELIVERY_ID_CHARACTERS_MAX = 500  # it is part of a primary key: an index entry ends at about 2,700 bytes

Again = tuple[int, Delivery]  # a delivery, and the event that stands already

NOTE = """
WITH again AS (
    SELECT d.*, coalesce((SELECT true FROM nottwice.duplicates x
                          WHERE x.event_id = d.event_id AND x.delivery_id = d.delivery_id), false) AS known
    FROM unnest(CAST(:event_ids AS bigint[]), CAST(:delivery_ids AS text[]), CAST(:ns AS bigint[]), CAST(:not_compared AS bigint[]),
                CAST(:namespaces AS text[])) AS d(event_id, delivery_id, n, not_compared, namespace)),
placed AS (
    SELECT again.*, CASE WHEN known THEN 0 ELSE row_number() OVER (PARTITION BY event_id, known ORDER BY delivery_id)
        + (SELECT count(*) FROM (SELECT FROM nottwice.duplicates y WHERE y.event_id = again.event_id LIMIT :ids_max) z) END AS place
    FROM again),
counted AS (
    INSERT INTO nottwice.counters (minute, namespace, metric, writer, n)
    SELECT date_trunc('minute', now()), namespace, 'duplicate', :writer, sum(n) FROM again GROUP BY namespace ORDER BY namespace
    ON CONFLICT (minute, namespace, metric, writer) DO UPDATE SET n = nottwice.counters.n + excluded.n)
INSERT INTO nottwice.duplicates (event_id, delivery_id, deliveries, not_compared)
SELECT event_id, CASE WHEN place <= :ids_max THEN delivery_id ELSE '' END AS kept_as, sum(n), sum(not_compared)
FROM placed GROUP BY event_id, kept_as ORDER BY event_id, kept_as
ON CONFLICT (event_id, delivery_id) DO UPDATE
SET deliveries = nottwice.duplicates.deliveries + excluded.deliveries,
    not_compared = nottwice.duplicates.not_compared + excluded.not_compared, last_seen_at = now()
"""


def note_duplicates(
    again: Sequence[Again], not_compared: Sequence[Again] = (), *, writer: UUID
) -> Asking[None]:
    """Count further deliveries, for the minute and by their delivery id; beyond the cap (a retry storm) under ''.

    `not_compared` are those whose content may be another one: nobody can say.
    """
    ns_not = _by_delivery(not_compared)
    counts = _by_delivery(again) + ns_not
    namespaces = {id_: delivery.namespace for id_, delivery in (*again, *not_compared)}
    if counts:
        yield statement(
            NOTE,
            event_ids=Numbers([event_id for event_id, _ in counts]),
            delivery_ids=Texts([delivery_id for _, delivery_id in counts]),
            ns=Numbers(list(counts.values())),
            not_compared=Numbers([ns_not[one] for one in counts]),
            namespaces=Texts([namespaces[event_id] for event_id, _ in counts]),
            writer=writer,
            ids_max=DELIVERY_IDS_MAX,
        )


def _by_delivery(again: Sequence[Again]) -> Counter[tuple[int, str]]:
    return Counter((id_, delivery.delivery_id[:DELIVERY_ID_CHARACTERS_MAX]) for id_, delivery in again)


KEEP = """
INSERT INTO nottwice.conflicts (event_id, content_digest, delivery_id, content_type, body, deliveries)
SELECT * FROM unnest(CAST(:event_ids AS bigint[]), CAST(:content_digests AS bytea[]), CAST(:delivery_ids AS text[]),
                     CAST(:content_types AS text[]), CAST(:bodies AS bytea[]), CAST(:ns AS bigint[]))
     AS c(event_id, content_digest, delivery_id, content_type, body, n)
ORDER BY event_id, content_digest
ON CONFLICT (event_id, content_digest) DO UPDATE
SET deliveries = nottwice.conflicts.deliveries + excluded.deliveries, last_seen_at = now()
"""


def keep_conflicts(again: Sequence[Again]) -> Asking[None]:
    """Keep another content under a key that is taken, once per distinct content."""
    counts = Counter((event_id, delivery.content_digest) for event_id, delivery in again)
    firsts = {(event_id, delivery.content_digest): delivery for event_id, delivery in reversed(again)}
    kept = [firsts[identity] for identity in counts]
    if counts:
        yield statement(
            KEEP,
            event_ids=Numbers([event_id for event_id, _ in counts]),
            content_digests=Bytes([digest for _, digest in counts]),
            delivery_ids=Texts([delivery.delivery_id for delivery in kept]),
            content_types=Texts([delivery.content_type for delivery in kept]),
            bodies=Bytes([delivery.body for delivery in kept]),
            ns=Numbers(list(counts.values())),
        )


QUARANTINE = """
INSERT INTO nottwice.quarantine (namespace, source, body_digest, element, reason, body, deliveries)
SELECT * FROM unnest(CAST(:namespaces AS text[]), CAST(:sources AS text[]), CAST(:digests AS bytea[]),
                     CAST(:elements AS integer[]), CAST(:reasons AS text[]), CAST(:bodies AS bytea[]), CAST(:ns AS bigint[]))
     AS q(namespace, source, body_digest, element, reason, body, n)
ORDER BY source, body_digest, element
ON CONFLICT (source, body_digest, element) DO UPDATE
SET deliveries = nottwice.quarantine.deliveries + excluded.deliveries, last_seen_at = now()
"""


def quarantine(items: Iterable[Unusable]) -> Asking[None]:
    """Keep what is authentic but has no usable key or shape, once per (source, digest of the bytes, index)."""
    identified = [((item.source, hashlib.sha256(item.body).digest(), item.index), item) for item in items]
    counts = Counter(identity for identity, _ in identified)
    kept = list(dict(reversed(identified)).items())
    if kept:
        yield statement(
            QUARANTINE,
            namespaces=Texts([item.namespace for _, item in kept]),
            sources=Texts([item.source for _, item in kept]),
            digests=Bytes([digest for (_, digest, _), _ in kept]),
            elements=Numbers([item.index for _, item in kept]),
            reasons=Texts([storable(item.reason) for _, item in kept]),
            bodies=Bytes([item.body for _, item in kept]),
            ns=Numbers([counts[identity] for identity, _ in kept]),
        )
