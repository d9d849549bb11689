"""The stored request as a message (RFC 5322) and its envelope: the same bytes at every attempt.

Every part is 7-bit, so that what is sent does not depend on what a server says it can do: headers in encoded words,
texts quoted-printable, which leaves no line over 76 characters. Date and Message-ID are the action's own: when it was
written down, and our reference. Only an address whose local part is not ASCII needs more than that of a server.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.header import Header
from email.utils import format_datetime
from typing import Any

from worker.providers.content import (
    SENDER,
    Unsendable,
    addresses,
    inbox_of,
    one_line,
    request_of,
    split,
    subject_of,
)

NAMED = (("To", "to"), ("Cc", "cc"), ("Reply-To", "reply_to"))  # bcc stands in the envelope alone
PLAIN = re.compile(r"[\x20-\x7e]{0,60}")
MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,400}>")
WORD_CHARS_MAX = 75  # RFC 2047, 2


@dataclass(frozen=True, slots=True)
class Letter:
    """`unicode`: an address has a local part that only a server with SMTPUTF8 (RFC 6531) can be told."""

    sender: str
    recipients: tuple[str, ...]
    message_id: str
    data: bytes
    unicode: bool


def letter(content: bytes, reference: str, created_at: datetime | None) -> Letter:
    """Raises Unsendable or ValueError for what cannot be one."""
    request = request_of(content)
    sender = _ascii_domain(split(str(request.get("sender") or inbox_of(request)), SENDER)[1])
    to = [_mailbox(one) for member in ("to", "cc", "bcc") for one in addresses(request, member)]
    if not to:
        raise Unsendable("It has no recipient.")
    named = message_id(sender, reference)
    head = "".join(f"{name}: {value}\r\n" for name, value in _headers(request, named, created_at))
    data = f"{head}MIME-Version: 1.0\r\n{_body(request, reference)}"
    is_unicode = not all(one.isascii() for one in (data, sender, *to))
    return Letter(sender, tuple(dict.fromkeys(to)), named, data.encode(), is_unicode)


def message_id(sender: str, reference: str) -> str:
    """Ours, from the action's own reference: no other action has it, and every attempt of this one does."""
    return f"<{reference}@{sender.rpartition('@')[2]}>"


def message_id_of(content: bytes, reference: str) -> str:
    """The one that an earlier attempt had. Raises Unsendable or ValueError."""
    request = request_of(content)
    return message_id(
        _ascii_domain(split(str(request.get("sender") or inbox_of(request)), SENDER)[1]), reference
    )


# ── Headers ───────────────────────────────────────────────────────────────────────────────────────────


def _headers(request: Mapping[str, Any], named: str, created_at: datetime | None) -> list[tuple[str, str]]:
    found = [("From", _person(str(request.get("sender") or inbox_of(request))))]
    for name, member in NAMED:
        if people := addresses(request, member):
            found.append((name, ",\r\n ".join(_person(one) for one in people)))
    found.append(("Subject", _words(subject_of(request))))
    if created_at is not None:
        found.append(("Date", format_datetime(created_at.replace(microsecond=0))))
    found.append(("Message-ID", named))
    replied = str(request.get("in_reply_to") or "")
    if MESSAGE_ID.fullmatch(replied):  # an id of another kind names no message to a mail reader
        found += [("In-Reply-To", replied), ("References", replied)]
    return found


def _person(written: str) -> str:
    """One address: its name in quotes or encoded words, so that nothing in it is read as another address."""
    name, mailbox = split(written)
    mailbox = _ascii_domain(mailbox)
    if not name:
        return mailbox
    if PLAIN.fullmatch(name) and "=?" not in name:
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{quoted}" <{mailbox}>'
    return f"{_encoded(name)}\r\n <{mailbox}>"


def _words(text: str) -> str:
    return text if PLAIN.fullmatch(text) and "=?" not in text else _encoded(text)


def _encoded(text: str) -> str:
    """Encoded words, each on a line of its own; also of long ASCII, which else has nowhere to be folded."""
    header = Header(one_line(text), "utf-8", maxlinelen=WORD_CHARS_MAX, header_name="Subject")
    return header.encode(linesep="\r\n")


def _mailbox(written: str) -> str:
    return _ascii_domain(split(written)[1])


def _ascii_domain(mailbox: str) -> str:
    """A domain as every server knows it (RFC 3490); a local part has no such spelling."""
    local, _, domain = mailbox.rpartition("@")
    if domain.isascii():
        return mailbox
    try:
        return f"{local}@{domain.encode('idna').decode('ascii')}"
    except UnicodeError:
        raise Unsendable(f"This is no domain: {one_line(domain)[:200]}") from None


# ── Parts ─────────────────────────────────────────────────────────────────────────────────────────────


def _body(request: Mapping[str, Any], reference: str) -> str:
    """Text, HTML, or both for the reader to choose. The boundary cannot stand in quoted-printable: `=_` is no code."""
    parts = [
        _part(kind, str(request[member]))
        for member, kind in (("text", "plain"), ("html", "html"))
        if request.get(member)
    ]
    if len(parts) < 2:
        return parts[0] if parts else _part("plain", "")
    boundary = f"=_{reference}"
    inner = "".join(f"--{boundary}\r\n{part}\r\n" for part in parts)
    return f'Content-Type: multipart/alternative; boundary="{boundary}"\r\n\r\n{inner}--{boundary}--\r\n'


def _part(kind: str, text: str) -> str:
    lines = re.sub(r"\r\n?", "\n", text).encode()
    quoted = binascii.b2a_qp(lines, istext=True).decode("ascii").replace("\n", "\r\n")
    ended = quoted if quoted.endswith("\r\n") else f"{quoted}\r\n"
    return f"Content-Type: text/{kind}; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{ended}"
