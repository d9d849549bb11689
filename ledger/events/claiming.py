"""How a claim of an event begins. Part of the event machine in `work.py`."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.database import Transaction
from ledger.events import order
from ledger.events.front import EVERYWHERE, Front, kinds
from ledger.records import ClaimedEvent, Deadline, Event, EventLease, Mode, Run, Worker
from ledger.records.by_place import by_place

ATTEMPTS_MAX = 5
MODES = {mode.value: mode for mode in Mode}
ROUNDS_MAX = 20  # of looking, while all that is found has to wait for its turn

# The statement itself is `nottwice.claim_events` in sql/0030_claims.sql: a function, because a server keeps its plan.
CLAIM = """
SELECT * FROM nottwice.claim_events(
    :worker, CAST(:sources AS text[]), CAST(:types AS text[]), CAST(:namespaces AS text[]), CAST(:dues AS timestamptz[]),
    CAST(:after AS bigint[]), :alone, :limit, :lease_s, :attempts_max)
"""


def claim(
    tx: Transaction,
    worker: Worker,
    *,
    limit: int,
    lease_s: float,
    idle: bool = False,
    attempts_max: int = ATTEMPTS_MAX,
    front: Front | None = None,
) -> list[ClaimedEvent]:
    """Take up to `limit` due events of handled kinds, oldest first, namespaces in turn. Counts the attempt.

    The first claim of an event sets how many it may have; afterwards only a person raises that.

    Of events with one ordering key only the first that has not ended is taken, and only while none of them is being
    worked. Raises what the referee raises, an IntegrityError of `one_of_a_lane_at_a_time`, when two claims that began
    at the same instant saw a different first one: nothing was taken, and another try sees what the other one took.

    What was rescued runs with nothing beside it in its process, so that an event that kills its worker counts
    against itself alone: such an event is taken only when the caller says it is `idle` (it runs nothing else, and
    will not until this one has ended), and then it is the only one. A caller that is not idle never gets one.

    With a `front`, what was claimed lately is not walked over again; the caller moves it once this is committed.
    """
    values = {"worker": worker.id, "lease_s": lease_s, "attempts_max": attempts_max}
    everywhere = kinds(worker.handles) | EVERYWHERE
    if idle and (alone := _claim(tx, 1, values | everywhere | {"alone": True})):
        return alone
    return _claim(tx, limit, values | (front.ranges() if front else everywhere) | {"alone": False})


def _claim(tx: Transaction, limit: int, values: dict[str, Any]) -> list[ClaimedEvent]:
    claimed: list[ClaimedEvent] = []
    for _ in range(ROUNDS_MAX):
        rows = tx.straight(CLAIM, **values, limit=limit - len(claimed))
        claimed += [_claimed(*row) for row in rows if row[0] is not None]
        *_, blocked, behind = rows[0]
        if len(claimed) >= limit or not order.line_up(tx, blocked or (), behind or ()):
            break
    return sorted(claimed, key=_age)


def _age(one: ClaimedEvent) -> tuple[datetime, int]:
    return one.event.accepted_at, one.event.id


def _claimed(
    id_: int,
    namespace: str,
    source: str,
    type_: str,
    key: str,
    body: bytes,
    accepted_at: datetime,
    occurred_at: datetime | None,
    mode: str,
    run: int,
    token: UUID,
    attempts: int,
    attempts_max: int,
    alone: bool,
    passed_over: int | None,
    overtaken_by: int | None,
    in_lane: bool,
    was_due_at: datetime | None,
    *_: object,
) -> ClaimedEvent:
    """By place, in the order of the function's answer: this runs for every event."""
    why = _run(MODES[mode], run, attempts, attempts_max, Deadline())
    event = _event(
        id_, namespace, source, type_, key, body, accepted_at, occurred_at, why, passed_over, overtaken_by
    )
    return _claimed_event(_lease(id_, token), event, attempts, attempts_max, alone, in_lane, was_due_at)


_run, _event, _lease, _claimed_event = (
    by_place(Run),
    by_place(Event),
    by_place(EventLease),
    by_place(ClaimedEvent),
)
