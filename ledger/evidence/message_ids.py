"""How message ids and addresses are compared, whoever spelled them. Pure."""

from __future__ import annotations

import re
import string

from ledger.digests import digest_of

KEY_BYTES_MAX = 1000  # an index entry holds some 2,700
SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
IN_BRACKETS = re.compile(r"<([^<>]*)>$")
BLANKS = " \t\r\n"
# RFC 5322, 2.2.3: a header goes on in each line behind it that begins with a blank.
MESSAGE_ID = re.compile(r"^message-id[ \t]*:(.*(?:\r?\n[ \t].*)*)", re.IGNORECASE | re.MULTILINE)
ALONE = re.compile(r"\s*(?:<([^<>]*)>|([^<>\s]+))\s*")


def bare(message_id: str) -> str:
    """A message id without blanks and angle brackets around it; its case is its own (RFC 5322, 3.6.4)."""
    return message_id.strip(BLANKS + "<>")


def meeting_key(message_id: str) -> str:
    """Under which spelling a webhook and the record of a sending meet: bare, or its digest where it is very long."""
    found = bare(message_id) or message_id.strip(BLANKS)
    if len(found.encode("utf-8", "replace")) <= KEY_BYTES_MAX:
        return found
    return "sha256:" + digest_of(found).hex()


def mailbox(address: str) -> str:
    """`ann@example.com` of `Ann <Ann@example.com>`: to compare, never to write to. Only ASCII letters become small."""
    stripped = address.strip(BLANKS)
    found = IN_BRACKETS.search(stripped)
    return (found[1] if found else stripped).strip(BLANKS).translate(SMALL)


def in_headers(text: str) -> str | None:
    """The message id in a mail's headers (or in the whole mail), or in a text that is one, however it was folded.

    Its case is kept; brackets, blanks and line breaks are not. None where there is none, or more than an id.
    """
    head = re.split(r"\r?\n\r?\n", text, maxsplit=1)[0]
    if found := MESSAGE_ID.search(head):
        text = found[1]
    if not (alone := ALONE.fullmatch(text)):
        return None
    return re.sub(r"\s+", "", alone[2] or alone[1]) or None
