"""An export into a file, or to standard output: nothing of it is anywhere before its entry is committed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import TextIO
from uuid import uuid4

from ledger import audit
from ledger.audit import export as audit_export
from ledger.audit.choice import Chosen
from ledger.audit.export import Exported, Form
from ledger.database import Database, Transaction
from ledger.errors import Declined, Misconfigured
from ledger.records import Act, Person

STDOUT = Path("-")


def hand_out(database: Database, by: Person, chosen: Chosen, form: Form, file: Path) -> Exported:
    """Through a file without a name, which is gone when this process is, to where it was asked for.

    Raises Misconfigured when `file` cannot be made anew, and Declined when the ledger refuses; the record has that
    try, and there is no file.
    """
    act = Act(by, uuid4())
    with _place(file, form) as target, TemporaryFile("w+", encoding="utf-8", newline="") as spool:
        made = _spooled(database, act, chosen, form, spool)
        spool.seek(0)
        copyfileobj(spool, target)
        target.flush()
    return made


def _spooled(database: Database, act: Act, chosen: Chosen, form: Form, spool: TextIO) -> Exported:
    def write(tx: Transaction) -> Exported:
        spool.seek(0)
        spool.truncate()
        return audit_export.export(tx, act, chosen, form, spool)

    try:
        return database.run(write, role=act.person.role)
    except Declined as error:
        reason = str(error)
        database.run(
            lambda tx: audit.refused(tx, act, audit_export.EXPORTED, "audit", 0, reason), role=act.person.role
        )
        raise


@contextmanager
def _place(file: Path, form: Form) -> Iterator[TextIO]:
    """A new file that its owner alone may read, gone again when nothing was handed out; or standard output.

    A spreadsheet takes a file for UTF-8 when it begins with a byte order mark.
    """
    if file == STDOUT:
        yield sys.stdout
        return
    try:
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Misconfigured(
            f"{file} cannot be written ({error.strerror}). Name a new file, or - to see it here."
        ) from None
    try:
        with os.fdopen(number, "w", encoding="utf-8-sig" if form == "csv" else "utf-8", newline="") as target:
            yield target
    except BaseException:
        file.unlink()
        raise
