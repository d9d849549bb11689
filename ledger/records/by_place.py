"""Frozen records made by place as quickly as open ones: for those few that are made of every event. Pure.

A frozen dataclass sets each of its fields past its own guard, by a call. Here they are set in a twin without a guard, of
the same slots, which then becomes the record: a quarter of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, make_dataclass
from typing import Any, TypeVar, cast

T = TypeVar("T")


def by_place(kind: type[T]) -> Callable[..., T]:
    """What makes such a record of all its fields, in their order; none is left out. `kind` has slots and no other base."""
    twin: Any = make_dataclass(
        kind.__name__, [one.name for one in fields(cast(Any, kind))], slots=True, eq=False
    )

    def made(*values: Any) -> T:
        record = twin(*values)
        record.__class__ = kind
        return record  # type: ignore[no-any-return]

    return made
