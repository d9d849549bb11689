"""What a user writes: plain functions, registered by source and event type.

    handlers = Handlers()

    @handlers.on("agentmail", "message.received")
    def answer(event):                        # slow part: outside any transaction; may call a model; may be async
        return Email(to=(…,), subject=…, text=…)

    @answer.apply
    def store(tx, event, draft, propose):     # apply part: local change, proposals and completion are one commit
        tx.execute("INSERT INTO tickets …", key=event.event_key)
        propose("acknowledgement", f"ack:{event.event_key}", draft)

A handler without a slow part registers its apply part alone: `@handlers.apply(source, type)` with `(tx, event,
propose)`. An apply part may run twice but commits once: it keeps no state and never commits or rolls back itself.
Both parts see in `event.run` why they run (`mode`, `number`, `attempt`) and how long they may (`remaining_s()`).
What a provider says of a message we sent (`message.bounced`) is kept by a part of ours, which runs ahead of a handler for
that type, in its transaction; without one it is worked all the same (`worker/notices.py`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ledger import event_types
from ledger.database import Transaction
from ledger.errors import Misconfigured
from ledger.event_types import OURS
from ledger.records import Event
from worker.proposing import Propose as Propose

Part = Callable[..., Any]
Kind = tuple[str, str]  # source name and event type
PARAMETERS = {1: "(event)", 3: "(tx, event, propose)", 4: "(tx, event, prepared, propose)"}


class RetryLater(Exception):
    """Something this event needs is unavailable: try again in `delay_s`, without counting against the event."""

    def __init__(self, delay_s: float, reason: str = "") -> None:
        super().__init__(reason or f"again in {delay_s:g} s")
        self.delay_s = delay_s


class SetAside(Exception):
    """This event can never succeed: a person must look at it."""


@dataclass(slots=True)
class Handler:
    """One registration: the slow part may be missing, the apply part may not. Callable as the slow part it wraps."""

    source: str
    type: str
    slow: Part | None = None
    applied: Part | None = None
    ahead: Part | None = None  # ours: runs before the apply part, in its transaction

    def apply(self, part: Part) -> Part:
        """Register the apply part that belongs to this slow part."""
        if self.applied is not None:
            self.refuse("has an apply part already")
        self.check(part, 4 if self.slow else 3)
        if inspect.iscoroutinefunction(part):
            self.refuse("has an async apply part; inside the transaction only plain functions run")
        self.applied = part
        return part

    def __call__(self, event: Event) -> Any:
        return self.prepare(event)

    def prepare(self, event: Event) -> Any:
        """Run the slow part; an async one in an event loop of its own."""
        if self.slow is None:
            return None
        made = self.slow(event)
        return asyncio.run(made) if inspect.iscoroutine(made) else made

    def commit(self, tx: Transaction, event: Event, prepared: Any, propose: Part) -> None:
        if self.ahead is not None:
            self.ahead(tx, event, propose)
        elif self.applied is None:
            self.refuse("has no apply part")
        if self.applied is None:
            return
        arguments = (tx, event, prepared, propose) if self.slow else (tx, event, propose)
        self.applied(*arguments)

    def check(self, part: Part, count: int) -> None:
        """Refuse what cannot be called with this many arguments, or would only make a generator."""
        name = getattr(part, "__name__", repr(part))
        if not callable(part):
            self.refuse(f"must be a function; {part!r} is none")
        if inspect.isgeneratorfunction(part) or inspect.isasyncgenfunction(part):
            self.refuse(f"must not yield; {name} does")
        try:
            inspect.signature(part).bind(*range(count))
        except (TypeError, ValueError):
            self.refuse(f"must take {PARAMETERS[count]}; {name} does not")

    def refuse(self, what: str) -> NoReturn:
        raise Misconfigured(f"The handler of {self.source} {self.type} {what}.")


class Handlers:
    """The registry a module offers under the name `handlers`."""

    def __init__(self) -> None:
        self._by_kind: dict[Kind, Handler] = {}

    def on(self, source: str, type_: str) -> Callable[[Part], Handler]:
        """Register a slow part for one source (its name in the configuration) and event type."""

        def register(part: Part) -> Handler:
            handler = self._add(Handler(source, type_, slow=part))
            handler.check(part, 1)
            return handler

        return register

    def apply(self, source: str, type_: str) -> Callable[[Part], Part]:
        """Register a handler that has an apply part alone."""
        return lambda part: self._add(Handler(source, type_)).apply(part)

    def ahead(self, source: str, type_: str, part: Part) -> None:
        """Have `part(tx, event, propose)` run before a kind's apply part, in its transaction, or alone where none is."""
        handler = self._by_kind.get((source, type_)) or self._add(Handler(source, type_))
        handler.ahead = part

    def find(self, event: Event) -> Handler:
        return self._by_kind[event.source, event.type]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(sorted(self._by_kind))

    @property
    def slow_kinds(self) -> tuple[Kind, ...]:
        """Those with a slow part: each takes a slot while it runs."""
        return tuple(kind for kind in self.kinds if self._by_kind[kind].slow)

    @property
    def quick_kinds(self) -> tuple[Kind, ...]:
        """Those with an apply part alone: they take a seat in a group."""
        return tuple(kind for kind in self.kinds if not self._by_kind[kind].slow)

    def check(self, sources: Mapping[str, object]) -> None:
        """Refuse a user's registration for a source that is not configured, or without an apply part."""
        for (source, _), handler in self._by_kind.items():
            if not (handler.slow or handler.applied):
                continue  # a part of ours alone
            if source == OURS:
                if reason := event_types.doubt(source, handler.type):
                    handler.refuse(f"waits for what never comes: {reason}")
            elif source not in sources:
                handler.refuse(f"waits for a source that is not configured: there is no [sources.{source}]")
            if handler.applied is None:
                handler.refuse("has a slow part but no apply part; add one with @NAME.apply")

    def _add(self, handler: Handler) -> Handler:
        kind = (handler.source, handler.type)
        if kind in self._by_kind:
            handler.refuse("is registered twice; keep one")
        self._by_kind[kind] = handler
        return handler
