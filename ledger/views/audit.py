"""What the audit page reads: a page of entries, one entry whole, and how the record stands."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ledger.audit import Entity, seals
from ledger.audit import choice as audit_choice
from ledger.audit import memory as audit_memory
from ledger.audit.choice import Chosen, Outcome, Place
from ledger.audit.memory import Check
from ledger.database import Transaction
from ledger.errors import NotAllowed
from ledger.records import Person, Role

READ_ALL = frozenset({Role.ENGINEER, Role.AUDITOR, Role.ADMIN})
READ_OWN = frozenset({Role.SUPPORT})
CHECKERS = frozenset({Role.AUDITOR, Role.ADMIN})  # may check and export


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. `who` is empty for a policy; `about` is what its subject is called, where that is known.

    `sequence` and `hash` are its place in the chain and its seal; None while it waits for one.
    """

    id: int
    at: datetime
    person_id: int | None
    who: str
    role: str
    act: str
    entity: Entity
    entity_id: int
    entity_version: int | None
    about: str
    outcome: Outcome
    why: str
    looked_at: tuple[str, ...]
    known: str
    state_before: str | None
    state_after: str | None
    detail: str
    form_id: str | None
    transaction: str
    sequence: int | None
    hash: bytes | None


@dataclass(frozen=True, slots=True)
class Page:
    """`onwards`: where the next page begins, None at the end. `looked_to`: how far back was looked when the page
    is not full and there is more to look through."""

    entries: tuple[Entry, ...]
    onwards: Place | None
    looked_to: datetime | None


@dataclass(frozen=True, slots=True)
class Standing:
    """Entries in the chain, entries that wait for their seal for over a minute, and the last check of them all."""

    sealed: int
    unsealed: int
    check: Check | None
    now: datetime


def entries(
    tx: Transaction, who: Person, chosen: Chosen, *, after: Place | None = None, most: int = 25
) -> Page:
    """The next `most` entries that `who` may see, newest first. Raises NotAllowed for who may see none."""
    return _page(tx, _own(who, chosen), after, most)


def newest(tx: Transaction, chosen: Chosen, most: int) -> list[Entry]:
    """The newest `most` entries, however far back they are."""
    page = _page(tx, chosen, None, most)
    found = list(page.entries)
    while page.onwards is not None and len(found) < most:
        page = _page(tx, chosen, page.onwards, most - len(found))
        found += page.entries
    return found


def _page(tx: Transaction, chosen: Chosen, after: Place | None, most: int) -> Page:
    looked = audit_choice.window(chosen, after)
    found = [made(row) for row in tx.all(audit_choice.page(looked, chosen, most + 1))]
    if len(found) > most:
        last = found[most - 1]
        return Page(tuple(found[:most]), (last.at, last.id), None)
    end = _end(tx, looked)
    return Page(tuple(found), end, end and end[0])


def entry(tx: Transaction, who: Person, audit_id: int) -> Entry | None:
    """One entry; None when there is none, or `who` may not see it. Raises NotAllowed for who may see none."""
    only = _own(who, Chosen()).person
    of = audit_choice.AUDIT
    row = tx.first(audit_choice.told(sa.select(of).where(of.c.id == audit_id).subquery()))
    return made(row) if row is not None and only in (None, row.person_id) else None


def recipients(tx: Transaction, entry: Entry) -> tuple[str, ...]:
    """To whom the send of an entry went or was to go, as the reader's role may see them; nobody once they are not kept.

    Never part of the record itself, which is kept longer than people's addresses.
    """
    if entry.entity != "action":
        return ()
    row = tx.first("SELECT recipients FROM nottwice.recipients WHERE action_id = :id", id=entry.entity_id)
    return tuple(row.recipients) if row else ()


def count(tx: Transaction, chosen: Chosen, *, most: int) -> int:
    """How many entries were asked for; `most + 1` stands for any number beyond `most`."""
    return int(tx.one(audit_choice.counted(chosen, most + 1))[0])


def people(tx: Transaction) -> dict[int, str]:
    """Everybody who has an entry, by number, in the order of their names: one look into the index a person.

    From one person to the next, not for each whether there is an entry: that looks through all of them, by time, for
    somebody who has none, wherever the planner takes a person's entries for many.
    """
    rows = tx.all(
        """WITH RECURSIVE acted AS (
               (SELECT person_id FROM nottwice.audit WHERE person_id IS NOT NULL ORDER BY person_id LIMIT 1)
               UNION ALL
               SELECT (SELECT a.person_id FROM nottwice.audit a WHERE a.person_id > w.person_id ORDER BY a.person_id LIMIT 1)
               FROM acted w WHERE w.person_id IS NOT NULL)
           SELECT p.id, p.name FROM acted w JOIN nottwice.people p ON p.id = w.person_id
           ORDER BY p.name, p.id LIMIT 500"""
    )
    return {row.id: row.name for row in rows}


def acts(tx: Transaction) -> list[str]:
    """Every word for an act in the record: one look into the index a word."""
    rows = tx.all(
        """WITH RECURSIVE words AS (
               (SELECT act FROM nottwice.audit ORDER BY act LIMIT 1)
               UNION ALL
               SELECT (SELECT a.act FROM nottwice.audit a WHERE a.act > w.act ORDER BY a.act LIMIT 1)
               FROM words w WHERE w.act IS NOT NULL)
           SELECT act FROM words WHERE act IS NOT NULL LIMIT 200"""
    )
    return [row.act for row in rows]


def standing(tx: Transaction) -> Standing:
    """How the record stands now."""
    row = tx.one(
        "SELECT now() AS now, (SELECT coalesce(max(sequence), 0) FROM nottwice.audit_seals) AS sealed"
    )
    return Standing(row.sealed, seals.unsealed(tx), audit_memory.last_check(tx), row.now)


def must_check(who: Person) -> None:
    """Raises NotAllowed for who may neither check the record nor export it."""
    if who.role not in CHECKERS:
        raise NotAllowed("An auditor or admin checks and exports the record.")


def made(row: sa.Row[Any]) -> Entry:
    """An entry from its columns; numbers of transactions and forms as they are written."""
    values = {f.name: getattr(row, f.name) for f in fields(Entry)}
    values |= {"looked_at": tuple(row.looked_at), "transaction": str(row.transaction)}
    values |= {"form_id": row.form_id and str(row.form_id), "hash": row.hash and bytes(row.hash)}
    return Entry(**values)


def _own(who: Person, chosen: Chosen) -> Chosen:
    """Support sees its own acts, whatever it asks for."""
    if who.role in READ_ALL:
        return chosen
    if who.role not in READ_OWN:
        raise NotAllowed("The record is not shown to viewers.")
    return replace(chosen, person=who.id)


def _end(tx: Transaction, looked: sa.Subquery) -> Place | None:
    """Where a window ended, when it ended because it was full."""
    n = sa.func.count().over().label("n")
    oldest = sa.select(looked.c.at, looked.c.id, n).order_by(looked.c.at, looked.c.id).limit(1)
    row = tx.first(oldest)
    return (row.at, row.id) if row is not None and row.n == audit_choice.WINDOW else None
