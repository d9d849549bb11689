"""What checks of the record found, kept beside it: what the page shows, and what a later check holds the chain against."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ledger import audit
from ledger.database import Transaction
from ledger.records import Act

CHECKED = "checked the record"
ENDS_EARLY = "The record ends too early, behind entry"


@dataclass(frozen=True, slots=True)
class Break:
    """The first entry that does not fit, by its number, and how, in words."""

    entry: int
    words: str

    @property
    def heading(self) -> str:
        """The answer in one sentence of ours and a number."""
        if self.words.startswith(ENDS_EARLY):
            return f"{ENDS_EARLY} {self.entry:,}."
        return f"Entry {self.entry:,} does not fit the one before it."


@dataclass(frozen=True, slots=True)
class Verification:
    """How many entries fit, from the first on, and the seal of the last of them; `broken` None: the record is whole.

    `backdated` is the first entry dated over an hour before the one sealed before it: it was put in later, or the
    server's clock was set back. `unsealed` counts those that wait for their seal for over a minute.
    """

    entries: int
    hash: bytes
    broken: Break | None
    backdated: int | None
    unsealed: int


@dataclass(frozen=True, slots=True)
class Check:
    """A recorded check. `who` is empty for the command line."""

    checked_at: datetime
    who: str
    entries: int
    broken: Break | None
    backdated: int | None
    unsealed: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the chain must read as it was read before, and by whom."""

    entries: int
    hash: bytes
    whose: str


def record(tx: Transaction, found: Verification, act: Act | None) -> int:
    """Keep what a check found, for the page and for the next check; returns the check's number.

    In a person's name it is an entry of the record itself, which the database demands (sql/0013); in nobody's it is for the
    database's owner alone.
    """
    if act is not None:
        audit.done(
            tx, act, CHECKED, "audit", 0, version=None, before=None, after=None, detail=_in_words(found)
        )
    row = tx.one(
        """INSERT INTO nottwice.audit_checks (person_id, entries, hash, broken_entry, broken, backdated, unsealed)
           VALUES (:person, :entries, :hash, :broken_entry, :broken, :backdated, :unsealed) RETURNING id""",
        person=act.person.id if act else None,
        entries=found.entries,
        hash=found.hash,
        broken_entry=found.broken.entry if found.broken else None,
        broken=found.broken.words if found.broken else None,
        backdated=found.backdated,
        unsealed=found.unsealed,
    )
    return int(row.id)


def _in_words(found: Verification) -> str:
    whole = f"whole, {found.entries:,} {'entry' if found.entries == 1 else 'entries'}"
    return whole if found.broken is None else found.broken.heading


def last_check(tx: Transaction) -> Check | None:
    """The newest recorded check."""
    row = tx.first(
        """SELECT c.*, coalesce(p.name, '') AS who FROM nottwice.audit_checks c
           LEFT JOIN nottwice.people p ON p.id = c.person_id ORDER BY c.id DESC LIMIT 1"""
    )
    if row is None:
        return None
    broken = Break(row.broken_entry, row.broken) if row.broken is not None else None
    return Check(row.checked_at, row.who, row.entries, broken, row.backdated, row.unsealed)


def marks(tx: Transaction) -> list[Mark]:
    """Where the newest check that found the record whole saw its end."""
    rows = tx.all(
        """SELECT entries, hash, checked_at AT TIME ZONE 'UTC' AS at FROM nottwice.audit_checks
           WHERE broken IS NULL AND entries > 0 ORDER BY id DESC LIMIT 1"""
    )
    return [Mark(row.entries, bytes(row.hash), f"the check of {row.at:%d %b %H:%M} UTC saw") for row in rows]
