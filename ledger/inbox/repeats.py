"""What arrives and is kept, though it is no new event: conflicts, and what cannot be used.

None of it touches the event's row. Every function takes a whole batch, is one statement, and sorts what it writes,
so that two receivers meet in the same order.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from ledger.database.asking import Asking, statement
from ledger.database.columns import Bytes, Numbers, Texts
from ledger.payload import storable
from ledger.records import Delivery, Unusable

Again = tuple[int, Delivery]  # a delivery, and the event that stands already

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
