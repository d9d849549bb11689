"""Bytes of strangers as text for people: whole lines, exact digits, bounded length. Standard library only.

What is no text is shown as numbers; what is JSON gets line breaks between its tokens, and not a character else. Of a form
its fields are shown, decoded by its charsets; where that went wrong, there is a mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ledger.payload import Malformed, parse, shown
from ledger.payload import form as payload_form

CHARACTERS_SHOWN = 20_000
CHARACTERS_MAX = 200_000  # of one body in one browser; what is longer is read with the database's own tools
HEX_BYTES_MAX = 512
INDENT = "  "
TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{},:]|[^\s"\[\]{},:]+', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Readable:
    """A body for a screen. `whole` is False when the text ends before the body does; `binary`: bytes as numbers."""

    text: str
    size_bytes: int
    whole: bool
    binary: bool = False


def readable(body: bytes, *, most: int = CHARACTERS_SHOWN) -> Readable:
    """Never raises, whatever the bytes are."""
    text = body.decode("utf-8", "backslashreplace")  # a broken byte is shown as \\xff
    if _is_binary(body):
        return _as_numbers(body)
    text = laid_out(text, most=most) if _is_json(body) else _fields(body, most) or text
    return Readable(shown(text[:most]), len(body), len(text) <= most)


def laid_out(text: str, *, most: int | None = None) -> str:
    """JSON with a member a line. Tokens stay as they were spelled: no number is rounded, no escape resolved.

    It ends soon after `most` characters: a body of brackets would become a hundred times as long.
    """
    parts, size = [], 0
    for part in _parts(text):
        parts.append(part)
        size += len(part)
        if most is not None and size > most:
            break
    return "".join(parts)


def _parts(text: str) -> Iterator[str]:
    depth, before = 0, ""
    for found in TOKEN.finditer(text):
        token = found[0]
        if token in ("]", "}"):
            depth -= 1
            yield "" if before in ("[", "{") else "\n" + INDENT * depth
        elif before in ("[", "{", ","):
            yield "\n" + INDENT * depth
        elif before == ":":
            yield " "
        yield token
        depth += token in ("[", "{")
        before = token


def value_at(document: Any, path: tuple[str, ...]) -> Any:
    """The value at a path of names and places in lists; None when there is none."""
    value = document
    for name in path:
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def spelled(path: tuple[str, ...]) -> str:
    """`data.lines.0.amount`; the document itself is `(all of it)`."""
    return ".".join(path) or "(all of it)"


def value_words(value: Any) -> str:
    """A value as JSON has it, but a text of its own without quotes. No digit of a number is lost."""
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    """Fractions too are numbers, not texts."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_json(name)}: {_json(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _is_json(body: bytes) -> bool:
    try:
        parse(body)
    except Malformed:
        return False
    return True


def _fields(body: bytes, most: int) -> str | None:
    """A form's fields, one below the other; None for what is no form."""
    if not payload_form.looks_like_form(body):
        return None
    try:
        form = payload_form.read(body)
    except Malformed:
        return None
    fields = form.texts.items()
    return "\n\n".join(_field(name, value, form.problems.get(name), most) for name, value in fields)


def _field(name: str, value: Any, problem: str | None, most: int) -> str:
    text = value_words(value)
    text = laid_out(text, most=most) if _is_json(text.encode("utf-8", "surrogatepass")) else text
    mark = f" \u27e8decoding problem: {problem.partition(',')[0]}\u27e9" if problem else ""
    return f"{name}{mark}:\n{text}"


def _is_binary(body: bytes) -> bool:
    """More than one in ten of the first characters is broken, or a control character that no text has."""
    head = body[:1000].decode("utf-8", "replace")[:-1]  # the last one may be cut in two
    return sum(ch == "\ufffd" or (ch < " " and ch not in "\t\n\r\f") for ch in head) * 10 > len(head)


def _as_numbers(body: bytes) -> Readable:
    """Sixteen bytes a line, in hexadecimal, with their ASCII beside them."""
    head = body[:HEX_BYTES_MAX]
    lines = [_line(at, head[at : at + 16]) for at in range(0, len(head), 16)]
    return Readable("\n".join(lines), len(body), len(body) <= HEX_BYTES_MAX, binary=True)


def _line(at: int, part: bytes) -> str:
    text = "".join(chr(b) if 32 <= b < 127 else "." for b in part)
    return f"{at:06x}  {part.hex(' '):<47}  {text}"
