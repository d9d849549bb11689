"""Catch-ups as rows: how far each is, so that the same command goes on where it was stopped. And what is known already.

Nothing here decides whether an event is new: that is the accepting transaction's business alone.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger.database import Transaction
from ledger.records import Delivery, digest_of


@dataclass(frozen=True, slots=True)
class Run:
    """One catch-up that is under way. `position` is what its last batch left behind; None at the beginning."""

    id: int
    position: dict[str, Any] | None
    counts: dict[str, int]
    saved_at: datetime


OPEN = """
INSERT INTO nottwice.catch_ups AS c (source, namespace, read_from, run_digest, begun_on)
VALUES (:source, :namespace, :read_from, :run_digest, :begun_on)
ON CONFLICT (run_digest) WHERE ended_at IS NULL DO UPDATE
SET position = CASE WHEN :afresh THEN NULL ELSE c.position END, counts = CASE WHEN :afresh THEN '{}' ELSE c.counts END
RETURNING id, position, counts, saved_at
"""


def begin(
    tx: Transaction, *, source: str, namespace: str, read_from: str, same: Sequence[str], afresh: bool
) -> Run:
    """The run of the same command that was stopped, else a new one. `afresh` forgets how far it was."""
    row = tx.one(
        OPEN,
        source=source,
        namespace=namespace,
        read_from=read_from,
        run_digest=digest_of(source, *same),
        begun_on=socket.gethostname(),
        afresh=afresh,
    )
    return Run(row.id, row.position, row.counts, row.saved_at)


SAVE = """
UPDATE nottwice.catch_ups SET position = CAST(:position AS jsonb), counts = CAST(:counts AS jsonb), saved_at = now()
WHERE id = :id
"""


def save(tx: Transaction, run_id: int, position: dict[str, Any], counts: dict[str, int]) -> None:
    """Everything up to `position` is stored. Called after that commit, so that it is never ahead of it."""
    tx.execute(SAVE, id=run_id, position=json.dumps(position), counts=json.dumps(counts))


def end(tx: Transaction, run_id: int) -> None:
    tx.execute(
        "UPDATE nottwice.catch_ups SET ended_at = now() WHERE id = :id AND ended_at IS NULL", id=run_id
    )


KNOWN = """
SELECT d.i, e.id FROM unnest(CAST(:places AS integer[]), CAST(:namespaces AS text[]), CAST(:key_digests AS bytea[]),
                       CAST(:occurrence_digests AS bytea[]))
     AS d(i, namespace, key_digest, occurrence_digest)
JOIN LATERAL (SELECT id FROM nottwice.events k WHERE k.namespace = d.namespace AND k.key_digest = d.key_digest
              UNION ALL
              SELECT id FROM nottwice.events o WHERE o.namespace = d.namespace AND o.occurrence_digest = d.occurrence_digest
              LIMIT 1) AS e ON true
"""


def known(tx: Transaction, deliveries: Sequence[Delivery]) -> dict[int, int]:
    """The event that stands already, by the delivery's place. A look, no promise: only accepting decides."""
    rows = tx.all(
        KNOWN,
        places=list(range(len(deliveries))),
        namespaces=[d.namespace for d in deliveries],
        key_digests=[d.key_digest for d in deliveries],
        occurrence_digests=[d.occurrence_digest for d in deliveries],
    )
    return {row.i: row.id for row in rows}
