"""What a provider is to the worker: a stored request in, an outcome out, never an exception for what the wire does."""

from __future__ import annotations

from typing import Protocol

from ledger.records import ClaimedAction, Outcome


class Provider(Protocol):
    """An account at a provider, used by several threads at once."""

    name: str

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        """Make at most one request and say what is known of it, within `deadline_s` whatever the other side does."""
        ...
