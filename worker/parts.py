"""The functions a user writes, as a handler's parts: which are refused, and what becomes of what they give back.

A part that would only *begin* something when it is called, a coroutine or a generator, must never count as done: what can
be seen is refused when it is registered, what hides behind a decorator when it is called.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

Part = Callable[..., Any]
SLOW, APPLY, APPLY_PREPARED = "(event)", "(tx, event, propose)", "(tx, event, prepared, propose)"


def unfit(part: object, parameters: str) -> str:
    """Why this is no part of a handler, to be said behind its name; "" when nothing speaks against it."""
    if isinstance(part, type):
        return f"must be a function; {part.__name__} is a class, and calling it would only make an object"
    if not callable(part):
        return f"must be a function; {part!r} is none"
    if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in _called(part)):
        return f"must not yield; {name_of(part)} does"
    if parameters != SLOW and any(inspect.iscoroutinefunction(one) for one in _called(part)):
        return "has an async apply part; inside the transaction only plain functions run"
    try:
        inspect.signature(part).bind(*parameters.split(","))
    except (TypeError, ValueError):
        return f"must take {parameters}; {name_of(part)} does not"
    return ""


def name_of(part: object) -> str:
    return str(getattr(part, "__name__", None) or f"a {type(part).__name__}")


def _called(part: Part) -> tuple[object, ...]:
    """The function, behind partials, and the method that an object is called by."""
    return part, getattr(part, "__call__", None)  # noqa: B004 - the method itself is looked at, not whether there is one


def prepared(part: Part, argument: object) -> Any:
    """Run a slow part to its end, an async one in an event loop of its own: tasks that it leaves behind are cancelled."""
    made = part(argument)
    if inspect.isawaitable(made):
        made = asyncio.run(_awaited(made))
    return _at_its_end("slow", part, made)


def applied(part: Part, *arguments: object) -> None:
    """Run an apply part. What it gives back means nothing, unless it shows that nothing has run."""
    made = part(*arguments)
    if made is not None:
        _at_its_end("apply", part, made)


async def _awaited(made: Awaitable[Any]) -> Any:
    return await made


def _at_its_end(which: str, part: Part, made: Any) -> Any:
    """Raises TypeError for what has yet to be run."""
    if not (inspect.isawaitable(made) or inspect.isgenerator(made) or inspect.isasyncgen(made)):
        return made
    if inspect.iscoroutine(made) or inspect.isgenerator(made):
        made.close()  # else Python complains that nobody awaited it
    raise TypeError(
        f"The {which} part {name_of(part)} gave back a {type(made).__name__}: nothing of that has run. "
        + ("Await it." if which == "slow" else "Make it a plain function.")
    )
