"""What providers say became of our messages, worked like any event: under a lease, fenced, one commit with completion.

A part of ours runs ahead of the user's handler for the same type, in its transaction; where the user has none, it is
the whole handler. So a user may act on a bounce, and the ledger learns of it either way. Which messages a source
speaks of is its `provider`; left out, the only configured provider of the same kind. With several, nobody can say
whose account it is: then its notices are nobody's work until the table names one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from ledger import payload
from ledger.database import Transaction
from ledger.evidence import notices
from ledger.evidence.notices import Notice, What
from ledger.records import Event
from ledger.settings import Settings, SourceSettings
from worker.handlers import Handlers, Kind, RetryLater, SetAside
from worker.observer import note
from worker.proposing import Propose

# Under which name an AgentMail event carries its own object (agentmail 2.0.18, agentmail/events/types).
AGENTMAIL = ("send", "delivery", "bounce", "complaint", "reject")
MARK = "nt-"  # how our own labels begin
AWAY_S = 60.0


def add_to(handlers: Handlers, settings: Settings) -> Handlers:
    """Register our part for every type of the configured sources that says what became of a message."""
    for name, source in settings.sources.items():
        if source.notice_types and account_of(settings, name) is None:
            note("notices not read", source=name, why="no provider, or several of its kind")
    for name, type_ in kinds(settings):
        handlers.ahead(name, type_, keep)
    return handlers


def kinds(settings: Settings) -> set[Kind]:
    """The sources and types that say what became of a message of a known account."""
    return {
        (name, type_)
        for name, source in settings.sources.items()
        if account_of(settings, name) is not None
        for type_ in source.notice_types.keys() - set(source.ignored_types)
    }


def account_of(settings: Settings, source: str) -> str | None:
    """The provider account whose messages a source speaks of; None when that is not clear."""
    table = settings.sources[source]
    of_kind = [name for name, provider in settings.providers.items() if provider.kind == table.kind]
    named = table.provider or (of_kind[0] if len(of_kind) == 1 else "")
    return (settings.providers[named].account or named) if named else None


def keep(tx: Transaction, event: Event, propose: Propose) -> None:
    """The apply part: what the event says is kept, and settles or proves what it can."""
    source = propose.settings.sources.get(event.source)
    account = account_of(propose.settings, event.source) if source else None
    if source is None or account is None:
        raise RetryLater(AWAY_S, "The source or its provider is not in the configuration any more.")
    for notice in read(event, source, account):
        notices.keep(tx, notice, event_id=event.id)


def read(event: Event, source: SourceSettings, account: str) -> list[Notice]:
    """What an event says, one notice for recipients it says the same of. Raises SetAside when it names no message."""
    if (
        event.type not in source.notice_types
    ):  # the configuration was read again, and it means nothing any more
        return []
    what = What(source.notice_types[event.type])
    try:
        document = payload.parse(event.body)
    except payload.Malformed:
        raise SetAside("Its content is no JSON, so nobody can say what it is about.") from None
    found = _agentmail if source.kind == "agentmail" else _by_paths
    return [
        Notice(
            account, message_id, what, at or event.occurred_at or event.accepted_at, recipients, detail, mark
        )
        for message_id, at, recipients, detail, mark in found(document, source)
    ]


Found = tuple[str, datetime | None, tuple[str, ...], str, str | None]


def _agentmail(document: Any, _source: SourceSettings) -> Iterator[Found]:
    """Labels are not among what is published of these events; where they come along, ours is proof."""
    inner = _inner(document)
    detail = ", ".join(payload.texts([inner.get(name) for name in ("type", "sub_type", "reason")]))
    mark = next((label for label in payload.texts(inner.get("labels")) if label.startswith(MARK)), None)
    at = payload.moment(inner.get("timestamp"))
    for status, recipients in _recipients(inner.get("recipients")).items():
        yield _id(inner.get("message_id")), at, recipients, ", ".join(filter(None, (detail, status))), mark


def _inner(document: Any) -> Mapping[str, Any]:
    members = document if isinstance(document, Mapping) else {}
    return next((members[name] for name in AGENTMAIL if isinstance(members.get(name), Mapping)), {})


def _recipients(given: Any) -> dict[str, tuple[str, ...]]:
    """By their status: delivered ones are addresses, bounced ones have one (agentmail 2.0.18, recipient.py)."""
    found: dict[str, tuple[str, ...]] = {}
    for one in given if isinstance(given, list) else ():
        address, status = (one.get("address"), one.get("status")) if isinstance(one, Mapping) else (one, None)
        key = "".join(payload.texts(status))
        found[key] = found.get(key, ()) + payload.texts(address)
    return found or {"": ()}


def _by_paths(document: Any, source: SourceSettings) -> Iterable[Found]:
    def at(name: str) -> Any:
        path = source.path(f"{name}_path")
        return payload.look_up(document, path) if path else None

    mark = payload.identity(at("reference"))
    yield _id(at("message")), payload.moment(at("time")), payload.texts(at("recipient")), "", mark


def _id(value: Any) -> str:
    found = payload.identity(value)
    if not found or not found.strip("<> \t\r\n"):
        raise SetAside("It names no message, so nobody can say what it is about.")
    return found
