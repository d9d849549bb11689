"""A column arrives in PostgreSQL as the array it stands for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy.exc import DataError

from ledger.database import Database
from ledger.database.columns import Bytes, Column, Flags, Moments, Numbers, SmallNumbers, Texts

AT = datetime(2026, 3, 1, 10, 0, 0, 123456, UTC)
EARLY = datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=-3)))


@pytest.mark.parametrize(
    ("column", "type_", "values"),
    [
        (Texts, "text", ["", "ä", "{a,b}", 'say "no" \\', "NULL", "🎉" * 500]),
        (Texts, "text", ["same"] * 3),
        (Bytes, "bytea", [b"", b"\0\xff", None, b"x" * 100_000]),
        (Bytes, "bytea", [None, None]),
        (Flags, "boolean", [True, False]),
        (Moments, "timestamptz", [AT, None, EARLY]),
        (Numbers, "bigint", [0, -1, 2**63 - 1]),
        (SmallNumbers, "smallint", [1, -32768, 32767]),
        (Texts, "text", []),
    ],
)
def test_what_is_sent_is_what_arrives(
    database: Database, column: type[Column], type_: str, values: list[object]
) -> None:
    with database.transaction() as tx:
        found = tx.one(
            f"SELECT CAST(:sent AS {type_}[]) AS back, pg_typeof(:sent)::text AS type",
            sent=column(values),  # type: ignore[arg-type]
        )
    assert found.back == values
    assert found.type == ("timestamp with time zone[]" if type_ == "timestamptz" else f"{type_}[]")


def test_what_no_text_can_hold_is_refused_as_before(database: Database) -> None:
    with pytest.raises(UnicodeEncodeError):
        Texts(["\ud800"])
    with pytest.raises(DataError), database.transaction() as tx:
        tx.all("SELECT CAST(:sent AS text[])", sent=Texts(["a\0b"]))


def test_a_time_without_an_offset_is_refused() -> None:
    with pytest.raises(TypeError):
        Moments([datetime(2026, 3, 1)])  # noqa: DTZ001
