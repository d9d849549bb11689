"""The record handed out as a file: comma-separated for spreadsheets, or JSON lines for programs.

The export is itself an entry, in the transaction that reads: the caller hands the file out after that transaction
has committed, so nothing leaves unrecorded, and the entry says exactly how many went out.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from ledger import audit
from ledger.audit import choice as audit_choice
from ledger.audit import spreadsheet
from ledger.audit.choice import Chosen
from ledger.database import Transaction
from ledger.errors import NotNow
from ledger.records import Act
from ledger.views import audit as views_audit
from ledger.views.audit import Entry

Form = Literal["csv", "jsonl"]
FORMS: dict[Form, str] = {"csv": "CSV", "jsonl": "JSON lines"}
EXPORTED = "exported the record"
ROWS_AT_ONCE = 1000
COLUMNS = {
    "No.": "id",
    "Time (UTC)": "at",
    "Who": "who",
    "Role": "role",
    "Did": "act",
    "To what": "entity",
    "Number": "entity_id",
    "Called": "about",
    "Outcome": "outcome",
    "Why": "why",
    "Looked at": "looked_at",
    "What was known": "known",
    "Before": "state_before",
    "After": "state_after",
    "Detail": "detail",
    "Place in the chain": "sequence",
    "Seal": "hash",
}


@dataclass(frozen=True, slots=True)
class Exported:
    """How many entries are in the file, and the number of the entry that says so."""

    entries: int
    audit_id: int


def export(
    tx: Transaction, act: Act, chosen: Chosen, form: Form, out: TextIO, *, entries_max: int | None = None
) -> Exported:
    """Write what was asked for to `out`, oldest first, and note it. Hand `out` on only after the commit.

    Raises NotAllowed, NotNow when there are more than `entries_max` or none, AlreadyDecided for a second use of
    the same form.
    """
    views_audit.must_check(act.person)
    audit.refuse_second_use(tx, act)
    with closing(_read(tx, chosen, entries_max)) as found:
        n = _write(out, form, found)
    if not n:
        raise NotNow("Nothing in the record fits, so there is nothing to export.")
    detail = f"{entries(n)} as {FORMS[form]}: {described(chosen)}"
    noted = audit.done(tx, act, EXPORTED, "audit", 0, version=None, before=None, after=None, detail=detail)
    return Exported(n, noted)


def entries(n: int) -> str:
    return f"{n:,} {'entry' if n == 1 else 'entries'}"


def described(chosen: Chosen) -> str:
    """What was asked for, in words of ours and numbers."""
    parts = [
        f"from {chosen.since:%Y-%m-%d %H:%M} UTC" if chosen.since else "",
        f"before {chosen.until:%Y-%m-%d %H:%M} UTC" if chosen.until else "",
        f"by {f'person {chosen.person}' if chosen.person else 'policy'}" if chosen.person is not None else "",
        f"about {chosen.entity}{'' if chosen.entity_id is None else f' {chosen.entity_id}'}"
        if chosen.entity
        else "",
        f"act {chosen.act}" if chosen.act else "",
        f"outcome {chosen.outcome}" if chosen.outcome else "",
    ]
    return ", ".join(part for part in parts if part) or "all"


def as_json(entry: Entry) -> str:
    """One line, with every value that the seal covers, so that a chain can be checked from the file alone."""
    values = {name: _plain(getattr(entry, name)) for name in entry.__slots__}
    return json.dumps(values, ensure_ascii=True, separators=(",", ":"))


def _read(tx: Transaction, chosen: Chosen, entries_max: int | None) -> Generator[Entry, None, None]:
    statement = audit_choice.every(chosen).execution_options(yield_per=ROWS_AT_ONCE)
    with closing(tx.execute(statement)) as rows:
        for n, row in enumerate(rows):
            if entries_max is not None and n >= entries_max:
                raise NotNow(f"There are more than {entries_max:,} entries. Choose a shorter time.")
            yield views_audit.made(row)


def _write(out: TextIO, form: Form, found: Iterator[Entry]) -> int:
    if form == "csv":
        rows = ([_plain(getattr(entry, name)) for name in COLUMNS.values()] for entry in found)
        return spreadsheet.write(out, COLUMNS, (_joined(row) for row in rows))
    return sum(1 for entry in found if out.write(as_json(entry) + "\n"))


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds")
        case bytes():
            return value.hex()
        case tuple():
            return list(value)
        case _:
            return value


def _joined(row: list[Any]) -> list[Any]:
    return ["; ".join(value) if isinstance(value, list) else value for value in row]
