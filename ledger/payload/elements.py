"""The elements of a list, each with exactly the bytes it was spelled in. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ledger.payload.json import DECODER, Malformed, guarded, text_of

BLANK = re.compile(r"[ \t\n\r]*")


class Element(NamedTuple):
    """One element of a list, with exactly the bytes it was spelled in."""

    document: Any
    body: bytes


def elements(body: bytes, member: str = "") -> list[Element]:
    """The elements of a body that is a list, or of an object's member that is one. Raises Malformed, for all of the body."""
    text = text_of(body)
    if not member:
        return guarded(lambda: list(_elements(text, 0, ends=True)))
    guarded(lambda: DECODER.decode(text))
    return guarded(lambda: list(_elements(text, _member(text, member), ends=False)))


def _member(text: str, name: str) -> int:
    """Where the value of a member begins in an object that is JSON."""
    at = _blank(text, 0)
    if not text.startswith("{", at):
        raise Malformed("It is not an object.")
    at = _blank(text, at + 1)
    while not text.startswith("}", at):
        found, at = DECODER.raw_decode(text, at)
        at = _blank(text, _blank(text, at) + 1)  # behind the colon
        if found == name:
            return at
        at = _blank(text, DECODER.raw_decode(text, at)[1])
        at = _blank(text, at + text.startswith(",", at))
    raise Malformed("It has no list of that name.")


def _elements(text: str, at: int, *, ends: bool) -> Iterator[Element]:
    """Walks the list by the decoder's own positions, so that each element's bytes are known."""
    at = _blank(text, at)
    if not text.startswith("[", at):
        raise Malformed("It is not a list.")
    at = _blank(text, at + 1)
    more = not text.startswith("]", at)
    while more:
        value, end = DECODER.raw_decode(text, at)
        yield Element(value, text[at:end].encode())
        at = _blank(text, end)
        more = text.startswith(",", at)
        at = _blank(text, at + 1) if more else at
    if not text.startswith("]", at) or (ends and _blank(text, at + 1) != len(text)):
        raise Malformed(f"It is not JSON (character {at}).")


def _blank(text: str, at: int) -> int:
    found = BLANK.match(text, at)
    return found.end() if found else at
