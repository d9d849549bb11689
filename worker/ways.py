"""By whom an action goes out: what one reading of the configuration says of its provider and account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ledger.records import ClaimedAction
from ledger.settings import Settings
from worker.providers import Provider


@dataclass(frozen=True, slots=True)
class Given:
    """What a configuration gives, read whole: a call never meets one file's account with another's key."""

    settings: Settings
    providers: Mapping[str, Provider]

    def way(self, claimed: ClaimedAction) -> Way | None:
        """By whom this action goes. None: there is no such provider, or its name stands for another account now."""
        provider = self.providers.get(claimed.provider)
        if provider is None or self.settings.account_of(claimed.provider) != claimed.account:
            return None
        table = self.settings.providers[claimed.provider]
        if claimed.place and claimed.place.split()[0] != table.kind:
            return None
        return Way(provider, table.timeout_s, table.place)


@dataclass(frozen=True, slots=True)
class Way:
    """A provider, the total deadline of one call to it, and where it is."""

    provider: Provider
    deadline_s: float
    place: str
