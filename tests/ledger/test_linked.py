"""Two events of one occurrence, linked by a person: who may, what is refused, and that the record is all that changes."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger.database import Database, sqlstate
from ledger.errors import NotAllowed, NotNow
from ledger.kept import linked
from ledger.records import Act, Person, Role
from ledger.sign_in import people
from ledger.views import linked as views_linked
from ledger.views.linked import Linked
from tests.fix_events import Ledger

DENIED = "42501"


@pytest.fixture
def console(opened_as: Callable[[str], Database]) -> Database:
    return opened_as("nottwice_console")


@pytest.fixture
def book(console: Database, database: Database) -> Ledger:
    return Ledger(database)


def person(console: Database, role: Role) -> Person:
    return console.run(lambda tx: people.person(tx, "local", role.value, role.value, "", role))


def link(console: Database, one: int, other: int, role: Role = Role.SUPPORT) -> int:
    act = Act(person(console, role), uuid4(), "Its sender numbers each try anew.")
    return console.run(lambda tx: linked.link(tx, one, other, act), role=role)


def take_back(console: Database, one: int, role: Role = Role.SUPPORT) -> int:
    act = Act(person(console, role), uuid4(), "They are two after all.")
    return console.run(lambda tx: linked.take_back(tx, one, act), role=role)


def group(console: Database, event: int) -> Linked:
    return console.run(lambda tx: views_linked.of_event(tx, event), role=Role.VIEWER)


def test_each_leads_to_the_others_whichever_was_linked_to_which(console: Database, book: Ledger) -> None:
    a, b, c, d = book.stored("a", "b", "c", "d")
    before = book.rows("SELECT * FROM nottwice.events ORDER BY id")
    link(console, a, b)
    link(console, d, c)
    link(console, b, d)
    assert [group(console, one) for one in (a, b, c, d)] == [
        Linked((b, c, d), None),
        Linked((a, c, d), a),
        Linked((a, b, d), a),
        Linked((a, b, c), c),
    ]
    assert book.rows("SELECT * FROM nottwice.events ORDER BY id") == before, "only the record changes"
    noted = book.rows("SELECT act, entity, entity_id, detail, outcome FROM nottwice.audit ORDER BY id")
    assert [tuple(row) for row in noted] == [
        (linked.LINKED, "event", later, f"event {first}", "done") for first, later in ((a, b), (c, d), (a, c))
    ]


def test_what_was_linked_by_mistake_is_taken_back_and_can_be_linked_anew(
    console: Database, book: Ledger
) -> None:
    a, b, c = book.stored("a", "b", "c")
    link(console, b, c)
    take_back(console, c)
    assert group(console, b) == group(console, c) == Linked((), None)
    with pytest.raises(NotNow, match="not linked to an earlier event"):
        take_back(console, c)
    link(console, c, a)
    assert (group(console, c), group(console, b)) == (Linked((a,), a), Linked((), None))


@pytest.mark.parametrize("role", Role)
def test_who_may_link_events(console: Database, book: Ledger, role: Role) -> None:
    a, b = book.stored("a", "b")
    if role in linked.LINKERS:
        link(console, a, b, role)
        take_back(console, b, role)
        return
    for try_it in (lambda: link(console, a, b, role), lambda: take_back(console, b, role)):
        with pytest.raises(NotAllowed):
            try_it()


def test_what_cannot_be_one_is_refused(console: Database, book: Ledger) -> None:
    a, b = book.stored("a", "b")
    (elsewhere,) = book.stored("e", namespace="other")
    link(console, a, b)
    for other, why in (
        (a, "one event, or linked"),
        (b, "linked already"),
        (elsewhere, "another namespace's"),
    ):
        with pytest.raises(NotNow, match=why):
            link(console, a, other)
    for one, other in ((a, 10**9), (10**9, a)):
        with pytest.raises(NotNow, match="There is no event 1000000000"):
            link(console, one, other)
    assert group(console, a) == Linked((b,), None)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO nottwice.same_occurrence (event_id, first_id, said_by) VALUES (:b, :c, :by)",
        "UPDATE nottwice.same_occurrence SET is_same = false WHERE event_id = :b",
    ],
)
def test_no_link_without_its_audit_row_by_the_database(console: Database, book: Ledger, sql: str) -> None:
    a, b, c = sorted(book.stored("a", "b", "c"))
    link(console, a, b)
    values = {"b": c, "c": a} if "INSERT" in sql else {"b": b}
    values |= {"by": person(console, Role.SUPPORT).id} if "INSERT" in sql else {}
    with pytest.raises(DBAPIError, match="no change without its audit row") as error:
        console.run(lambda tx: tx.execute(sql, **values) and None, role=Role.SUPPORT)
    assert sqlstate(error.value) == DENIED
