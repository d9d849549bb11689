"""A file of JSON lines, read in batches that fit into memory however big it is, with a place to go on from.

A place is an offset and a digest of everything before it: a file that grew goes on, one that is another begins anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ledger.errors import Misconfigured

LINES_MAX = 200
BYTES_MAX = 4_000_000
CHUNK = 1 << 20


@dataclass(slots=True)
class Batch:
    """Lines with their numbers, without their ends and without blank ones; and the place after them."""

    bodies: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    too_long: list[int] = field(default_factory=list)
    position: dict[str, Any] = field(default_factory=dict)
    read_bytes: int = 0


class Lines:
    """The file from a place on. Use as a context. Raises Misconfigured for a file that cannot be read."""

    def __init__(self, path: Path, position: dict[str, Any] | None = None) -> None:
        try:
            self._file: BinaryIO = path.open("rb")
            self.bytes = path.stat().st_size
        except OSError as error:
            raise Misconfigured(f"The file {path} cannot be read: {error.strerror}.") from error
        self._digest, self.number = hashlib.sha256(), 0
        self.goes_on = position is not None and self._skip(position)

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _skip(self, position: dict[str, Any]) -> bool:
        """Whether the file begins as it did; read it is in either case, but that is quick."""
        left = position["offset"]
        while left and (chunk := self._file.read(min(CHUNK, left))):
            self._digest.update(chunk)
            left -= len(chunk)
        if not left and self._digest.hexdigest() == position["digest"]:
            self.number = position["line"]
            return True
        self._file.seek(0)
        self._digest = hashlib.sha256()
        return False

    def batches(self, line_bytes_max: int) -> Iterator[Batch]:
        while True:
            batch, size = Batch(), 0
            while len(batch.bodies) < LINES_MAX and size < BYTES_MAX and (line := self._line(line_bytes_max)):
                self.number += 1
                size += len(line)
                self._add(batch, line, line_bytes_max)
            batch.position = {
                "offset": self._file.tell(),
                "line": self.number,
                "digest": self._digest.hexdigest(),
            }
            batch.read_bytes = self._file.tell()
            if not size:
                return
            yield batch

    def _add(self, batch: Batch, line: bytes, bytes_max: int) -> None:
        body = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(body) > bytes_max:
            batch.too_long.append(self.number)
        elif body.strip():
            batch.bodies.append(body)
            batch.numbers.append(self.number)

    def _line(self, bytes_max: int) -> bytes:
        """One line; of one that is too long only the beginning, so that it is seen to be too long."""
        line = self._file.readline(bytes_max + 3)
        self._digest.update(line)
        rest = line
        while rest and not rest.endswith(b"\n") and len(line) > bytes_max:
            rest = self._file.readline(CHUNK)
            self._digest.update(rest)
        return line
