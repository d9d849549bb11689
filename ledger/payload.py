"""The one reading of bodies, the same in receiver, worker and console. Standard library only.

A body is stored as the bytes received; what is shown and keyed is parsed from them here, by one set of rules:
UTF-8 without a byte order mark; JSON as RFC 8259 has it, so no NaN, no Infinity, no raw NUL; no member twice in one
object; bounded depth and digits. Integers stay integers, fractions are Decimals: no number is ever rounded.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, DecimalException
from typing import Any, NamedTuple, TypeVar, cast

T = TypeVar("T")

DEPTH_MAX = 64
DIGITS_MAX = 1000  # of one number; Python's own limit for integers (4300) can be configured, ours cannot
EXPONENT_MAX = 100_000  # 1e400 is a number; 1e999999999 is a trap for whoever spells it out
YEARS = range(1970, 9000)  # every clock and calendar downstream can show these

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
BLANK = re.compile(r"[ \t\n\r]*")
STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


class Malformed(ValueError):
    """The bytes are not a document by these rules; the message says which rule, and quotes nothing of them."""


class Element(NamedTuple):
    """One element of a top-level list, with exactly the bytes it was spelled in."""

    document: Any
    body: bytes


def parse(body: bytes, *, bytes_max: int | None = None) -> Any:
    """The document. Raises Malformed."""
    text = _text(body, bytes_max)
    return _guarded(lambda: _DECODER.decode(text))


def elements(body: bytes) -> list[Element]:
    """The elements of a body that is a list, each with its own bytes. Raises Malformed."""
    text = _text(body, None)
    return _guarded(lambda: list(_elements(text)))


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
    """The text of an id, or None when it is no id: missing, null, blank, a truth value, a structure. 0 is legal."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value)
    return text if text.strip() else None


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
    return UNSTORABLE.search(text) is None


def shown(text: str) -> str:
    """Text from outside with its NULs and lone surrogates made visible, nothing else changed."""
    return UNSTORABLE.sub(lambda found: f"\u27e8U+{ord(found[0]):04X}\u27e9", text)


def content_digest(document: Any, volatile: Sequence[str] = ()) -> bytes:
    """SHA-256 of the content without the members (as paths) that differ between honest retries."""
    return hashlib.sha256(canonical(document, volatile)).digest()


def canonical(document: Any, volatile: Sequence[str] = ()) -> bytes:
    """The content in one spelling: order of members, blanks, escapes and 1, 1.0, 10e-1 make no difference."""
    kept = _without(document, [tuple(path.split(".")) for path in volatile])
    return _ENCODER.encode(kept).encode("ascii")


# ── how it is done ────────────────────────────────────────────────────────────────────────────────────


def _text(body: bytes, bytes_max: int | None) -> str:
    if bytes_max is not None and len(body) > bytes_max:
        raise Malformed(f"It has more than {bytes_max} bytes.")
    if body.startswith(b"\xef\xbb\xbf"):
        raise Malformed("It begins with a byte order mark.")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"It is not UTF-8 (byte {error.start}).") from None
    _bound_depth(text)
    return text


def _bound_depth(text: str) -> None:
    """Before the parser recurses: the deepest nesting of brackets outside of strings."""
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > DEPTH_MAX:
            raise Malformed(f"It is nested deeper than {DEPTH_MAX} levels.")


def _guarded(read: Callable[[], T]) -> T:
    try:
        return read()
    except Malformed:
        raise
    except (ValueError, RecursionError) as error:
        where = f" (character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise Malformed(f"It is not JSON{where}.") from None


def _elements(text: str) -> Iterator[Element]:
    """Walks the list by the decoder's own positions, so that each element's bytes are known."""
    at = _blank(text, 0)
    if not text.startswith("[", at):
        raise Malformed("It is not a list.")
    at = _blank(text, at + 1)
    more = not text.startswith("]", at)
    while more:
        value, end = _DECODER.raw_decode(text, at)
        yield Element(value, text[at:end].encode())
        at = _blank(text, end)
        more = text.startswith(",", at)
        at = _blank(text, at + 1) if more else at
    if not text.startswith("]", at) or _blank(text, at + 1) != len(text):
        raise Malformed(f"It is not JSON (character {at}).")


def _blank(text: str, at: int) -> int:
    found = BLANK.match(text, at)
    return found.end() if found else at


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


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed("It has an object with the same member twice.")
    return members


def _integer(digits: str) -> int:
    _bound_digits(digits)
    return int(digits)


def _fraction(digits: str) -> Decimal:
    _bound_digits(digits)
    try:
        value = Decimal(digits)
    except DecimalException:  # an exponent beyond the type's own limits
        value = Decimal("Infinity")
    if not value.is_finite() or (value and abs(value.adjusted()) > EXPONENT_MAX):
        raise Malformed("It has a number with an exponent beyond all use.")
    return value


def _bound_digits(digits: str) -> None:
    if len(digits) > DIGITS_MAX:
        raise Malformed(f"It has a number of more than {DIGITS_MAX} digits.")


def _no_constant(name: str) -> Any:
    raise Malformed(f"{name} is not JSON.")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_fraction, parse_int=_integer, parse_constant=_no_constant
)
_ENCODER = json.JSONEncoder(default=_number, sort_keys=True, separators=(",", ":"))
