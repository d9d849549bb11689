"""The strict reading of JSON behind `payload.py`: its limits and its refusals. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal, DecimalException
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

DEPTH_MAX = 64
VALUES_MAX = 200_000  # of one document, members and elements: five bytes of it become two hundred of memory
DIGITS_MAX = 1000  # of one number; Python's own limit for integers (4300) can be configured, ours cannot
EXPONENT_MAX = 100_000  # 1e400 is a number; 1e999999999 is a trap for whoever spells it out

BRACKET = re.compile(r"[\[\]{}]")
STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


class Malformed(ValueError):
    """The bytes are not a document by these rules; the message says which rule, and quotes nothing of them."""


def parse(body: bytes, *, bytes_max: int | None = None) -> Any:
    """The document. Raises Malformed."""
    text = text_of(body, bytes_max)
    return guarded(_document, text)


def text_of(body: bytes, bytes_max: int | None = None) -> str:
    """What is parsed, within its limits. Raises Malformed."""
    if bytes_max is not None and len(body) > bytes_max:
        raise Malformed(f"It has more than {bytes_max} bytes.")
    if body.startswith(b"\xef\xbb\xbf"):
        raise Malformed("It begins with a byte order mark.")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"It is not UTF-8 (byte {error.start}).") from None
    opened = text.count("[") + text.count("{")
    if opened > DEPTH_MAX:
        _bound_depth(text)
    if len(text) > VALUES_MAX:  # a value is a character at least
        _bound_values(text, opened)
    return text


def _document(text: str) -> Any:
    """As the decoder's own `decode`, without its two searches for the blanks that usually are not there."""
    try:
        document, end = DECODER.raw_decode(text)
    except json.JSONDecodeError:
        return DECODER.decode(text)
    return document if end == len(text) else DECODER.decode(text)


def _bound_depth(text: str) -> None:
    """Before the parser recurses: the deepest nesting of brackets outside of strings."""
    depth = 0
    for bracket in BRACKET.finditer(STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > DEPTH_MAX:
            raise Malformed(f"It is nested deeper than {DEPTH_MAX} levels.")


def _bound_values(text: str, opened: int) -> None:
    """Before they are made: every value but the first of each object and list stands behind a comma."""
    if opened + text.count(",") > VALUES_MAX and _begun(STRING.sub("", text)) > VALUES_MAX:
        raise Malformed(f"It has more than {VALUES_MAX} values.")


def _begun(text: str) -> int:
    return text.count(",") + text.count("[") + text.count("{")


def guarded(read: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """What was read; whatever the decoder says against it is said as Malformed."""
    try:
        return read(*given, **named)
    except Malformed:
        raise
    except (ValueError, RecursionError) as error:
        where = f" (character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise Malformed(f"It is not JSON{where}.") from None


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


DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_fraction, parse_int=_integer, parse_constant=_no_constant
)
