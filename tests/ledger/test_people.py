"""People are known by who vouches for them, not by a name that can change."""

from __future__ import annotations

from ledger.records import Person, Role
from ledger.sign_in import people
from tests.fix_sends import Sends


def known(sends: Sends, issuer: str, subject: str, name: str, role: Role = Role.SUPPORT) -> Person:
    return sends.by_console.run(
        lambda tx: people.person(tx, issuer, subject, name, f"{name}@example.com", role)
    )


def test_a_person_is_one_row_whatever_they_are_called(sends: Sends) -> None:
    before = known(sends, "https://id.example", "u-1", "ann")
    after = known(sends, "https://id.example", "u-1", "ann-marie", Role.ADMIN)
    assert (after.id, after.role) == (before.id, Role.ADMIN)
    (row,) = sends.rows("SELECT name, email FROM nottwice.people")
    assert (row.name, row.email) == ("ann-marie", "ann-marie@example.com")


def test_the_same_subject_of_another_issuer_is_another_person(sends: Sends) -> None:
    ids = {known(sends, issuer, "u-1", "ann").id for issuer in ("https://a.example", "https://b.example")}
    assert len(ids) == 2
