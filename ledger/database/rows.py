"""From a row to a frozen record of the same names, for what screens read."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar, cast

import sqlalchemy as sa

T = TypeVar("T")


def made(kind: type[T], row: sa.Row[Any], **more: Any) -> T:
    """The record's members from the columns of the same names; `more` wins."""
    columns, members = row._asdict() | more, fields(cast(Any, kind))
    return kind(**{m.name: columns[m.name] for m in members if m.name in columns})
