"""The one reading of bodies, the same in receiver, worker and console. Standard library only.

A body is stored as the bytes received; what is shown and keyed is parsed from them here, by one set of rules:
UTF-8 without a byte order mark; JSON as RFC 8259 has it, so no NaN, no Infinity, no raw NUL; no member twice in one
object; bounded depth, digits and values. Integers stay integers, fractions are Decimals: no number is ever rounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from ledger.payload.canonical import canonical as canonical
from ledger.payload.canonical import content_digest as content_digest
from ledger.payload.canonical import whole as whole
from ledger.payload.elements import Element as Element
from ledger.payload.elements import elements as elements
from ledger.payload.json import DEPTH_MAX as DEPTH_MAX
from ledger.payload.json import DIGITS_MAX as DIGITS_MAX
from ledger.payload.json import VALUES_MAX as VALUES_MAX
from ledger.payload.json import Malformed as Malformed
from ledger.payload.json import parse as parse

YEARS = range(1970, 9000)  # every clock and calendar downstream can show these

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# Marks, embeddings, overrides and isolates (Unicode Standard Annex 9): they turn a line round and are seen by nobody.
# Letters that are written from right to left need none of them, and stay as they are.
UNSEEN = re.compile("[\x00\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def look_up(document: Any, path: str) -> Any:
    """The value at a dotted path such as `data.object.id`; None when there is none. Lists take numbers."""
    value = document
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and len(name) < 10 and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def identity(value: Any) -> str | None:
    """The text of an id, or None when it is no id: missing, null, blank, a truth value, a structure. 0 is legal.

    A number has one spelling: 1, 1.0 and 1e0 are the id 1. A number with a fraction is no id.
    """
    if type(value) is str:
        return value if value.strip() else None
    value = whole(value) if isinstance(value, Decimal) else value
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value)
    return text if text.strip() else None


def texts(value: Any) -> tuple[str, ...]:
    """A text, or the texts of a list, each without blanks around it; what is neither or empty is left out."""
    given = value if isinstance(value, list) else [value]
    return tuple(one.strip() for one in given if isinstance(one, str) and one.strip())


def moment(value: Any) -> datetime | None:
    """A time in UTC: ISO 8601, or Unix seconds (milliseconds from 10¹¹ on). None for anything else.

    A time without an offset is taken for UTC. For order and display only, never for a lease.
    """
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value.strip())
            at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        elif isinstance(value, int | Decimal) and not isinstance(value, bool):
            at = datetime.fromtimestamp(float(value) / (1000 if value >= 10**11 else 1), UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return at if at.year in YEARS else None


def is_storable(text: str) -> bool:
    """False for what PostgreSQL's text cannot hold: NUL and lone surrogates."""
    return "\0" not in text and (text.isascii() or UNSTORABLE.search(text) is None)


def storable(text: str) -> str:
    """Text from outside with its NULs and lone surrogates made visible, nothing else changed: as rows and e-mails keep it."""
    return text if is_storable(text) else UNSTORABLE.sub(_code_point, text)


def shown(text: str) -> str:
    """Text from outside as people see it, wherever that is: what turns a line round is made visible too."""
    return text if text.isascii() and "\0" not in text else UNSEEN.sub(_code_point, text)


def _code_point(found: re.Match[str]) -> str:
    return f"\u27e8U+{ord(found[0]):04X}\u27e9"
