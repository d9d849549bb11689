"""Look-ups: uncertain sends asked about at their provider, before a person is asked and when a person asks again.

plan ▸ claim (committed) ▸ the question, outside any transaction ▸ record. On threads of its own, beside the sender:
a provider that does not answer a question holds up no send, and no question begins or ends a pause.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from ledger import faults
from ledger.database import Database, outside_transactions
from ledger.errors import LedgerError
from ledger.evidence import lookups
from ledger.records import CannotBeAsked, Looked, LookUp, Unanswered, Worker
from ledger.settings import Settings
from worker.heartbeat import clock
from worker.observer import note
from worker.providers import Provider

GONE = Unanswered("This worker has no such provider any more.")
ELSEWHERE = CannotBeAsked("It was tried at another address, which is not in the configuration any more.")


class Reconciler:
    """Up to `look_slots` questions at once. `pump` never waits for one."""

    def __init__(
        self, database: Database, settings: Settings, providers: Mapping[str, Provider], worker: Worker
    ) -> None:
        self._database, self._worker = database, worker
        self._slots = threading.Semaphore(settings.worker.look_slots)
        self._under_way: set[threading.Thread] = set()
        self._rests_until: dict[str, float] = {}  # by account: told to come back later
        self._stopping = False
        self.use(settings, providers)

    def use(self, settings: Settings, providers: Mapping[str, Provider]) -> None:
        """Go on with other addresses or keys; questions under way keep theirs."""
        self._settings, self._providers = settings, providers

    def stop(self) -> None:
        """Ask nothing new. A question under way is left to its lease: it changed nothing, and is asked again."""
        self._stopping = True

    def pump(self) -> int:
        """Write down what is due when, and begin what the free slots can hold; returns how many began."""
        accounts, waits_s = self._accounts(), self._settings.worker.look_waits_s
        if not accounts or not self._database.run(lambda tx: lookups.plan(tx, accounts, waits_s)):
            return 0
        begun = 0
        while not self._stopping and (lookup := self._taken()):
            self._begin(lookup)
            begun += 1
        return begun

    def _begin(self, lookup: LookUp) -> None:
        thread = threading.Thread(target=self._carry, args=(lookup,), name=f"look-{lookup.id}", daemon=True)
        self._under_way = {t for t in self._under_way if t.is_alive()} | {thread}
        thread.start()

    def join(self, within_s: float) -> bool:
        """Wait for what is under way; whether all of it has ended."""
        ends_at = clock() + within_s
        for thread in self._under_way:
            thread.join(max(0.0, ends_at - clock()))
        return not any(thread.is_alive() for thread in self._under_way)

    def _taken(self) -> LookUp | None:
        """A look-up and a slot for it, or neither."""
        if not self._slots.acquire(blocking=False):
            return None
        lookup = None
        try:
            lookup = self._claim()
        finally:
            if lookup is None:
                self._slots.release()
        return lookup

    def _accounts(self) -> tuple[str, ...]:
        now = clock()
        accounts = map(self._settings.account_of, self._providers)
        return tuple(account for account in accounts if self._rests_until.get(account, now) <= now)

    def _claim(self) -> LookUp | None:
        accounts, longest_s = self._accounts(), max(p.look_s for p in self._settings.providers.values())
        lease_s = longest_s + self._settings.worker.lease_s
        return self._database.run(lambda tx: lookups.claim(tx, self._worker, accounts, lease_s=lease_s))

    def _carry(self, first: LookUp) -> None:
        """One after another, as long as there is one: the slot is asked for once."""
        try:
            lookup: LookUp | None = first
            while lookup is not None:
                faults.point("reconciler.after_claim")
                self._record(lookup, self._look(lookup))
                lookup = None if self._stopping else self._claim()
        except Exception as error:  # noqa: BLE001 - the look-up is left to its lease, and the next one to the next turn
            note(
                "look-up given up",
                error=str(error) if isinstance(error, LedgerError) else type(error).__name__,
            )
        finally:
            self._slots.release()

    def _look(self, lookup: LookUp) -> Looked:
        provider = self._providers.get(lookup.provider)
        if provider is None:
            return GONE
        if lookup.place not in ("", self._settings.providers[lookup.provider].place):
            return ELSEWHERE  # whoever answers there knows nothing of it, and must not be believed
        deadline_s = self._settings.providers[lookup.provider].timeout_s
        try:
            looked = outside_transactions(provider.look_up, lookup, deadline_s)
        except Exception as error:  # noqa: BLE001 - whatever happened, nothing was seen
            looked = Unanswered(f"The look-up failed here ({type(error).__name__}).")
        if isinstance(looked, Unanswered) and looked.retry_after_s:
            self._rests_until[lookup.account] = clock() + looked.retry_after_s
        return looked

    def _record(self, lookup: LookUp, looked: Looked) -> None:
        provider = self._providers.get(lookup.provider)
        source = f"{provider.label if provider else lookup.provider} look-up"
        state = self._database.run(lambda tx: lookups.record(tx, lookup, looked, source))
        kind = type(looked).__name__.lower()
        note("looked up", action_id=lookup.action_id, outcome=kind, state=state.value)
