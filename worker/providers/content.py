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

from ledger.mailboxes import parted

SUBJECT_CHARS_MAX = 998  # a line of RFC 5322
SENDER, RECIPIENT = "The sender", "A recipient"
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
    inbox, sender = request.get("inbox"), request.get("sender")
    if not inbox and not sender:
        raise Unsendable(
            "It has neither an inbox nor a sender to go out from: give Email(inbox=…) or Email(sender=…)."
        )
    return str(inbox or split(str(sender), SENDER)[1])


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


def split(text: str, whose: str = RECIPIENT) -> tuple[str, str]:
    """Name and mailbox of one address. Raises Unsendable, which says `whose`, when it is not exactly one."""
    found = parted(text)
    if found is None:
        raise Unsendable(f"{whose} is not one e-mail address: {one_line(text)[:200]}")
    plain, mailbox = one_line(found[0]), found[1]
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
