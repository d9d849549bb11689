"""Catch-ups as rows: how far each is, so that the same command goes on where it was stopped.

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
from ledger.records import digest_of


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
