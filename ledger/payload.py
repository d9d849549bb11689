"""The one reading of bodies, the same in receiver, worker and console. Standard library only.

A body is stored as the bytes received; what is shown and keyed is parsed from them here, by one set of rules:
UTF-8 without a byte order mark; JSON as RFC 8259 has it, so no NaN, no Infinity, no raw NUL; no member twice in one
object; bounded depth and digits. Integers stay integers, fractions are Decimals: no number is ever rounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

DEPTH_MAX = 64
DIGITS_MAX = 1000  # of one number; Python's own limit for integers is higher and configurable


class Malformed(ValueError):
    """The bytes are not a document by these rules; the message says which rule, and quotes nothing of them."""


def parse(body: bytes) -> Any:
    """The document. Raises Malformed."""
    if body.startswith(b"\xef\xbb\xbf"):
        raise Malformed("It begins with a byte order mark.")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"It is not UTF-8 (byte {error.start}).") from None
    _bound_depth(text)
    try:
        return json.loads(
            text,
            parse_float=_fraction,
            parse_int=_integer,
            parse_constant=_no_constant,
            object_pairs_hook=_object,
        )
    except Malformed:
        raise
    except (ValueError, RecursionError) as error:
        where = f" (character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise Malformed(f"It is not JSON{where}.") from None


def look_up(document: Any, path: str) -> Any:
    """The value at a dotted path such as `data.object.id`; None when there is none. Lists take numbers."""
    value = document
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
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


def is_storable(text: str) -> bool:
    """False for what PostgreSQL's text cannot hold: NUL and lone surrogates."""
    return "\x00" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def shown(text: str) -> str:
    """Text from outside with its NULs and lone surrogates made visible, nothing else changed."""
    if is_storable(text):
        return text
    return "".join(c if is_storable(c) else f"\u27e8U+{ord(c):04X}\u27e9" for c in text)


def canonical(document: Any, volatile: tuple[str, ...] = ()) -> bytes:
    """The content without the members that differ between honest retries, in one spelling: 1.0 and 1.00 meet."""
    kept = _without(document, [tuple(path.split(".")) for path in volatile])
    return json.dumps(_plain(kept), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


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


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    if isinstance(value, Decimal):
        return {"number": str(value.normalize())}
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed("It has an object with the same member twice.")
    return members


def _integer(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise Malformed(f"It has a number of more than {DIGITS_MAX} digits.")
    return int(digits)


def _fraction(digits: str) -> Decimal:
    if len(digits) > DIGITS_MAX:
        raise Malformed(f"It has a number of more than {DIGITS_MAX} digits.")
    return Decimal(digits)


def _no_constant(name: str) -> Any:
    raise Malformed(f"{name} is not JSON.")


STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)


def _bound_depth(text: str) -> None:
    """Before the parser recurses: the deepest nesting of brackets outside of strings."""
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > DEPTH_MAX:
            raise Malformed(f"It is nested deeper than {DEPTH_MAX} levels.")
