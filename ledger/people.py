"""People are rows, keyed by who vouches for them and under which subject; never by a name that can change."""

from __future__ import annotations

from ledger.database import Transaction
from ledger.records import Person, Role

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
