"""A request of the usual spelling, read at one glance: two searches in place of a dozen calls of a parser.

Nothing is judged here. What is spelled in any other way, is not whole, or is not alone, is the parser's, from its
first byte; what is taken here, the parser would have read in the same way.
"""

from __future__ import annotations

import re
from typing import NamedTuple

BYTES_MAX = 65_536  # head and body: what takes longer than a millisecond to read goes the long way
LENGTH_DIGITS_MAX = 5
# One blank behind a colon and none behind a value; no empty value, no byte beyond ASCII, no line that is folded.
HEAD = re.compile(rb"POST (/webhooks/([\w.-]++)/?) HTTP/1\.1\r\n((?:[\w-]++: [!-~][ -~]*+\r\n)++)\r\n")
FIELD = re.compile(r"([^:]+): ([^\r]+)\r\n")
# They say how the body is framed or coded, or that something is waited for.
UNUSUAL = frozenset(
    {"transfer-encoding", "content-encoding", "expect", "upgrade", "trailer", "proxy-connection"}
)


class Glimpse(NamedTuple):
    """What was seen: whom it is for, the target as it was spelled, headers by lower-case name, the body."""

    source: str
    target: str
    headers: dict[str, str]
    body: bytes


def glance(data: bytes) -> Glimpse | None:
    """The request that these bytes are, no more and no less; None for whatever the parser must look at."""
    head = HEAD.match(data) if len(data) <= BYTES_MAX else None
    if head is None:
        return None
    target, source, spelled = head.groups()
    fields = FIELD.findall(spelled.decode("ascii"))
    headers = {name.lower(): value for name, value in fields}
    if len(headers) < len(fields) or not _is_usual(headers, len(data) - head.end()) or b" \r\n" in spelled:
        return None
    return Glimpse(source.decode("ascii"), target.decode("ascii"), headers, data[head.end() :])


def _is_usual(headers: dict[str, str], body_bytes: int) -> bool:
    """Whether the line stays open, and nothing but a length says where the body ends, and it ends there."""
    length = headers.get("content-length", "")
    is_whole = length.isdecimal() and len(length) <= LENGTH_DIGITS_MAX and int(length) == body_bytes
    return (
        is_whole and UNUSUAL.isdisjoint(headers) and headers.get("connection", "keep-alive") == "keep-alive"
    )
