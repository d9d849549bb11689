"""How much may stand ahead of a body: request line and header fields, and the fields behind a body in pieces."""

from __future__ import annotations

from ledger.receiver.visit import Fields

HEAD_BYTES_MAX = 65_536
LINE = len(b"  HTTP/1.1\r\n\r\n")  # beside method and target, with the empty line at the end
FIELD = len(b": \r\n")  # beside a field's name and value


class TooLarge(Exception):
    """A head has more bytes than HEAD_BYTES_MAX."""


def require_a_short_head(method: bytes, target: bytes, fields: Fields) -> None:
    """Raises TooLarge. Each field counts with one blank, however many its sender wrote around the value."""
    size = LINE + len(method) + len(target) + sum(FIELD + len(name) + len(value) for name, value in fields)
    if size > HEAD_BYTES_MAX:
        raise TooLarge
