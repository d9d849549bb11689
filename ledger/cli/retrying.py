"""`nottwice retry`, `set-aside` and `hand-back`: what a named person does with stuck events, each in a transaction of its own.

What the list held is frozen before the first is touched: an event that changed meanwhile is refused as changed. More than
one person may act on within an hour take a second person, who agrees to the list and carries it out (`by_two`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID, uuid4, uuid5

from ledger import audit
from ledger.awake import as_viewer
from ledger.database import Database, Transaction
from ledger.errors import Declined
from ledger.events import by_hand, by_two, recovery
from ledger.records import Act, Person

FORMS = UUID("0b6f0e5e-9a55-4c5f-8d0e-1f5c2a7d9b11")  # the name space of one-time ids
PAGE = 500
MAY_NOT = {
    by_two.TRY_AGAIN: recovery.MAY_NOT,
    by_hand.SET_ASIDE: by_hand.MAY_NOT_SET_ASIDE,
    by_hand.HAND_BACK: by_hand.MAY_NOT_HAND_BACK,
}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which of the events that are set aside; empty: all of them. `error` is a part of its last error."""

    ids: tuple[int, ...] = ()
    namespace: str = ""
    source: str = ""
    type: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One event that something is to be done with, as it was when it was listed."""

    id: int
    version: int
    namespace: str
    source: str
    type: str
    event_key: str
    attempts: int
    last_error: str


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of one: done, or not, and then why. Number 0: of a list that was empty."""

    event_id: int
    refusal: str = ""


LISTING = """
SELECT id, version, namespace, source, type, event_key, attempts, coalesce(last_error, '') AS last_error
FROM nottwice.events
WHERE state = 'failed' AND id > :after
  AND (cardinality(CAST(:ids AS bigint[])) = 0 OR id = ANY (CAST(:ids AS bigint[])))
  AND (:namespace = '' OR namespace = :namespace) AND (:source = '' OR source = :source) AND (:type = '' OR type = :type)
  AND (:error = '' OR position(lower(:error) IN lower(last_error)) > 0)
ORDER BY id LIMIT :page
"""


def listed(database: Database, wanted: Filter) -> list[Chosen]:
    """Those that are set aside and wanted, by number."""
    found: list[Chosen] = []

    def page(tx: Transaction) -> list[Chosen]:
        return _page(tx, wanted, found[-1].id if found else 0)

    while more := database.run(page):
        found += more
    return found


def not_set_aside(database: Database, ids: Sequence[int]) -> list[Tried]:
    """Why each of these numbers cannot be tried again; those that can are missing from the answer."""

    def states(tx: Transaction) -> dict[int, str]:
        as_viewer(tx)
        rows = tx.all("SELECT id, state FROM nottwice.events WHERE id = ANY (:ids)", ids=list(ids))
        return {row.id: row.state for row in rows}

    found = database.run(states)
    return [
        Tried(n, f"is {found[n]}, not set aside" if n in found else "does not exist")
        for n in ids
        if found.get(n) != "failed"
    ]


NAMED = """
SELECT id, version, namespace, source, type, event_key, attempts, coalesce(last_error, '') AS last_error, state, mode
FROM nottwice.events WHERE id = ANY (:ids) ORDER BY id
"""


def named(database: Database, deed: str, ids: Sequence[int]) -> tuple[list[Chosen], list[Tried]]:
    """Those of these numbers that can be set aside, or handed back; and why each of the others cannot."""

    def read(tx: Transaction) -> list[dict[str, Any]]:
        as_viewer(tx)
        return [row._asdict() for row in tx.all(NAMED, ids=list(ids))]

    rows = database.run(read)
    refused = dict.fromkeys(ids, "It does not exist.")
    refused |= {row["id"]: by_hand.why_not(deed, row.pop("state"), row.pop("mode")) for row in rows}
    return [Chosen(**row) for row in rows if not refused[row["id"]]], [
        Tried(n, why) for n, why in refused.items() if why
    ]


