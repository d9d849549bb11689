"""Actions: claimed one at a time, right before their call; started by the judge; answered once.

claim ▸ start (committed) ▸ the call, outside any transaction ▸ record. Nothing stands between the answer and its
record, and the record is tried until it is written: an answer that is lost is an uncertain send.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from uuid import uuid4

from ledger import actions, answers, faults
from ledger.database import Database, Transaction, outside_transactions
from ledger.errors import LeaseLost, LedgerError, MayNotStart, Unavailable
from ledger.records import AttemptRef, ClaimedAction, Outcome, Unknown, Worker
from ledger.settings import Settings
from ledger.states import ActionState
from worker.heartbeat import Heartbeat
from worker.observer import note
from worker.providers import Provider

RECORD_AGAIN_S = 0.5


class Sender:
    """Up to `send_slots` calls at once, each on a thread of its own."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        providers: Mapping[str, Provider],
        worker: Worker,
        heartbeat: Heartbeat,
    ) -> None:
        self._database, self._settings, self._providers = database, settings, providers
        self._worker, self._heartbeat, self._writer = worker, heartbeat, uuid4()
        self.accounts = [settings.providers[name].account or name for name in providers]
        self._calls = 0
        self._idle = threading.Condition()
        self._stopping = threading.Event()

    @property
    def calls(self) -> int:
        return self._calls

    def pump(self) -> int:
        """Claim and start what the free slots can hold; returns how many calls began."""
        begun = 0
        while self._calls < self._settings.worker.send_slots and not self._stopping.is_set():
            claimed = self._claim()
            if claimed is None:
                break
            with self._idle:
                self._calls += 1
            threading.Thread(
                target=self._carry, args=(claimed,), name=f"send-{claimed.lease.action_id}", daemon=True
            ).start()
            begun += 1
        return begun

    def stop(self, within_s: float) -> bool:
        """Begin nothing new; wait for the calls under way. False: some still run, and their leases will tell."""
        self._stopping.set()
        with self._idle:
            return self._idle.wait_for(lambda: self._calls == 0, timeout=within_s)

    def _claim(self) -> ClaimedAction | None:
        if not self.accounts:
            return None
        sent_at, lease_s = time.monotonic(), self._settings.worker.lease_s
        claimed = self._database.run(
            lambda tx: actions.claim(tx, self._worker, self.accounts, lease_s=lease_s)
        )
        if claimed is not None:
            self._heartbeat.hold(claimed.lease, sent_at)
            note("action claimed", action_id=claimed.lease.action_id, kind=claimed.kind)
            faults.point("sender.after_claim")
        return claimed

    def _carry(self, claimed: ClaimedAction) -> None:
        try:
            self._send(claimed)
        except (
            LedgerError
        ) as error:  # the lease, or the database, is gone: the sweep and the verdict take over
            note("send given up", action_id=claimed.lease.action_id, error=str(error))
        except Exception as error:  # noqa: BLE001 - never let one action end the process; its lease runs out
            note("send failed", action_id=claimed.lease.action_id, error=f"{type(error).__name__}: {error}")
        finally:
            self._heartbeat.release(claimed.lease)
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()

    def _send(self, claimed: ClaimedAction) -> None:
        attempt = self._start(claimed)
        if attempt is None:
            return
        faults.point("sender.after_start")
        outcome = outside_transactions(self._call, claimed)
        faults.point("sender.after_call")
        self._record(attempt, outcome)
        faults.point("sender.after_record")

    def _start(self, claimed: ClaimedAction) -> AttemptRef | None:
        lease = claimed.lease
        if self._stopping.is_set() or not self._heartbeat.is_sure(lease):
            self._hand_back(claimed, "stopping, or not sure of the lease")
            return None
        try:
            return self._database.run(lambda tx: actions.start(tx, lease))
        except MayNotStart as refusal:
            self._hand_back(claimed, str(refusal))
            return None

    def _hand_back(self, claimed: ClaimedAction, why: str) -> None:
        state = self._database.run(lambda tx: actions.hand_back(tx, claimed.lease))
        note("not started", action_id=claimed.lease.action_id, state=state.value, why=why)

    def _call(self, claimed: ClaimedAction) -> Outcome:
        faults.point("sender.before_call")
        try:
            return self._providers[claimed.provider].send(
                claimed, self._settings.providers[claimed.provider].timeout_s
            )
        except Exception as error:  # noqa: BLE001 - what a provider's table does not name is unknown
            return Unknown(f"{type(error).__name__} during the call")

    def _record(self, attempt: AttemptRef, outcome: Outcome) -> None:
        while True:
            try:
                state = self._database.run(lambda tx: self._write(tx, attempt, outcome))
            except Unavailable as error:
                note("answer waits for the database", action_id=attempt.action_id, error=str(error))
                time.sleep(RECORD_AGAIN_S)
            except LeaseLost:  # written by an earlier try whose commit was not confirmed
                return
            else:
                kind = answers.kind_of(outcome).value
                note("answered", action_id=attempt.action_id, outcome=kind, state=state.value)
                return

    def _write(self, tx: Transaction, attempt: AttemptRef, outcome: Outcome) -> ActionState:
        return answers.record_answer(tx, attempt, outcome, chance=random.random(), writer=self._writer)
