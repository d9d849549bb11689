"""Many events at once take two people: one asks for a list as it was seen, another one agrees and carries it out.

How many one person may act on within an hour is `[reprocess] second_person_above`, as workers told the database, which
holds it by itself (sql/0036): every act counts, in the console and at the command line, except those of an agreed list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ledger import audit
from ledger.database import Transaction
from ledger.decisions.deciding import first, must_be_somebody_else
from ledger.errors import Incomplete, NotAllowed, NotNow
from ledger.events import by_hand, recovery
from ledger.records import Act, Person

TRY_AGAIN = "try again"
DEEDS = {
    TRY_AGAIN: recovery.requeue,
    by_hand.SET_ASIDE: by_hand.put_aside,
    by_hand.HAND_BACK: by_hand.hand_back,
}
MAY_NOT = "You can read this. Engineer or admin asks for it, and agrees to it."
LISTED_MAX = 2_000  # events of one request


@dataclass(frozen=True, slots=True)
class Request:
    """A list that waits for a second person, or was agreed to. `rows` are events, each with the version that was seen.

    Of one that was agreed to before, `rows` are those that still stand as they were listed, and `behind` is how many do not;
    None of any other.
    """

    id: int
    act: str
    rows: tuple[tuple[int, int], ...]
    why: str
    requested_by: int
    asked_by: str
    requested_at: datetime
    expires_at: datetime
    behind: int | None = None


def second_because(tx: Transaction, person: Person, n: int) -> str:
    """Why so many more need a second person; "" where this person may act on them alone."""
    row = tx.one(
        "SELECT nottwice.acted_alone(:id) AS done, nottwice.second_person_above() AS above", id=person.id
    )
    if row.done + n <= row.above:
        return ""
    before = f", and you acted on {row.done:,} within the hour" if row.done else ""
    return f"These are {n:,} events{before}: together more than {row.above:,}. A second person must agree."


def ask(tx: Transaction, deed: str, rows: Sequence[tuple[int, int]], act: Act, *, expires_s: float) -> int:
    """Ask a second person; nothing is done with the events until one agrees. Returns the request's id.

    Raises NotAllowed, Incomplete without a reason, AlreadyDecided, and NotNow for a list that is empty or too long, names an
    event twice, or one that does not exist.
    """
    _may(act)
    if not rows or len(rows) > LISTED_MAX:
        raise NotNow(f"A request names 1 to {LISTED_MAX:,} events; these are {len(rows):,}. Choose less.")
    _must_be_events(tx, [event_id for event_id, _ in rows])
    audit.refuse_second_use(tx, act)
    asked = tx.one(
        """INSERT INTO nottwice.stuck_requests (act, event_ids, versions, why, requested_by, expires_at)
           VALUES (:act, :ids, :versions, :why, :person, now() + make_interval(secs => :s)) RETURNING id""",
        act=deed,
        ids=[event_id for event_id, _ in rows],
        versions=[version for _, version in rows],
        why=act.reason,
        person=act.person.id,
        s=expires_s,
    )
    words = f"asked a second person: {deed}"
    audit.done(
        tx,
        act,
        words,
        "request",
        asked.id,
        version=1,
        before=None,
        after="waiting",
        detail=f"{len(rows):,} events",
    )
    return int(asked.id)


def agree(tx: Transaction, request_id: int, act: Act) -> Request:
    """The second person's word. The list is theirs to carry out then, within an hour. Raises NotAllowed for who asked.

    Who agreed and was interrupted gets what is left of the list by the same word again; nothing new is decided then.
    """
    if left := _carried_on(tx, request_id, act):
        return left
    request = _held(tx, request_id, act)
    must_be_somebody_else(tx, request.requested_by, act)
    _decide(tx, request, act, "agreed")
    return request


def decline(tx: Transaction, request_id: int, act: Act) -> Request:
    """The request ends, and nothing was done. Who asked withdraws by this."""
    request = _held(tx, request_id, act)
    _decide(tx, request, act, "withdrawn" if request.requested_by == act.person.id else "disagreed")
    return request


def carry_out(tx: Transaction, request: Request, event_id: int, version: int, act: Act) -> int:
    """One event of a list that this person agreed to. Raises as the act itself does."""
    return DEEDS[request.act](tx, event_id, version, act, detail=f"request {request.id}")


OPEN = """
SELECT r.id, r.act, r.event_ids, r.versions, r.why, r.requested_by, p.name AS asked_by, r.requested_at, r.expires_at, r.decision,
       r.decided_at, d.name AS decided_name, r.expires_at <= now() AS expired
