"""What a user may register as a part, and what becomes of what it gives back when it is called."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.errors import Misconfigured
from ledger.records import Event
from worker.handlers import Handlers, RetryLater

EVENT = Event(7, "acme", "shop", "sale", "k", b"{}", datetime.now(UTC), None)


async def later(tx: Any, event: Event, propose: Any) -> None:
    raise AssertionError("never runs")


async def thinks(event: Event) -> str:
    await asyncio.sleep(0)
    return "thought"


def yields(event: Event) -> Any:
    yield event


def wrapped(part: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of somebody's, which hides what it wraps."""

    @functools.wraps(part)
    def called(*arguments: Any) -> Any:
        return part(*arguments)

    return called


class Callee:
    """An object that is called."""

    def __call__(self, tx: Any, event: Event, propose: Any) -> None:
        tx.append(event.id)

    def method(self, tx: Any, event: Event, propose: Any) -> None:
        tx.append(-event.id)


class CalleeLater:
    async def __call__(self, tx: Any, event: Event, propose: Any) -> None: ...


def with_more(more: str, tx: Any, event: Event, propose: Any) -> None:
    tx.append(more)


def committed(handler_of: Callable[[Handlers], Any]) -> list[Any]:
    handlers, log = Handlers(), list[Any]()
    handler_of(handlers)
    handler = handlers.find(EVENT)
    handler.commit(log, EVENT, handler.prepare(EVENT), None)  # type: ignore[arg-type]
    return log


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Callee, "must be a function; Callee is a class, and calling it would only make an object"),
        (functools.partial(later), "has an async apply part"),
        (CalleeLater(), "has an async apply part"),
        (functools.partial(yields), "must not yield; a partial does"),
        (functools.partial(with_more, "a", "b"), r"must take \(tx, event, propose\); a partial does not"),
        (7, "must be a function; 7 is none"),
        (Handlers().on("shop", "refund")(thinks), "has a part that is registered already, for shop refund"),
    ],
    ids=["class", "partial async", "object async", "partial generator", "partial", "number", "handler"],
)
def test_what_only_looks_like_an_apply_part_is_refused(part: Any, words: str) -> None:
    handlers = Handlers()
    with pytest.raises(Misconfigured, match=f"The handler of shop sale {words}"):
        handlers.apply("shop", "sale")(part)
    assert handlers.kinds == (), "nothing is half registered"


@pytest.mark.parametrize(
    "kind", [("shop", ""), ("", "sale"), (" shop", "sale"), ("shop", "sale "), ("shop", None)]
)
def test_a_kind_without_a_name_is_refused(kind: Any) -> None:
    with pytest.raises(Misconfigured, match="is registered by the names of a source and a type"):
        Handlers().on(*kind)(thinks)


@pytest.mark.parametrize(
    ("part", "left"),
    [(Callee(), 7), (Callee().method, -7), (functools.partial(with_more, "more"), "more")],
    ids=["object", "method", "partial"],
)
def test_whatever_is_called_like_a_function_is_a_part(part: Any, left: Any) -> None:
    assert committed(lambda handlers: handlers.apply("shop", "sale")(part)) == [left]


def test_one_function_may_serve_two_kinds() -> None:
    handlers = Handlers()
    handlers.apply("shop", "sale")(handlers.apply("shop", "refund")(with_three))
    assert handlers.kinds == (("shop", "refund"), ("shop", "sale"))


def with_three(tx: Any, event: Event, propose: Any) -> None: ...


@pytest.mark.parametrize(
    "part", [wrapped(later), lambda tx, event, propose: yields(event)], ids=["async", "generator"]
)
def test_an_apply_part_of_which_nothing_ran_fails(part: Any) -> None:
    with pytest.raises(
        TypeError, match=r"The apply part .* gave back a (coroutine|generator): nothing of that has run"
    ):
        committed(lambda handlers: handlers.apply("shop", "sale")(part))


def test_what_an_apply_part_gives_back_otherwise_means_nothing() -> None:
    assert (
        committed(lambda handlers: handlers.apply("shop", "sale")(lambda tx, event, propose: "an e-mail?"))
        == []
    )


def prepared(part: Any) -> Any:
    """By a thread of its own, as in a worker."""
    handler, found = Handlers().on("shop", "sale")(part), list[Any]()

    def run() -> None:
        try:
            found.append(handler.prepare(EVENT))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(40)
    return found[0]


class Promise:
    """Something awaitable that is no coroutine."""

    def __await__(self) -> Any:
        return thinks(EVENT).__await__()


@pytest.mark.parametrize(
    "part", [thinks, wrapped(thinks), functools.partial(thinks), lambda event: Promise()]
)
def test_a_slow_part_may_be_async_however_it_is_wrapped(part: Any) -> None:
    assert prepared(part) == "thought"


def test_a_slow_part_that_gives_back_what_has_yet_to_run_fails() -> None:
    async def forgot(event: Event) -> Any:
        return thinks(event)

    for part in (forgot, lambda event: yields(event)):
        assert "nothing of that has run. Await it." in str(prepared(part))


def test_tasks_that_a_slow_part_leaves_behind_are_cancelled() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def leaks(event: Event) -> str:
        ended.append(f"began {asyncio.create_task(endless()).get_name() != ''}")
        await asyncio.sleep(0)
        return "thought"

    assert prepared(leaks) == "thought"
    assert ended == ["began True", "cancelled"]


def test_what_was_prepared_is_handed_on_as_it_is() -> None:
    lock = threading.Lock()  # which nothing can copy
    seen: list[Any] = []
    handlers = Handlers()
    handlers.on("shop", "sale")(lambda event: lock).apply(lambda tx, event, made, propose: seen.append(made))
    handler = handlers.find(EVENT)
    handler.commit(None, EVENT, handler.prepare(EVENT), None)  # type: ignore[arg-type]
    assert seen[0] is lock


@pytest.mark.parametrize(
    ("given", "delay_s"), [(30, 30.0), (0.5, 0.5), (-4, 0.0), (1e300, 86_400.0), (10**400 // 10**399, 10.0)]
)
def test_a_wish_to_wait_is_within_reason(given: float, delay_s: float) -> None:
    assert RetryLater(given).delay_s == delay_s


@pytest.mark.parametrize("given", [float("nan"), float("inf"), float("-inf"), "30", None, True])
def test_a_wish_to_wait_is_a_number_of_seconds(given: Any) -> None:
    with pytest.raises(ValueError, match="RetryLater takes a number of seconds, not"):
        RetryLater(given)