def put_back(
    database: Database,
    chosen: Sequence[Chosen],
    person: Person,
    reason: str,
    told: Callable[[int], None],
    deed: str = by_two.TRY_AGAIN,
) -> Iterator[Tried]:
    """Each as this person's act, one of `by_two.DEEDS`, under this person's database role; a refusal is in the audit as well.

    `told` hears how many are done. Who may not do this at all is refused once, for the whole, and also where the list is
    empty. Raises what the database raises; what was done by then stays so.
    """
    if len(chosen) != 1 and person.role not in recovery.REQUEUERS:
        yield from _refused_whole(database, chosen, person, reason, deed)
        return
    for done, event in enumerate(chosen, 1):
        # Derived, so that the same command given twice is one decision.
        act = Act(person, uuid5(FORMS, f"{person.id} {deed} {event.id} {event.version}"), reason)
        does = partial(by_two.DEEDS[deed], event_id=event.id, version=event.version, act=act)
        yield _tried(database, event.id, act, deed, does)
        told(done)


def ask_second(
    database: Database,
    chosen: Sequence[Chosen],
    person: Person,
    reason: str,
    *,
    expires_s: float,
    deed: str = by_two.TRY_AGAIN,
) -> tuple[int, str] | None:
    """Ask a second person to agree to this list, where it takes one: the request's id, and why. None: it takes none.

    Raises what `by_two.ask` raises.
    """
    if person.role not in recovery.REQUEUERS:
        return None  # refused as a whole, on record
    rows = [(event.id, event.version) for event in chosen]

    def ask(tx: Transaction) -> tuple[int, str] | None:
        because = by_two.second_because(tx, person, len(rows))
        act = Act(person, uuid4(), reason)
        return (by_two.ask(tx, deed, rows, act, expires_s=expires_s), because) if because else None

    return database.run(ask, role=person.role)


def agree(database: Database, request_id: int, person: Person, reason: str) -> by_two.Request:
    """The second person's word. Raises what `by_two.agree` raises, noted in the audit."""
    act = Act(person, uuid4(), reason)
    try:
        return database.run(lambda tx: by_two.agree(tx, request_id, act), role=person.role)
    except Declined as error:
        words = str(error)
        database.run(
            lambda tx: audit.refused(tx, act, "agreed", "request", request_id, words), role=person.role
        )
        raise


def carried_out(
    database: Database, request: by_two.Request, person: Person, reason: str, told: Callable[[int], None]
) -> Iterator[Tried]:
    """Each event of a list that this person agreed to, as `put_back` does; given twice, it is one decision an event."""
    for done, (event_id, version) in enumerate(request.rows, 1):
        form = uuid5(FORMS, f"request {request.id} {event_id}")
        act = Act(person, form, reason)
        carry_out = partial(by_two.carry_out, request=request, event_id=event_id, version=version, act=act)
        yield _tried(database, event_id, act, request.act, carry_out)
        told(done)


def _refused_whole(
    database: Database, chosen: Sequence[Chosen], person: Person, reason: str, deed: str
) -> Iterator[Tried]:
    """One row in the audit, however many were asked for: nothing about any of them was looked at."""
    act = Act(person, uuid5(FORMS, f"{person.id} {[(event.id, event.version) for event in chosen]}"), reason)
    which = f", {chosen[0].id} to {chosen[-1].id}" if chosen else ""
    words = f"{MAY_NOT[deed]} Asked for {len(chosen):,} events{which}."
    database.run(lambda tx: audit.refused(tx, act, deed, "installation", 1, words), role=person.role)
    yield from (Tried(n, MAY_NOT[deed]) for n in [event.id for event in chosen] or [0])


def _tried(database: Database, event_id: int, act: Act, deed: str, do: Callable[[Transaction], int]) -> Tried:
    role = act.person.role
    try:
        database.run(do, role=role)
    except Declined as error:
        reason = str(error)
        if not getattr(error, "same_form", False):  # a twin of an act that was done is no try of its own
            database.run(lambda tx: audit.refused(tx, act, deed, "event", event_id, reason), role=role)
        return Tried(event_id, reason)
    return Tried(event_id)


def _page(tx: Transaction, wanted: Filter, after: int) -> list[Chosen]:
    as_viewer(tx)
    rows = tx.all(
        LISTING,
        after=after,
        ids=list(wanted.ids),
        namespace=wanted.namespace,
        source=wanted.source,
        type=wanted.type,
        error=wanted.error,
        page=PAGE,
    )
    return [Chosen(**row._asdict()) for row in rows]
