"""The stored request as a provider may be given it: one line where a line is meant, one address where one is meant.

Stored bytes never change; what is done to them here is the same at every attempt, so every attempt sends the same.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from typing import Any

SUBJECT_CHARS_MAX = 998  # a line of RFC 5322
ADDRESS = re.compile(r"[^\s,;:<>()\[\]\\\"@]+@[^\s,;:<>()\[\]\\\"@]+")
SPECIALS = re.compile(r'[()<>\[\]:;@\\,."]')
BREAKS = frozenset({"Cc", "Zl", "Zp"})  # control characters, line and paragraph separators


class Unsendable(ValueError):
    """This content cannot be sent through this provider. No call was made."""


def request_of(content: bytes) -> Mapping[str, Any]:
    """The stored request as it was rendered. Raises Unsendable when it is no object."""
    found = json.loads(content)
    if not isinstance(found, dict):
        raise Unsendable("The stored content is no e-mail.")
    return found


def inbox_of(request: Mapping[str, Any]) -> str:
    """The mailbox it goes out from. Raises Unsendable when there is none."""
    return str(request.get("inbox") or split(str(request.get("sender") or ""))[1])


def one_line(text: str) -> str:
    """Text for a header or a name: nothing in it starts another line, runs of blanks are one."""
    return " ".join("".join(" " if unicodedata.category(c) in BREAKS else c for c in text).split())


def subject_of(request: Mapping[str, Any]) -> str:
    """The subject as one line. An encoded word is decoded first, because it may hide a line break."""
    return one_line(_decoded(str(request.get("subject") or "")))[:SUBJECT_CHARS_MAX]


def addresses(request: Mapping[str, Any], member: str) -> list[str]:
    """The recipients under `to`, `cc`, `bcc` or `reply_to`, each exactly one address. Raises Unsendable."""
    given = request.get(member) or []
    return [address(str(one)) for one in ([given] if isinstance(given, str) else given)]


def address(text: str) -> str:
    """`a@b` or `"Name" <a@b>` in one line: a comma or a line break in a name makes no second recipient."""
    name, mailbox = split(text)
    if not name:
        return mailbox
    quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' if SPECIALS.search(name) else name
    return f"{quoted} <{mailbox}>"


def split(text: str) -> tuple[str, str]:
    """Name and mailbox of one address. Raises Unsendable when it is not exactly one."""
    name, bracket, rest = text.strip().rpartition("<")
    mailbox = rest.removesuffix(">") if bracket else rest
    if not ADDRESS.fullmatch(mailbox) or not mailbox.isprintable() or (bracket and not rest.endswith(">")):
        raise Unsendable(f"A recipient is not one e-mail address: {one_line(text)[:200]}")
    plain = one_line(name)
    if len(plain) > 1 and plain[0] == plain[-1] == '"':
        plain = re.sub(r"\\(.)", r"\1", plain[1:-1])
    return plain, mailbox


def _decoded(text: str) -> str:
    if "=?" not in text or not text.isascii():
        return text
    try:
        return str(make_header(decode_header(text))) or text
    except (HeaderParseError, LookupError, ValueError):
        return text
