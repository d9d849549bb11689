"""What a provider is to the worker: a stored request in, an outcome out; a question in, what was seen out. Never an
exception for what the wire does."""

from __future__ import annotations

from typing import Protocol

from ledger.records import ClaimedAction, Looked, LookUp, Outcome


class Provider(Protocol):
    """An account at a provider, used by several threads at once."""

    name: str
    label: str  # the provider's name as it writes it itself

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        """Make at most one request and say what is known of it, within `deadline_s` whatever the other side does."""
        ...

    def look_up(self, lookup: LookUp, deadline_s: float) -> Looked:
        """Ask whether an earlier send went out, within `deadline_s`. Sends nothing, changes nothing there."""
        ...
