"""Bodies behind the audit, by the database itself; where two contents differ; a conflict that is marked as seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import audit
from ledger.database import Database, sqlstate
from ledger.errors import AlreadyDecided, Incomplete, NotAllowed, NotNow, Stale
from ledger.kept import conflicts, reveals
from ledger.records import Act, Person, Role
from ledger.sign_in import people
from ledger.views import kept as views_kept
from tests.fix_events import Ledger, delivery
from tests.fix_seed import House
from tests.fix_story import CHANGED, PAID, Told, told

DENIED = "42501"


@pytest.fixture
def console(opened_as: Callable[[str], Database]) -> Database:
    return opened_as("nottwice_console")


def person(console: Database, role: Role = Role.SUPPORT) -> Person:
    name = f"Ann, {role.value}"
    return console.run(lambda tx: people.person(tx, "local", name, name, "", role))


def act(who: Person, why: str = "Ticket 7") -> Act:
    return Act(who, uuid4(), why)


def entries(house: House) -> list[tuple[Any, ...]]:
    sql = "SELECT entity, entity_id, act, outcome, why FROM nottwice.audit ORDER BY id"
    return [tuple(row) for row in house.db.run(lambda tx: tx.all(sql))]


BODIES: dict[reveals.Readable, Callable[[Told], tuple[int, bytes]]] = {
    "event": lambda made: (made.done, json.dumps(PAID).encode()),
    "conflict": lambda made: (made.conflict, json.dumps(CHANGED).encode()),
    "quarantine": lambda made: (made.binary, bytes(range(256)) * 4),
}


@pytest.mark.parametrize("entity", BODIES)
@pytest.mark.parametrize("role", Role)
def test_a_body_is_shown_behind_its_row_to_those_who_may(
    console: Database, house: House, entity: reveals.Readable, role: Role
) -> None:
    made, who = told(house), person(console, role)
    entity_id, body = BODIES[entity](made)
    if role is Role.VIEWER:
        with pytest.raises(NotAllowed):
            reveals.reveal(console, entity, entity_id, act(who))
        assert entries(house) == []
        return
    if role in reveals.REVEAL_WITH_WHY:
        with pytest.raises(Incomplete):
            reveals.reveal(console, entity, entity_id, act(who, " "))
    assert reveals.reveal(console, entity, entity_id, act(who)) == body
    assert entries(house) == [(entity, entity_id, "reveal", "done", "Ticket 7")]


def test_what_is_not_there_is_not_noted_as_shown(console: Database, house: House) -> None:
    for role in reveals.REVEALERS:
        for entity in reveals.TABLES:
            with pytest.raises(NotNow, match="nothing here"):
                reveals.reveal(console, entity, 4711, act(person(console, role)))
    assert entries(house) == []


def test_both_contents_are_two_rows_of_one_act(console: Database, house: House) -> None:
    made = told(house)
    first, later = reveals.reveal_both(console, made.conflict, made.done, act(person(console)))
    assert (json.loads(first), json.loads(later)) == (PAID, CHANGED)
    assert [row[:2] for row in entries(house)] == [("conflict", made.conflict), ("event", made.done)]


def test_what_is_no_longer_kept_is_said(console: Database, house: House) -> None:
    made = told(house)
    house.run("DELETE FROM nottwice.event_contents")
    with pytest.raises(NotNow, match="no longer kept"):
        reveals.reveal(console, "event", made.done, act(person(console)))


@pytest.mark.parametrize(
    "spoiled",
    ["its own transaction", "another role", "a viewer's", "refused", "old", "not a reveal", "nobody's"],
)
def test_the_database_gives_no_body_for_a_row_that_does_not_say_so(
    console: Database, house: House, spoiled: str
) -> None:
    made, who = told(house), person(console)
    values = {
        "person": who.id,
        "role": "support",
        "act": "reveal",
        "outcome": "done",
        "id": made.done,
        "ago": 0,
    }
    values |= {
        "another role": {"role": "admin"}, "a viewer's": {"role": "viewer"}, "refused": {"outcome": "refused"},
        "old": {"ago": 1000}, "not a reveal": {"act": "look"}, "nobody's": {"person": None},
    }.get(spoiled, {})  # fmt: skip
    insert = """INSERT INTO nottwice.audit (person_id, role, act, entity, entity_id, outcome, at)
                VALUES (:person, :role, :act, 'event', :id, :outcome, now() - make_interval(secs => :ago)) RETURNING id"""

    def in_one(tx: Any) -> None:
        entry = audit.done(tx, act(who), "reveal", "event", made.done, version=None, before=None, after=None)
        tx.execute("SELECT nottwice.reveal(:id)", id=entry)

    def read(tx: Any) -> None:
        tx.execute("SELECT nottwice.reveal(:id)", id=entry)

    entry = 0 if spoiled == "its own transaction" else house.db.run(lambda tx: tx.one(insert, **values)).id
    role = Role.VIEWER if spoiled == "a viewer's" else Role.SUPPORT
    with pytest.raises(DBAPIError) as error:
        console.run(in_one if spoiled == "its own transaction" else read, role=role)
    assert sqlstate(error.value) == DENIED


# ── Where two contents differ ─────────────────────────────────────────────────────────────────────────


def changed(
    book: Ledger, console: Database, first: bytes, later: bytes, ignored: tuple[str, ...] = ()
) -> list[Any]:
    """The paths of a conflict between these two, as support sees them."""
    book.accept(delivery("a", body=first))
    book.accept(delivery("a", body=later))
    conflict_id = book.value("SELECT id FROM nottwice.conflicts")
    found = console.run(lambda tx: views_kept.changes(tx, conflict_id, ignored), role=Role.SUPPORT)
    return [(*change.path, change.in_first, change.in_later) for change in found]


def test_paths_say_on_which_side_a_value_is(book: Ledger, console: Database) -> None:
    first, later = (
        b'{"a": 1, "b": [1, 2], "same": {"x": 1.0}}',
        b'{"a": 2, "b": [1], "c": null, "same": {"x": 1}}',
    )
    assert changed(book, console, first, later) == [
        ("a", True, True), ("b", "1", True, False), ("c", False, True),
    ]  # fmt: skip


def test_members_that_differ_between_honest_retries_are_left_out(book: Ledger, console: Database) -> None:
    first, later = b'{"a": 1, "sent": {"at": 1}}', b'{"a": 2, "sent": {"at": 2}}'
    assert changed(book, console, first, later, ("sent",)) == [("a", True, True)]


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe", b"{", b"", b'{"a": "\\ud800"}', b"[" * 5000, b'{"a": 1e999999999}', b'"\\u0000"', b"a=1&b=2",
        b'{"a": ' + b"9" * 200_000 + b"}", json.dumps({f"k{n}": n for n in range(3000)}).encode(),
    ],
    ids=range(10),
)  # fmt: skip
def test_no_content_however_hostile_breaks_the_comparison(
    book: Ledger, console: Database, body: bytes
) -> None:
    assert len(changed(book, console, b'{"a": 1}', body)) <= views_kept.PATHS_MAX


def test_a_viewer_is_not_told_where_contents_differ(console: Database, house: House) -> None:
    made = told(house)
    with pytest.raises(DBAPIError) as error:
        console.run(lambda tx: views_kept.changes(tx, made.conflict), role=Role.VIEWER)
    assert sqlstate(error.value) == DENIED


# ── Marked as seen ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", Role)
def test_who_may_mark_a_conflict_as_seen(console: Database, house: House, role: Role) -> None:
    made, who = told(house), person(console, role)
    mark = lambda tx: conflicts.mark_seen(tx, made.conflict, 1, act(who))  # noqa: E731
    if role not in conflicts.MARKERS:
        with pytest.raises(NotAllowed):
            console.run(mark, role=role)
        return
    console.run(mark, role=role)
    conflict = console.run(lambda tx: views_kept.conflict(tx, made.conflict), role=role)
    assert conflict is not None and (conflict.version, conflict.seen_by) == (2, who.name)
    assert console.run(views_kept.sizes, role=role).conflicts == 0
    with pytest.raises(AlreadyDecided):
        console.run(lambda tx: conflicts.mark_seen(tx, made.conflict, 2, act(who)), role=role)


def test_a_stale_or_repeated_mark_changes_nothing(console: Database, house: House) -> None:
    made, who = told(house), person(console)
    given = act(who)
    with pytest.raises(Stale):
        console.run(lambda tx: conflicts.mark_seen(tx, made.conflict, 7, given), role=Role.SUPPORT)
    console.run(lambda tx: conflicts.mark_seen(tx, made.conflict, 1, given), role=Role.SUPPORT)
    with pytest.raises(AlreadyDecided) as error:
        console.run(lambda tx: conflicts.mark_seen(tx, made.conflict, 1, given), role=Role.SUPPORT)
    assert error.value.same_form
    with pytest.raises(NotNow):
        console.run(lambda tx: conflicts.mark_seen(tx, 10**9, 1, act(who)), role=Role.SUPPORT)


@pytest.mark.parametrize("step", [0, 1, 2])
def test_no_mark_without_its_audit_row_by_the_database(console: Database, house: House, step: int) -> None:
    made = told(house)
    sql = "UPDATE nottwice.conflicts SET acknowledged_at = now(), version = version + :step WHERE id = :id"
    with pytest.raises(DBAPIError, match="no change without its audit row") as error:
        console.run(lambda tx: tx.execute(sql, id=made.conflict, step=step) and None, role=Role.SUPPORT)
    assert sqlstate(error.value) == DENIED


def test_no_audit_row_of_a_mark_that_was_not_made(console: Database, house: House) -> None:
    made, who = told(house), person(console)
    with pytest.raises(DBAPIError, match="claims a change that was not made"):
        console.run(
            lambda tx: audit.done(
                tx, act(who), conflicts.SEEN, "conflict", made.conflict, version=2, before="new", after="seen"
            ),
            role=Role.SUPPORT,
        )


def test_a_receiver_still_counts_deliveries_of_a_conflict(house: House) -> None:
    """It is no person: its update of the same table needs no audit row."""
    made = told(house)
    book = Ledger(house.db)
    book.accept(delivery("invoice.paid evt_1042", body=json.dumps(CHANGED).encode()))
    assert book.value("SELECT deliveries FROM nottwice.conflicts WHERE id = :id", id=made.conflict) == 2
