"""People are rows, keyed by who vouches for them and under which subject; never by a name that can change."""

from __future__ import annotations

from ledger.database import Transaction
from ledger.errors import Misconfigured
from ledger.records import Person, Role
from ledger.settings import PersonSettings, Settings
from ledger.sign_in.admission import Admitted

LOCAL = "local"  # who vouches for the people of the configuration


def person(tx: Transaction, issuer: str, subject: str, name: str, email: str, role: Role) -> Person:
    """The person's row, made at the first sight. The role is of this session and is not stored."""
    row = tx.one(
        """INSERT INTO nottwice.people (issuer, subject, name, email) VALUES (:issuer, :subject, :name, :email)
           ON CONFLICT (issuer, subject) DO UPDATE SET name = excluded.name, email = excluded.email, seen_at = now()
           RETURNING id""",
        issuer=issuer,
        subject=subject,
        name=name,
        email=email,
    )
    return Person(row.id, issuer, subject, name, email, role)


def configured(settings: Settings, email: str) -> PersonSettings:
    """The one of `[console] people` with this e-mail address, or, without an address, of this name.

    Raises Misconfigured, which names those that are known.
    """
    for one in settings.console.people:
        if (one.email or one.name).casefold() == email.strip().casefold():
            return one
    known = ", ".join(one.email or one.name for one in settings.console.people) or "nobody"
    raise Misconfigured(f"{email} is not among [console] people; known there: {known}.")


def local(tx: Transaction, given: PersonSettings) -> Person:
    """One of the people of the configuration, the same row as in the console."""
    return person(tx, LOCAL, given.email or given.name, given.name, given.email, given.role)


def admitted(tx: Transaction, found: Admitted) -> Person:
    """Whoever signed in: a row by issuer and subject, so that another with the same name or address is another row."""
    return person(tx, found.issuer, found.subject, found.name, found.email, found.role)
