"""Columns of values as one parameter each: PostgreSQL's own form of an array, made in one go.

psycopg writes an array value by value, as text: for a batch of events this took longer than storing them. The form is
that of `array_recv` (src/backend/utils/adt/arrayfuncs.c): dimensions, flags, type, length, first index, then the
values, each behind its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import ClassVar
from uuid import UUID

import psycopg
from psycopg import pq
from psycopg.abc import Buffer
from psycopg.adapt import Dumper

HEAD = Struct("!iiIii")  # dimensions, whether there may be NULLs, type of a value, how many, first index
EMPTY = Struct("!iiI")
LENGTH = Struct("!i")
NULL = LENGTH.pack(-1)
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Column:
    """An array, ready to be sent. `oid` and `oid_of_one` are those of pg_type.dat, the same in every PostgreSQL."""

    oid: ClassVar[int]
    oid_of_one: ClassVar[int]

    __slots__ = ("wire",)

    def __init__(self, values: Sequence[bytes | None]) -> None:
        """The values in the form in which PostgreSQL sends and receives them."""
        if not values:
            self.wire = EMPTY.pack(0, 0, self.oid_of_one)
            return
        head, first = HEAD.pack(1, 1, self.oid_of_one, len(values), 1), values[0]
        if values.count(first) == len(values):  # as with one source's events
            self.wire = head + _behind_lengths([first]) * len(values)
        else:
            self.wire = head + _behind_lengths(values)


def _behind_lengths(values: Sequence[bytes | None]) -> bytes:
    pack = LENGTH.pack
    return b"".join([NULL if value is None else pack(len(value)) + value for value in values])


class Bytes(Column):
    """bytea[]."""

    oid, oid_of_one = 1001, 17


class Texts(Column):
    """text[]. Raises UnicodeEncodeError for half a surrogate pair; a NUL is refused by the server."""

    oid, oid_of_one = 1009, 25

    def __init__(self, values: Sequence[str]) -> None:
        super().__init__([value.encode() for value in values])


class Flags(Column):
    """boolean[]."""

    oid, oid_of_one = 1000, 16

    def __init__(self, values: Sequence[bool]) -> None:
        super().__init__([b"\1" if value else b"\0" for value in values])


class Moments(Column):
    """timestamptz[]; times without an offset are refused with TypeError."""

    oid, oid_of_one = 1185, 1184
    _pack = Struct("!q").pack

    def __init__(self, values: Sequence[datetime | None]) -> None:
        pack = self._pack
        super().__init__([None if at is None else pack((at - EPOCH) // MICROSECOND) for at in values])


class Numbers(Column):
    """bigint[]."""

    oid, oid_of_one = 1016, 20
    _pack = Struct("!q").pack

    def __init__(self, values: Sequence[int]) -> None:
        super().__init__([self._pack(value) for value in values])


class Tokens(Column):
    """uuid[]."""

    oid, oid_of_one = 2951, 2950

    def __init__(self, values: Sequence[UUID]) -> None:
        super().__init__([value.bytes for value in values])


class SmallNumbers(Column):
    """smallint[]."""

    oid, oid_of_one = 1005, 21
    _pack = Struct("!h").pack

    def __init__(self, values: Sequence[int]) -> None:
        super().__init__([self._pack(value) for value in values])


class _Ready(Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: Column) -> Buffer:
        return obj.wire


for _kind in (Bytes, Texts, Flags, Moments, Numbers, Tokens, SmallNumbers):
    psycopg.adapters.register_dumper(_kind, type(f"_{_kind.__name__}", (_Ready,), {"oid": _kind.oid}))