FROM nottwice.stuck_requests r JOIN nottwice.people p ON p.id = r.requested_by LEFT JOIN nottwice.people d ON d.id = r.decided_by
"""


def waiting(tx: Transaction) -> list[Request]:
    """Those that a second person is waited for, the oldest first."""
    rows = tx.all(OPEN + "WHERE r.decision IS NULL AND r.expires_at > now() ORDER BY r.id LIMIT 20")
    return [_request(row) for row in rows]


AGREED = "WHERE r.decision = 'agreed' AND r.decided_by = :person AND r.decided_at > now() - interval '1 hour'"
AS_LISTED = """
SELECT e.id FROM unnest(CAST(:ids AS bigint[]), CAST(:versions AS bigint[])) AS l(id, version)
JOIN nottwice.events e ON e.id = l.id AND e.version = l.version
"""


def unfinished(tx: Transaction, person: Person) -> list[Request]:
    """Those that this person agreed to within the hour, of which not all were carried out, or changed, by now."""
    rows = tx.all(OPEN + AGREED + " ORDER BY r.id LIMIT 20", person=person.id)
    return [left for row in rows if (left := _left(tx, row))]


def _carried_on(tx: Transaction, request_id: int, act: Act) -> Request | None:
    _may(act)
    row = tx.first(OPEN + AGREED + " AND r.id = :id", id=request_id, person=act.person.id)
    return _left(tx, row) if row else None


def _left(tx: Transaction, row: sa.Row[Any]) -> Request | None:
    """What still stands as it was listed: whatever is carried out has another version, and so has what changed."""
    request = _request(row)
    there = tx.all(AS_LISTED, ids=list(row.event_ids), versions=list(row.versions))
    still = {one.id for one in there}
    rows = tuple(pair for pair in request.rows if pair[0] in still)
    return replace(request, rows=rows, behind=len(request.rows) - len(rows)) if rows else None


def _must_be_events(tx: Transaction, ids: Sequence[int]) -> None:
    if len(set(ids)) < len(ids):
        raise NotNow("An event stands on this list twice. Nothing was asked.")
    there = {
        row.id for row in tx.all("SELECT id FROM nottwice.events WHERE id = ANY (:ids)", ids=_storable(ids))
    }
    if missing := [n for n in ids if n not in there]:
        raise NotNow(f"Event {missing[0]} does not exist. Nothing was asked.")


def _storable(ids: Sequence[int]) -> list[int]:
    """Without what is no number of a row by its size already."""
    return [n for n in ids if 0 < n < 2**63]


def _may(act: Act) -> None:
    if act.person.role not in recovery.REQUEUERS:
        raise NotAllowed(MAY_NOT)
    if not act.reason.strip():
        raise Incomplete("Nothing was done. Please say why.")


def _held(tx: Transaction, request_id: int, act: Act) -> Request:
    _may(act)
    audit.refuse_second_use(tx, act)
    row = tx.first(OPEN + "WHERE r.id = :id FOR NO KEY UPDATE OF r", id=request_id)
    if row is None:
        raise NotNow("There is nothing here, or you may not see it.")
    if row.decision is not None:
        raise first(row.decided_name, f"{row.decision}: {row.act}", row.decided_at)
    if row.expired:
        raise NotNow("This request has run out. Nothing was done; ask anew.")
    return _request(row)


def _request(row: object) -> Request:
    r = row
    pairs = tuple(zip(r.event_ids, r.versions, strict=True))  # type: ignore[attr-defined]
    return Request(r.id, r.act, pairs, r.why, r.requested_by, r.asked_by, r.requested_at, r.expires_at)  # type: ignore[attr-defined]


def _decide(tx: Transaction, request: Request, act: Act, decision: str) -> None:
    """The audit row and the one guarded statement, in this order."""
    audit.done(
        tx, act, f"{decision}: {request.act}", "request", request.id, version=2, before="waiting", after=decision,
        detail=f"{len(request.rows):,} events",
    )  # fmt: skip
    tx.one(
        """UPDATE nottwice.stuck_requests SET decided_by = :person, decided_at = now(), decision = :decision, version = 2
           WHERE id = :id AND version = 1 AND decision IS NULL RETURNING id""",
        id=request.id,
        person=act.person.id,
        decision=decision,
    )
