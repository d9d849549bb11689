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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn
from weakref import WeakSet

from ledger import event_types
from ledger.database import Transaction
from ledger.errors import Misconfigured
from ledger.event_types import OURS
from ledger.records import Event
from worker import parts
from worker.parts import Part
from worker.proposing import Propose as Propose
from worker.wishes import RetryLater as RetryLater
from worker.wishes import SetAside as SetAside

Kind = tuple[str, str]  # source name and event type


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
        self.check(part, parts.APPLY_PREPARED if self.slow else parts.APPLY)
        self.applied = part
        return part

    def __call__(self, event: Event) -> Any:
        return self.prepare(event)

    def prepare(self, event: Event) -> Any:
        """Run the slow part, where there is one."""
        return None if self.slow is None else parts.prepared(self.slow, event)

    def commit(self, tx: Transaction, event: Event, prepared: Any, propose: Part) -> None:
        if self.ahead is not None:
            self.ahead(tx, event, propose)
        elif self.applied is None:
            self.refuse("has no apply part")
        if self.applied is None:
            return
        arguments = (tx, event, prepared, propose) if self.slow else (tx, event, propose)
        parts.applied(self.applied, *arguments)

    def check(self, part: object, parameters: str) -> None:
        """Refuse what is no function that can be called so."""
        if isinstance(part, Handler):
            self.refuse(
                f"has a part that is registered already, for {part.source} {part.type}; name a function"
            )
        if reason := parts.unfit(part, parameters):
            self.refuse(reason)

    def refuse(self, what: str) -> NoReturn:
        raise Misconfigured(f"The handler of {self.source} {self.type} {what}.")


class Handlers:
    """The registry a module offers under the name `handlers`."""

    made: ClassVar[WeakSet[Handlers]] = WeakSet()  # all there are: one that nobody asks is a mistake

    def __init__(self) -> None:
        self._by_kind: dict[Kind, Handler] = {}
        Handlers.made.add(self)

    def on(self, source: str, type_: str) -> Callable[[Part], Handler]:
        """Register a slow part for one source (its name in the configuration) and event type."""

        def register(part: Part) -> Handler:
            handler = Handler(source, type_, slow=part)
            handler.check(part, parts.SLOW)
            return self._add(handler)

        return register

    def apply(self, source: str, type_: str) -> Callable[[Part], Part]:
        """Register a handler that has an apply part alone."""

        def register(part: Part) -> Part:
            handler = Handler(source, type_)
            handler.apply(part)
            self._add(handler)
            return part

        return register

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

    def check(self, sources: Mapping[str, Any]) -> None:
        """Refuse a user's registration that can never run whole: no such source, nothing comes of it, no apply part."""
        for handler in self._by_kind.values():
            if handler.slow or handler.applied:  # else it is a part of ours alone
                _check_source(handler, sources)
                if handler.applied is None:
                    handler.refuse("has a slow part but no apply part; add one with @NAME.apply")

    def doubts(self, sources: Mapping[str, Any]) -> list[str]:
        """Registrations for types that, for all that is known, their source never sends; each in words."""
        asked = [(kind, sources[kind[0]].kind) for kind in self.kinds if kind[0] in sources]
        return [reason for (_, type_), of in asked if (reason := event_types.doubt(of, type_))]

    def _add(self, handler: Handler) -> Handler:
        kind = (handler.source, handler.type)
        if not all(isinstance(name, str) and name and name == name.strip() for name in kind):
            raise Misconfigured(
                f"A handler is registered by the names of a source and a type; {kind!r} are none."
            )
        if kind in self._by_kind:
            handler.refuse("is registered twice; keep one")
        self._by_kind[kind] = handler
        return handler


def _check_source(handler: Handler, sources: Mapping[str, Any]) -> None:
    source = handler.source
    if source == OURS:
        if reason := event_types.doubt(source, handler.type):
            handler.refuse(f"waits for what never comes: {reason}")
    elif source not in sources:
        handler.refuse(f"waits for a source that is not configured: there is no [sources.{source}]")
    elif handler.type in getattr(sources[source], "ignored_types", ()):
        handler.refuse(
            f"waits for a type that [sources.{source}] ignores; take it out of ignored_types, or leave it out here"
        )
