"""Statements that follow one another, each after the rows of the one before, whoever runs them: a thread or an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
Rows = list[tuple[Any, ...]]


class Statement(NamedTuple):
    """Literal SQL that names its values as `:name`."""

    sql: str
    values: Mapping[str, Any]


def statement(sql: str, /, **values: Any) -> Statement:
    """One to say."""
    return Statement(sql, values)


Asking = Generator[Statement, Rows, T]  # says a statement, is told its rows, returns what came of all of them


def asked(asking: Asking[T], ask: Callable[[Statement], Rows]) -> T:
    """What comes of it when `ask` runs each statement. Raises what that raises, and then says no more."""
    try:
        statement = next(asking)
        while True:
            statement = asking.send(ask(statement))
    except StopIteration as done:
        found: T = done.value
        return found


async def awaited(asking: Asking[T], ask: Callable[[Statement], Awaitable[Rows]]) -> T:
    """As `asked`, in an event loop."""
    try:
        statement = next(asking)
        while True:
            statement = asking.send(await ask(statement))
    except StopIteration as done:
        found: T = done.value
        return found
