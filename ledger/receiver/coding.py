"""Compressed bodies, by one rule: gzip alone, and only of a source that says which of the two forms it signs.

Every other coding is 415: deflate (its senders do not agree what it is), br, zstd, one coding over another. A body is
inflated twice, first only to learn its size, and only as far as the limit: a bomb never takes memory at all.
"""

from __future__ import annotations

import zlib

from ledger.payload import Malformed
from ledger.receiver.body import Hand
from ledger.receiver.sources.adapter import Headers

NONE = ("", "identity")
GZIP = ("gzip", "x-gzip")  # RFC 9110, 8.4.1.3: the second is the first one's old name
PIECE_BYTES = 65_536
AS_GZIP = 16 + zlib.MAX_WBITS


class Unsupported(Exception):
    """A coding that is not taken, or not of this source."""


def is_coded(headers: Headers, *, taken: bool) -> bool:
    """Whether the body is compressed. Raises Unsupported for a coding that is none of ours, or not `taken`."""
    coding = headers.get("content-encoding", "").strip().lower()
    if coding in NONE:
        return False
    if coding not in GZIP or not taken:
        raise Unsupported(coding)
    return True


def inflated(body: bytes, hand: Hand) -> bytes:
    """The plain bytes, which are in hand too from here on. Raises TooMuch, and Malformed for what is no gzip."""
    hand.begin_another_form()
    size = _plain_size(body, hand)
    hand.hold(size)
    return zlib.decompress(body, AS_GZIP, max(1, size))


def _plain_size(body: bytes, hand: Hand) -> int:
    """Inflates it once for nothing. Raises TooMuch; Malformed: no gzip, cut short, or something behind its end."""
    gzip, rest, size, is_going_on = zlib.decompressobj(AS_GZIP), body, 0, True
    while is_going_on and not gzip.eof:
        try:
            part = gzip.decompress(rest, PIECE_BYTES)
        except zlib.error:
            raise Malformed("It is not gzip.") from None
        rest, size = gzip.unconsumed_tail, size + len(part)
        hand.require_room(size)
        is_going_on = bool(part or rest)
    if not gzip.eof or gzip.unused_data:
        raise Malformed("It is not one whole gzip.")
    return size
