"""Content in one spelling, so that equal content has an equal digest however it was written. Pure."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

from ledger.payload.json import DIGITS_MAX


def content_digest(document: Any, volatile: Sequence[str] = ()) -> bytes:
    """SHA-256 of the content without the members (as paths) that differ between honest retries."""
    return hashlib.sha256(canonical(document, volatile)).digest()


def canonical(document: Any, volatile: Sequence[str] = ()) -> bytes:
    """The content in one spelling: order of members, blanks, escapes and 1, 1.0, 10e-1 make no difference."""
    kept = _without(document, [tuple(path.split(".")) for path in volatile]) if volatile else document
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


def whole(value: Decimal) -> int | None:
    """The integer that a number is, however it was spelled; None for a fraction, and beyond DIGITS_MAX digits."""
    sign, kept, shift = _parts(value)
    if not kept:
        return 0
    if shift < 0 or len(kept) + shift > DIGITS_MAX:
        return None
    return int(("-" if sign else "") + kept + "0" * shift)


def _parts(value: Decimal) -> tuple[int, str, int]:
    """Sign, digits without zeros at either end, and the power of ten they are times of."""
    sign, digits, exponent = value.as_tuple()
    shift = cast(int, exponent)  # finite: the parser lets nothing else pass
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    return sign, kept, shift + len(text) - len(kept)


def _number(value: Decimal) -> Any:
    """A number's one spelling: an integer where it could have been written as one, else digits and exponent.

    The spelling begins with NaN, which no document holds: it can be taken for nothing else.
    """
    integer = whole(value)
    return [math.nan, *_parts(value)] if integer is None else integer


# A document that was parsed holds nothing that holds itself.
_ENCODER = json.JSONEncoder(default=_number, sort_keys=True, separators=(",", ":"), check_circular=False)
