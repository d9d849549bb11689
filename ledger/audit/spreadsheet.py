"""Cells that a spreadsheet shows and never works out. Standard library only.

A spreadsheet takes a cell that begins with one of a few characters for a formula, which can fetch an address or
start a program. Such a text gets an apostrophe in front. A number stays a number: minus five is no formula.
Source: OWASP, "CSV Injection".
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, TextIO

from ledger.payload import shown

# Full-width forms too: a spreadsheet in Japanese or Chinese reads them like the narrow ones.
FORMULA = re.compile(r"""[\s"'\u200b\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]""")
# Nobody's words move a cursor or ring a bell. What turns a line round is made visible before, by `payload.shown`.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def cell(value: Any) -> Any:
    """What stands in the file for a value: numbers as they are, a text harmless, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, int | float | Decimal):
        return value
    text = CONTROL.sub("\ufffd", shown(str(value)))
    return "'" + text if FORMULA.match(text) else text


def write(out: TextIO, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> int:
    """Comma-separated lines by RFC 4180, the header's cells harmless too; returns how many rows."""
    n, lines = 0, csv.writer(out, lineterminator="\r\n")
    lines.writerow([cell(name) for name in header])
    for row in rows:
        lines.writerow([cell(value) for value in row])
        n += 1
    return n
