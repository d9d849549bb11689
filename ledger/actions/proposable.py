"""What a proposal must be before anything of it is written: its key, and texts that can be stored and sent.

Part of `proposals.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ledger.errors import Unproposable, Unstorable, UnusableKey
from ledger.payload import is_storable, shown
from ledger.records import Proposal


def key_of(proposal: Proposal) -> str:
    """The action key: as it was given, or as its kind spells it. Never both: one key a kind is what keeps it once."""
    template, given, kind = proposal.rules.key, proposal.action_key, proposal.rules.kind
    if isinstance(given, str):
        if template is not None:
            raise UnusableKey(
                f"[actions.{kind}] spells its keys itself, {template.text}: propose it with a mapping of "
                f"{', '.join(template.names)} instead of a key. Nothing was proposed."
            )
        if not given:
            raise UnusableKey(
                "The key of a proposed action is empty: two of them would be one. Nothing was proposed."
            )
        return given
    if not isinstance(given, Mapping):
        raise UnusableKey(
            f"The key of a proposed action is a text, or a mapping of values, not {type(given).__name__}. Nothing was proposed."
        )
    if template is None:
        raise UnusableKey(
            f"[actions.{kind}] has no key to put values into. Propose it with a key, or add the setting."
        )
    return template.fill(given, proposal.at)


def refuse_nameless(proposal: Proposal) -> None:
    """Raises Unproposable for what has no namespace to stand in."""
    if not isinstance(proposal.namespace, str) or not proposal.namespace:
        raise Unproposable("The namespace of a proposed action is empty. Name one; nothing was proposed.")


def refuse_local_times(proposal: Proposal) -> None:
    """Raises Unproposable for a time without a zone: the database would read it by its own clock on the wall."""
    for name, at in (("at", proposal.at), ("send_before", proposal.send_before)):
        if at is not None and not isinstance(at, datetime):
            raise Unproposable(
                f"{name} of a proposed action takes a datetime with its zone, not {type(at).__name__}. Nothing was proposed."
            )
        if at is not None and at.utcoffset() is None:
            raise Unproposable(
                f"{name} of a proposed action is a time without a zone. Give it one; nothing was proposed."
            )


def refuse_unstorable(proposal: Proposal, action_key: str) -> None:
    for where, text in _texts(proposal, action_key):
        if not is_storable(text):
            raise Unstorable(
                f"The {shown(where)} of a proposed action holds NUL or half a character (a lone surrogate), which no "
                "database and no e-mail can hold. Clean text from outside with ledger.payload.storable()."
            )


def _texts(proposal: Proposal, action_key: str) -> Iterator[tuple[str, str]]:
    """Every text that a proposal brings, behind the name of its field."""
    yield "namespace", proposal.namespace
    yield "kind", proposal.rules.kind
    yield "key", action_key
    yield "about", proposal.about
    yield from _texts_in("recipients", proposal.recipients)
    yield from _texts_in("content", proposal.content)


def _texts_in(where: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield f"names in {where}", str(name)
            yield from _texts_in(f"{where}.{name}", member)
    elif isinstance(value, list | tuple):
        for at, member in enumerate(value):
            yield from _texts_in(f"{where}[{at}]", member)
