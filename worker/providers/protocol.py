"""What a provider is to the worker: a stored request in, an outcome out; a question in, what was seen out. Never an
exception for what the wire does."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ledger.accounts.endpoints import Endpoint
from ledger.records import ClaimedAction, Looked, LookUp, Outcome, Unanswered


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


@runtime_checkable
class HasEndpoints(Protocol):
    """A provider that can be asked which webhook endpoints it posts to."""

    label: str

    def endpoints(self, deadline_s: float) -> list[Endpoint] | Unanswered:
        """All endpoints of the account with their flags, within `deadline_s`. Changes nothing there."""
        ...
