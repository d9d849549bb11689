"""Asks providers, now and then, whether our webhook endpoints are still switched on. On a thread of its own: a provider
that does not answer holds up nothing, and of several workers one asks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from urllib.parse import urlsplit

from ledger.accounts import endpoints
from ledger.accounts.endpoints import Endpoint
from ledger.database import Database, outside_transactions
from ledger.errors import LedgerError
from ledger.records import Unanswered
from ledger.settings import Settings
from worker.maintenance import HOUR_S, Duty
from worker.observer import note
from worker.providers import Provider
from worker.providers.protocol import HasEndpoints

EARLY = 0.9  # a turn that comes a moment before the last one's time is over must not wait for the next
FORGET_TURNS = 3
FORGET_S_MIN = 900.0


class EndpointWatch:
    """`pump` begins a turn when none is under way, and never waits for one."""

    def __init__(self, database: Database, settings: Settings, providers: Mapping[str, Provider]) -> None:
        self._database = database
        self._turn: threading.Thread | None = None
        self.duty = Duty("endpoints", HOUR_S, self.pump)
        self.use(settings, providers)

    def use(self, settings: Settings, providers: Mapping[str, Provider]) -> None:
        """Go on with other addresses or keys; a question under way keeps its own."""
        self._settings, self._providers = settings, providers
        self.duty.every_s = settings.worker.endpoints_every_s or HOUR_S

    def pump(self) -> None:
        if self._settings.worker.endpoints_every_s and not (self._turn and self._turn.is_alive()):
            self._turn = threading.Thread(target=self.turn, name="endpoints", daemon=True)
            self._turn.start()

    def join(self, within_s: float) -> None:
        if self._turn:
            self._turn.join(within_s)

    def turn(self) -> None:
        """Ask about each account that is due. Never raises."""
        every_s = self._settings.worker.endpoints_every_s
        try:
            for name, provider in self._providers.items():
                if isinstance(provider, HasEndpoints) and self._sources_of(name):
                    self._ask(name, provider, every_s)
            unasked_s = max(FORGET_TURNS * every_s, FORGET_S_MIN)
            self._database.run(lambda tx: endpoints.forget(tx, unasked_s=unasked_s))
        except Exception as error:  # noqa: BLE001 - the next turn may go well
            why = str(error) if isinstance(error, LedgerError) else type(error).__name__
            note("endpoints not asked about", error=why)

    def _ask(self, name: str, provider: HasEndpoints, every_s: float) -> None:
        table = self._settings.providers[name]
        account = table.account or name
        asked_at = self._database.run(
            lambda tx: endpoints.ask(tx, account, provider.label, every_s=EARLY * every_s)
        )
        if asked_at is None:
            return
        listed = outside_transactions(provider.endpoints, table.timeout_s)
        if isinstance(listed, Unanswered):
            self._database.run(lambda tx: endpoints.unanswered(tx, account, asked_at, listed.reason))
            note("endpoints not known", account=account, why=listed.reason)
        else:
            self._keep(account, asked_at, ours(listed, table.endpoints, self._sources_of(name)))

    def _keep(self, account: str, asked_at: datetime, found: Sequence[Endpoint]) -> None:
        self._database.run(lambda tx: endpoints.answered(tx, account, asked_at, found))
        states = [one.state for one in found]
        note(
            "endpoints",
            account=account,
            on=states.count("enabled"),
            off=len(states) - states.count("enabled"),
        )

    def _sources_of(self, provider: str) -> list[str]:
        """The sources that this account's webhooks may come to."""
        kind = self._settings.providers[provider].kind
        sources = self._settings.sources.items()
        return [name for name, s in sources if s.kind == kind and s.provider in ("", provider)]


def ours(listed: Iterable[Endpoint], named: Sequence[str], sources: Sequence[str]) -> list[Endpoint]:
    """Those the configuration names, else those whose address ends as one of our sources' does: an account may have others."""
    if named:
        found = {one.endpoint_id: one for one in listed}
        return [found.get(name, Endpoint(name, "", "gone")) for name in named]
    ends = tuple(f"/webhooks/{source}" for source in sources)
    return [one for one in listed if urlsplit(one.url).path.rstrip("/").endswith(ends)]
