"""Actions: claimed one at a time, right before their call; started by the judge; answered once.

claim ▸ start (committed) ▸ the call, outside any transaction ▸ record. Nothing stands between the answer and its
record, and the record is tried until it is written: an answer that is lost is an uncertain send.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from uuid import UUID, uuid4

from ledger import actions, faults
from ledger.accounts import pauses, restored
from ledger.actions import answers
from ledger.database import Database, outside_transactions, sqlstate
from ledger.errors import Held, LeaseLost, LedgerError, MayNotStart
from ledger.records import AttemptRef, ClaimedAction, NotSent, Outcome, Unknown, Worker
from ledger.settings import Settings
from worker.heartbeat import Heartbeat, clock
from worker.observer import note
from worker.providers import Provider
from worker.ways import Given, Way

RECORD_AGAIN_S = 0.5
NEVER_STORED = ("22", "23", "42")  # the values themselves, or our statement: trying again would not help
NO_WAY = (
    "It was written for account {account} of provider {provider}, and the configuration has no such provider, or has "
    "another account, or one of another kind, in its place. It was not sent."
)
NO_CALL = NotSent("The lease ran out before the call was made.", "lease")


class Sender:
    """Up to `send_slots` calls at once, each on a thread of its own. `changed` is told when one ends.

    Of one account no more at once than its provider's `sends_at_once`: one that hangs does not hold up the others.
    """

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
        self._under_way: Counter[str] = Counter()  # calls by account
        self._counting = threading.Lock()
        self._stopping = False
        self.use(settings, providers)

    def use(self, settings: Settings, providers: Mapping[str, Provider]) -> None:
        """Go on with other rules, addresses or keys; calls under way keep theirs."""
        self._given = Given(settings, providers)
        accounts = {settings.account_of(name) for name in providers}
        most = max(1, self._slots - (len(accounts) - 1))  # so that each of the others has a slot
        self._most = {
            settings.account_of(name): settings.providers[name].sends_at_once or most for name in providers
        }

    @property
    def calls(self) -> int:
        return self._slots - self._free.qsize()

    @property
    def accounts_with_room(self) -> tuple[str, ...]:
        """The accounts whose actions can be taken now: of configured providers, while a slot is free for them."""
        if self._stopping or self._free.empty():
            return ()
        return tuple(account for account, most in self._most.items() if self._under_way[account] < most)

    def lacks_room(self) -> bool:
        """Whether the calls of an account leave it no room: its next action can be taken as soon as one ends."""
        return not self._stopping and len(self.accounts_with_room) < len(self._most)

    def stop(self) -> None:
        """Begin nothing new: what is claimed but not started is handed back."""
        self._stopping = True

    def pump(self) -> int:
        """Claim and start what the free slots can hold; returns how many calls began."""
        begun = 0
        while (accounts := self.accounts_with_room) and (claimed := self._claim(accounts)):
            self._count(claimed.account, 1)
            name = f"send-{claimed.lease.action_id}"
            threading.Thread(
                target=self._carry, args=(claimed, self._free.get()), name=name, daemon=True
            ).start()
            begun += 1
        return begun

    def _count(self, account: str, calls: int) -> None:
        with self._counting:
            self._under_way[account] += calls

    def _claim(self, accounts: tuple[str, ...]) -> ClaimedAction | None:
        settings, asked_at = self._given.settings, clock()
        lease_s = settings.worker.lease_s
        claimed = self._database.run(lambda tx: actions.claim(tx, self._worker, accounts, lease_s=lease_s))
        if claimed is not None:
            # Up to the call's total deadline and no longer: a call that hangs beyond it is anybody's to judge.
            provider = settings.providers.get(claimed.provider)
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
        way = self._given.way(claimed)
        try:
            attempt = self._start(claimed, way)
            if attempt is not None and way is not None:
                faults.point("sender.after_start")
                self._record(claimed, attempt, self._call(claimed, way), writer)
        except LedgerError as error:  # the lease, or the database, is gone: sweep and verdict take over
            note("send given up", action_id=claimed.lease.action_id, error=str(error))
        except Exception as error:  # noqa: BLE001 - one action never ends the process
            note("send given up", action_id=claimed.lease.action_id, error=type(error).__name__)
        finally:
            self._heartbeat.release(claimed.lease)
            self._count(claimed.account, -1)
            self._free.put(writer)
            self._changed()

    def _start(self, claimed: ClaimedAction, way: Way | None) -> AttemptRef | None:
        """Ask the judge, in a transaction of its own that is committed before the socket opens."""
        try:
            if self._stopping:
                self._hand_back(claimed, "stopping")
            elif way is None:
                self._put_on_the_desk(claimed)
            else:
                return self._database.run(lambda tx: actions.start(tx, claimed.lease, way.place))
        except MayNotStart as refusal:
            if isinstance(refusal, Held):  # before anybody looked: else it would be claimed again at once
                self._database.run(restored.look)
            self._hand_back(claimed, str(refusal), way.place if way else "")
        return None

    def _hand_back(self, claimed: ClaimedAction, why: str, place: str = "") -> None:
        state = self._database.run(lambda tx: actions.hand_back(tx, claimed.lease, place))
        note("action handed back", action_id=claimed.lease.action_id, state=state.value, why=why)

    def _put_on_the_desk(self, claimed: ClaimedAction) -> None:
        """It may not go out under what the configuration has in that place; and it must not come round again at once."""
        why = NO_WAY.format(provider=claimed.provider, account=claimed.account)
        self._database.run(lambda tx: actions.stop(tx, claimed.lease, why))
        note("action stopped", action_id=claimed.lease.action_id, state="needs_review", why=why)

    def _call(self, claimed: ClaimedAction, way: Way) -> Outcome:
        faults.point("sender.before_call")
        if not self._heartbeat.is_sure(claimed.lease):  # we were stopped or cut off since the claim
            return NO_CALL
        try:
            return outside_transactions(way.provider.send, claimed, way.deadline_s)
        except Exception as error:  # noqa: BLE001 - what a provider's table does not name is unknown
            return Unknown(f"{type(error).__name__} during the call")
        finally:
            faults.point("sender.after_call")

    def _record(self, claimed: ClaimedAction, attempt: AttemptRef, outcome: Outcome, writer: UUID) -> None:
        """Write the answer to its attempt, however long the database is away: as long as this process lives."""
        kind, w = answers.kind_of(outcome).value, self._given.settings.worker
        waits = {"base_s": w.send_retry_base_s, "pause_s": w.pause_s}
        while True:
            try:
                state = self._database.run(
                    lambda tx: answers.record_answer(
                        tx, attempt, outcome, chance=random.random(), writer=writer, **waits
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
                note("answered", action_id=attempt.action_id, outcome=kind, state=state.value)
                return self._announce(claimed.account, outcome)

    def _announce(self, account: str, outcome: Outcome) -> None:
        """One alert a pause, whichever process sees it first."""
        if not isinstance(outcome, Unknown) and not (isinstance(outcome, NotSent) and outcome.pauses):
            return
        paused = self._database.run(lambda tx: pauses.announced(tx, account))
        if paused is not None:
            until = paused.paused_until.isoformat(timespec="seconds")
            note("account paused", account=account, until=until, reason=paused.reason)
