"""What a user writes: plain functions, registered by source and event type.

    handlers = Handlers()

    @handlers.on("agentmail", "message.received")
    def answer(event):                        # slow part: outside any transaction; may call a model
        return Email(to=(…,), subject=…, text=…)

    @answer.apply
    def store(tx, event, draft, propose):     # apply part: local change, proposals and completion are one commit
        tx.execute("INSERT INTO tickets …", key=event.event_key)
        propose("acknowledgement", f"ack:{event.event_key}", draft)

A handler without a slow part registers its apply part alone: `@handlers.apply(source, type)` with `(tx, event,
propose)`. An apply part may run twice but commits once: it keeps no state and never commits or rolls back itself.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger import actions
from ledger.database import Transaction
from ledger.errors import Misconfigured
from ledger.records import Email, Event, Proposal, Proposed
from ledger.settings import Settings

Part = Callable[..., Any]


class RetryLater(Exception):
    """Something this event needs is unavailable: try again in `delay_s`, without counting against the event."""

    def __init__(self, delay_s: float, reason: str = "") -> None:
        super().__init__(reason or f"again in {delay_s:g} s")
        self.delay_s = delay_s


class SetAside(Exception):
    """This event can never succeed: a person must look at it."""


@dataclass(slots=True)
class Handler:
    """One registration: the slow part may be missing, the apply part may not."""

    source: str
    type: str
    slow: Part | None = None
    applied: Part | None = None

    def apply(self, part: Part) -> Part:
        """Register the apply part that belongs to this slow part."""
        if self.applied is not None:
            raise Misconfigured(f"The handler of {self.source} {self.type} has an apply part already.")
        _takes(part, 4 if self.slow else 3, self)
        self.applied = part
        return part

    def prepare(self, event: Event) -> Any:
        """Run the slow part; an async one in an event loop of its own."""
        if self.slow is None:
            return None
        made = self.slow(event)
        return asyncio.run(made) if inspect.iscoroutine(made) else made

    def commit(self, tx: Transaction, event: Event, prepared: Any, propose: Part) -> None:
        if self.applied is None:
            return
        arguments = (tx, event, prepared, propose) if self.slow else (tx, event, propose)
        self.applied(*arguments)


class Handlers:
    """The registry a module offers under the name `handlers`."""

    def __init__(self) -> None:
        self._by_kind: dict[tuple[str, str], Handler] = {}

    def on(self, source: str, type_: str) -> Callable[[Part], Handler]:
        """Register a slow part for one source (its name in the configuration) and event type."""

        def register(part: Part) -> Handler:
            handler = self._add(Handler(source, type_, slow=part))
            _takes(part, 1, handler)
            return handler

        return register

    def apply(self, source: str, type_: str) -> Callable[[Part], Part]:
        """Register a handler that has an apply part alone."""
        return lambda part: self._add(Handler(source, type_)).apply(part)

    def find(self, event: Event) -> Handler:
        return self._by_kind[event.source, event.type]

    @property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(self._by_kind))

    def _add(self, handler: Handler) -> Handler:
        kind = (handler.source, handler.type)
        if kind in self._by_kind:
            raise Misconfigured(f"Two handlers are registered for {handler.source} {handler.type}; keep one.")
        self._by_kind[kind] = handler
        return handler


@dataclass(frozen=True, slots=True)
class Propose:
    """What an apply part is given to propose external actions with: once per key, whoever proposes first."""

    tx: Transaction
    event: Event
    settings: Settings

    def __call__(
        self,
        kind: str,
        key: str,
        content: Email | Mapping[str, Any],
        *,
        recipients: tuple[str, ...] = (),
        about: str = "",
    ) -> Proposed:
        to = recipients or (content.to + content.cc + content.bcc if isinstance(content, Email) else ())
        stored = content.content() if isinstance(content, Email) else content
        rules = self.settings.rules(kind)
        return actions.propose(
            self.tx, Proposal(self.event.namespace, key, rules, stored, to, about, self.event.id)
        )


def load(settings: Settings) -> Handlers:
    """The registry of the configured module. Raises Misconfigured with the reason in one sentence."""
    name = settings.worker.handlers
    if not name:
        return Handlers()
    beside = str(settings.config.parent) if settings.config else str(Path.cwd())
    if beside not in sys.path:
        sys.path.insert(0, beside)
    try:
        found = getattr(importlib.import_module(name), "handlers", None)
    except Misconfigured:
        raise
    except Exception as error:
        raise Misconfigured(
            f"[worker] handlers: the module {name} cannot be imported: {type(error).__name__}: {error}."
        ) from error
    if not isinstance(found, Handlers):
        raise Misconfigured(f"[worker] handlers: the module {name} has no `handlers = Handlers()`.")
    for source, _ in found.kinds:
        if source not in settings.sources:
            raise Misconfigured(f"The module {name} handles {source!r}, but there is no [sources.{source}].")
    return found


def _takes(part: Part, count: int, handler: Handler) -> None:
    names = {1: "(event)", 3: "(tx, event, propose)", 4: "(tx, event, prepared, propose)"}[count]
    try:
        inspect.signature(part).bind(*range(count))
    except (TypeError, ValueError):
        raise Misconfigured(
            f"The handler of {handler.source} {handler.type} must take {names}: "
            f"{getattr(part, '__name__', part)!s} does not."
        ) from None
