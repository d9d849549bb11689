"""Actions: claimed one at a time, right before their call; started by the judge; answered once.

claim ▸ start (committed) ▸ the call, outside any transaction ▸ record. Nothing stands between the answer and its
record, and the record is tried until it is written: an answer that is lost is an uncertain send.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Mapping
from uuid import UUID, uuid4

from ledger import actions, answers, faults
from ledger.database import Database, outside_transactions, sqlstate
from ledger.errors import LeaseLost, LedgerError, MayNotStart
from ledger.records import AttemptRef, ClaimedAction, NotSent, Outcome, Unknown, Worker
from ledger.settings import Settings
from worker.heartbeat import Heartbeat, clock
from worker.observer import note
from worker.providers import Provider

RECORD_AGAIN_S = 0.5
NEVER_STORED = ("22", "23", "42")  # the values themselves, or our statement: trying again would not help
NO_CALL = NotSent("The lease ran out before the call was made.", "lease")


class Sender:
    """Up to `send_slots` calls at once, each on a thread of its own. `changed` is told when one ends."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        providers: Mapping[str, Provider],
        worker: Worker,
        heartbeat: Heartbeat,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._database, self._worker, self._heartbeat = database, worker, heartbeat
        self._changed = changed
        self._free: queue.SimpleQueue[UUID] = queue.SimpleQueue()  # a slot's name is its writer of counters
        for _ in range(settings.worker.send_slots):
            self._free.put(uuid4())
        self._slots = settings.worker.send_slots
        self._stopping = False
        self.use(settings, providers)

    def use(self, settings: Settings, providers: Mapping[str, Provider]) -> None:
        """Go on with other rules, addresses or keys; calls under way keep theirs."""
        self._settings, self._providers = settings, providers
        self._accounts = tuple(settings.providers[name].account or name for name in providers)

    @property
    def calls(self) -> int:
        return self._slots - self._free.qsize()

    @property
    def accounts_with_room(self) -> tuple[str, ...]:
        """The accounts whose actions can be taken now: of configured providers, while a slot is free."""
        return () if self._stopping or self._free.empty() else self._accounts

    def stop(self) -> None:
        """Begin nothing new: what is claimed but not started is handed back."""
        self._stopping = True

    def pump(self) -> int:
        """Claim and start what the free slots can hold; returns how many calls began."""
        begun = 0
        while (accounts := self.accounts_with_room) and (claimed := self._claim(accounts)):
            name = f"send-{claimed.lease.action_id}"
            threading.Thread(
                target=self._carry, args=(claimed, self._free.get()), name=name, daemon=True
            ).start()
            begun += 1
        return begun

    def _claim(self, accounts: tuple[str, ...]) -> ClaimedAction | None:
        asked_at, lease_s = clock(), self._settings.worker.lease_s
        claimed = self._database.run(lambda tx: actions.claim(tx, self._worker, accounts, lease_s=lease_s))
        if claimed is not None:
            # Up to the call's total deadline and no longer: a call that hangs beyond it is anybody's to judge.
            provider = self._settings.providers.get(claimed.provider)
            self._heartbeat.hold(
                claimed.lease, asked_at, renew_for_s=lease_s + (provider.timeout_s if provider else 0.0)
            )
            note(
                "action claimed", action_id=claimed.lease.action_id, kind=claimed.kind, ref=claimed.reference
            )
            faults.point("sender.after_claim")
        return claimed

    def _carry(self, claimed: ClaimedAction, writer: UUID) -> None:
        # Taken before the start: a configuration that is read meanwhile must not make a started call impossible.
        provider, given = (
            self._providers.get(claimed.provider),
            self._settings.providers.get(claimed.provider),
        )
        try:
            attempt = self._start(claimed, known=provider is not None and given is not None)
            if attempt is not None and provider is not None and given is not None:
                faults.point("sender.after_start")
                self._record(attempt, self._call(claimed, provider, given.timeout_s), writer)
        except LedgerError as error:  # the lease, or the database, is gone: sweep and verdict take over
            note("send given up", action_id=claimed.lease.action_id, error=str(error))
        except Exception as error:  # noqa: BLE001 - one action never ends the process
            note("send given up", action_id=claimed.lease.action_id, error=type(error).__name__)
        finally:
            self._heartbeat.release(claimed.lease)
            self._free.put(writer)
            self._changed()

    def _start(self, claimed: ClaimedAction, *, known: bool) -> AttemptRef | None:
        """Ask the judge, in a transaction of its own that is committed before the socket opens."""
        lease = claimed.lease
        if self._stopping or not known:
            self._hand_back(claimed, "stopping" if self._stopping else "no such provider")
            return None
        try:
            return self._database.run(lambda tx: actions.start(tx, lease))
        except MayNotStart as refusal:
            self._hand_back(claimed, str(refusal))
            return None

    def _hand_back(self, claimed: ClaimedAction, why: str) -> None:
        state = self._database.run(lambda tx: actions.hand_back(tx, claimed.lease))
        note("action handed back", action_id=claimed.lease.action_id, state=state.value, why=why)

    def _call(self, claimed: ClaimedAction, provider: Provider, deadline_s: float) -> Outcome:
        faults.point("sender.before_call")
        if not self._heartbeat.is_sure(claimed.lease):  # we were stopped or cut off since the claim
            return NO_CALL
        try:
            return outside_transactions(provider.send, claimed, deadline_s)
        except Exception as error:  # noqa: BLE001 - what a provider's table does not name is unknown
            return Unknown(f"{type(error).__name__} during the call")
        finally:
            faults.point("sender.after_call")

    def _record(self, attempt: AttemptRef, outcome: Outcome, writer: UUID) -> None:
        """Write the answer to its attempt, however long the database is away: as long as this process lives."""
        kind = answers.kind_of(outcome).value
        while True:
            try:
                state = self._database.run(
                    lambda tx: answers.record_answer(
                        tx, attempt, outcome, chance=random.random(), writer=writer
                    )
                )
            except LeaseLost:  # written by an earlier try whose commit was not confirmed
                return note("answered before", action_id=attempt.action_id, outcome=kind)
            except Exception as error:
                if (sqlstate(error) or "")[:2] in NEVER_STORED:
                    raise
                note("answer waits", action_id=attempt.action_id, outcome=kind, error=type(error).__name__)
                time.sleep(RECORD_AGAIN_S * random.uniform(0.5, 1.0))
            else:
                faults.point("sender.after_record")
                return note("answered", action_id=attempt.action_id, outcome=kind, state=state.value)
