"""What may be picked to go out again for some events: their sends, and what their handlers proposed when they ran again.

Each stands with why it may not go out, by the same rule that is asked again when it would. Recipients look as the reader's role
lets them: whole, masked, or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ledger.database import Transaction
from ledger.records import Role
from ledger.records.reprocess import Listed
from ledger.reprocess.repeats import actions_to_repeat, findings_to_repeat

FINDINGS_MAX = 25  # the newest; a key that was found often is one

SENDS = """
SELECT a.id, a.event_id, coalesce(r.recipients, '{}') AS recipients
FROM nottwice.actions a LEFT JOIN nottwice.recipients r ON r.action_id = a.id
WHERE a.event_id = ANY (CAST(:events AS bigint[])) AND a.id > :after ORDER BY a.id LIMIT :most
"""
FOUND = """
WITH found AS (
    SELECT DISTINCT ON (f.namespace, f.key_digest) f.id, f.event_id
    FROM nottwice.reprocess_rows w JOIN nottwice.reprocess_findings f ON f.row_id = w.id
    WHERE w.event_id = ANY (CAST(:events AS bigint[])) AND NOT f.content_gone ORDER BY f.namespace, f.key_digest, f.id DESC)
SELECT id, event_id FROM found ORDER BY id DESC LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class Pick:
    """One that could go out again, of an event. Key, kind and recipients are words of strangers."""

    event_id: int
    row: Listed
    recipients: tuple[str, ...]

    @property
    def mark(self) -> str:
        """What it is called in an address or a list of picks."""
        return self.row.name


def sends(
    tx: Transaction,
    event_ids: Sequence[int],
    once_ever: Collection[str],
    role: Role,
    *,
    after: int = 0,
    most: int = 25,
) -> list[Pick]:
    """The next sends that these events made, the oldest first."""
    rows = {row.id: row for row in tx.all(SENDS, events=list(event_ids), after=after, most=most)}
    listed = actions_to_repeat(tx, list(rows), once_ever, role)
    return [
        Pick(rows[one.action_id].event_id, one, tuple(rows[one.action_id].recipients))
        for one in listed
        if one.action_id is not None
    ]


def found(tx: Transaction, event_ids: Sequence[int], once_ever: Collection[str], role: Role) -> list[Pick]:
    """What would be new, or other, as the last run of these events' handlers found it."""
    events = {row.id: row.event_id for row in tx.all(FOUND, events=list(event_ids), most=FINDINGS_MAX)}
    listed = findings_to_repeat(tx, list(events), once_ever, role)
    return [
        Pick(events[one.finding_id], one, one.recipients or ())
        for one in listed
        if one.finding_id is not None
    ]
