"""Two events that tell of one occurrence: a person says so, where a sender gave it two ids. Only the record changes.

Both keep their rows, their work and their sends, and the page of each leads to the other. What keeps the next such pair
from being two events is the source's key: `key_with`, in docs/sources.md.
"""

from __future__ import annotations

from typing import Any

from ledger import audit
from ledger.database import Transaction
from ledger.errors import NotAllowed, NotNow
from ledger.kept.conflicts import MARKERS as LINKERS
from ledger.records import Act

LINKED, TAKEN_BACK = "linked to another event", "link taken back"

# One at a time: whose group an event is in must not change while two groups become one.
ALONE = "SELECT pg_advisory_xact_lock(hashtextextended('same occurrence', 54))"
FIRST = """
WITH RECURSIVE up AS (
    SELECT e.id, e.namespace FROM nottwice.events e WHERE e.id = :id
    UNION
    SELECT s.first_id, up.namespace FROM up JOIN nottwice.same_occurrence s ON s.event_id = up.id AND s.is_same)
SELECT min(id) AS id, min(namespace) AS namespace FROM up HAVING count(*) > 0
"""
LINK = """
INSERT INTO nottwice.same_occurrence (event_id, first_id, said_by) VALUES (:id, :first, :by)
ON CONFLICT (event_id) DO UPDATE SET first_id = excluded.first_id, is_same = true, said_by = excluded.said_by
"""
TAKE_BACK = (
    "UPDATE nottwice.same_occurrence SET is_same = false, said_by = :by WHERE event_id = :id AND is_same"
)


def link(tx: Transaction, event_id: int, other_id: int, act: Act) -> int:
    """Both, and what either is linked to, tell of one occurrence from now on. Returns the audit entry.

    Raises NotAllowed; NotNow for one that is not there, two of different namespaces, and two that are linked.
    """
    _begin(tx, act)
    one, other = _first(tx, event_id), _first(tx, other_id)
    if one.namespace != other.namespace:
        raise NotNow(
            "The other event is another namespace's, so it tells of something else. Nothing was done."
        )
    if one.id == other.id:
        raise NotNow("They are one event, or linked already. Nothing was done.")
    first, later = sorted((one.id, other.id))
    audit_id = _note(tx, act, LINKED, later, first)
    tx.execute(LINK, id=later, first=first, by=act.person.id)
    return audit_id


def take_back(tx: Transaction, event_id: int, act: Act) -> int:
    """The event is not what it was linked to. Returns the audit entry. Raises NotAllowed, and NotNow where it is not linked."""
    _begin(tx, act)
    row = tx.first(
        "SELECT first_id FROM nottwice.same_occurrence WHERE event_id = :id AND is_same", id=event_id
    )
    if row is None:
        raise NotNow("It is not linked to an earlier event. Nothing was done.")
    audit_id = _note(tx, act, TAKEN_BACK, event_id, row.first_id)
    tx.execute(TAKE_BACK, id=event_id, by=act.person.id)
    return audit_id


def _begin(tx: Transaction, act: Act) -> None:
    if act.person.role not in LINKERS:
        raise NotAllowed("You can read this. Support, an engineer or admin links events.")
    audit.refuse_second_use(tx, act)
    tx.execute(ALONE)


def _first(tx: Transaction, event_id: int) -> Any:
    """The earliest of its group, and the namespace."""
    row = tx.first(FIRST, id=event_id)
    if row is None:
        raise NotNow(f"There is no event {event_id}. Nothing was done.")
    return row


def _note(tx: Transaction, act: Act, what: str, event_id: int, first_id: int) -> int:
    detail = f"event {first_id}"
    return audit.done(tx, act, what, "event", event_id, version=None, before=None, after=None, detail=detail)
