"""Content in one spelling, so that equal content has an equal digest however it was written. Pure."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

from ledger.payload_json import DIGITS_MAX


def content_digest(document: Any, volatile: Sequence[str] = ()) -> bytes:
    """SHA-256 of the content without the members (as paths) that differ between honest retries."""
    return hashlib.sha256(canonical(document, volatile)).digest()


def canonical(document: Any, volatile: Sequence[str] = ()) -> bytes:
    """The content in one spelling: order of members, blanks, escapes and 1, 1.0, 10e-1 make no difference."""
    kept = _without(document, [tuple(path.split(".")) for path in volatile])
    return _ENCODER.encode(kept).encode("ascii")


def _without(value: Any, paths: list[tuple[str, ...]]) -> Any:
    if not paths or not isinstance(value, Mapping):
        return value
    gone = {path[0] for path in paths if len(path) == 1}
    deeper = [path for path in paths if len(path) > 1]
    return {
        name: _without(member, [path[1:] for path in deeper if path[0] == name])
        for name, member in value.items()
        if name not in gone
    }


def _number(value: Decimal) -> Any:
    """A fraction's one spelling: an integer where it could have been written as one, else digits and exponent.

    The spelling begins with NaN, which no document holds: it can be taken for nothing else.
    """
    sign, digits, exponent = value.as_tuple()
    shift = cast(int, exponent)  # finite: _fraction lets nothing else pass
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    shift += len(text) - len(kept)
    if not kept:
        return 0
    if shift >= 0 and len(kept) + shift <= DIGITS_MAX:
        return (-1 if sign else 1) * int(kept) * 10**shift
    return [math.nan, sign, kept, shift]


_ENCODER = json.JSONEncoder(default=_number, sort_keys=True, separators=(",", ":"))
