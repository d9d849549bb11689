"""How message ids and addresses are compared, whoever spelled them. Pure."""

from __future__ import annotations

import re
import string

from ledger.digests import digest_of

KEY_BYTES_MAX = 1000  # an index entry holds some 2,700
SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
IN_BRACKETS = re.compile(r"<([^<>]*)>$")
BLANKS = " \t\r\n"


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
