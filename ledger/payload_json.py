"""The strict reading of JSON behind `payload.py`: its limits, its refusals, the elements of a list with their bytes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal, DecimalException
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

DEPTH_MAX = 64
VALUES_MAX = 200_000  # of one document, members and elements: five bytes of it become two hundred of memory
DIGITS_MAX = 1000  # of one number; Python's own limit for integers (4300) can be configured, ours cannot
EXPONENT_MAX = 100_000  # 1e400 is a number; 1e999999999 is a trap for whoever spells it out

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
    _bound_values(text)
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


def _bound_values(text: str) -> None:
    """Before they are made: every value but the first of each object and list stands behind a comma."""
    if _begun(text) > VALUES_MAX and _begun(STRING.sub("", text)) > VALUES_MAX:
        raise Malformed(f"It has more than {VALUES_MAX} values.")


def _begun(text: str) -> int:
    return text.count(",") + text.count("[") + text.count("{")


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
