"""Events: slow parts side by side, apply parts in optimistic groups, each commit fenced by the claim tokens.

A group is one transaction without savepoints: all completions first, then each apply part. On any error nobody is
blamed: the group is rolled back, and each member is applied in a transaction of its own, under the same lease and
with the kept result of its slow part. Only a handler's own exception there is a failed attempt.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from ledger import counters, faults, work
from ledger.database import Database, Transaction, outside_transactions
from ledger.errors import LeaseLost, LedgerError, Unavailable
from ledger.records import ClaimedEvent, Worker
from ledger.settings import Settings
from worker.handlers import Handlers, Propose, RetryLater, SetAside
from worker.heartbeat import Heartbeat
from worker.observer import note

GROUP_LOCK_WAIT = "50ms"  # a group that fights over the user's rows gives up early; alone each may wait


@dataclass(frozen=True, slots=True)
class Ready:
    """An event whose slow part has ended: with what it prepared, or with its error."""

    claimed: ClaimedEvent
    prepared: Any = None
    error: BaseException | None = None


class Executor:
    """Claims no more than its free slots. All commits happen on the caller's thread."""

    def __init__(
        self, database: Database, settings: Settings, handlers: Handlers, worker: Worker, heartbeat: Heartbeat
    ) -> None:
        self._database, self._settings, self._handlers = database, settings, handlers
        self._worker, self._heartbeat = worker, heartbeat
        self._ready: queue.SimpleQueue[Ready] = queue.SimpleQueue()
        self._running: dict[UUID, ClaimedEvent] = {}
        self._alone = False
        self._writer = uuid4()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def is_alone(self) -> bool:
        """Whether a rescued event runs: then nothing else may run in this process."""
        return self._alone

    def claim(self, *, idle: bool) -> int:
        """Take what the free slots can hold and start its slow parts; returns how many."""
        free = self._settings.worker.slots - self.running
        if free <= 0 or self._alone or not self._worker.handles:
            return 0
        sent_at, lease_s = time.monotonic(), self._settings.worker.lease_s
        claimed = self._database.run(
            lambda tx: work.claim(tx, self._worker, limit=free, lease_s=lease_s, idle=idle)
        )
        for one in claimed:
            self._heartbeat.hold(one.lease, sent_at)
            self._running[one.lease.token] = one
            note("claimed", event_id=one.event.id, attempt=one.attempt, alone=one.alone)
        if claimed:
            self._alone = claimed[0].alone
            faults.point("worker.after_claim")
        for one in claimed:
            self._begin(one)
        return len(claimed)

    def _begin(self, claimed: ClaimedEvent) -> None:
        if self._handlers.find(claimed.event).slow is None:
            self._ready.put(Ready(claimed))
        else:
            name = f"event-{claimed.event.id}"
            threading.Thread(target=self._prepare, args=(claimed,), name=name, daemon=True).start()

    def _prepare(self, claimed: ClaimedEvent) -> None:
        try:
            faults.point("worker.in_handler")
            handler = self._handlers.find(claimed.event)
            self._ready.put(Ready(claimed, outside_transactions(handler.prepare, claimed.event)))
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its own failure
            self._ready.put(Ready(claimed, error=error))

    def collect(self, wait_s: float) -> list[Ready]:
        """What has become ready, at most one group; waits for the first."""
        group: list[Ready] = []
        try:
            group.append(self._ready.get(timeout=wait_s) if wait_s > 0 else self._ready.get_nowait())
            while len(group) < self._settings.worker.group_max:
                group.append(self._ready.get_nowait())
        except queue.Empty:
            pass
        return group

    def commit(self, group: Sequence[Ready]) -> None:
        """End each member's claim one way or another; raises Unavailable when the database is away (call again)."""
        good = [ready for ready in group if ready.error is None]
        if len(good) > 1 and self._commit_together(good):
            good = []
        for ready in [*good, *(ready for ready in group if ready.error is not None)]:
            try:
                self._commit_one(ready)
            except Unavailable as error:
                self._ready.put(ready)  # under its lease it may still complete
                note("database away", error=str(error))
                time.sleep(min(1.0, self._settings.worker.lease_s / 20))

    def _commit_together(self, group: list[Ready]) -> bool:
        try:
            with self._database.transaction() as tx:
                tx.execute(f"SET LOCAL lock_timeout = '{GROUP_LOCK_WAIT}'")
                held = work.complete(tx, [ready.claimed.lease for ready in group], writer=self._writer)
                for ready in group:
                    if ready.claimed.lease in held:
                        self._apply(tx, ready)
                tx.execute("SET CONSTRAINTS ALL IMMEDIATE")
                faults.point("worker.before_commit")
        except Exception as error:  # noqa: BLE001 - nobody is blamed for what happened in a group
            note("group rolled back", size=len(group), error=f"{type(error).__name__}")
            return False
        faults.point("worker.after_commit")
        for ready in group:
            self._end(ready, "completed" if ready.claimed.lease in held else "lease lost")
        return True

    def _commit_one(self, ready: Ready) -> None:
        if ready.error is not None:
            self._record_failure(ready, ready.error)
            return
        try:
            self._database.run(lambda tx: self._complete_one(tx, ready))
        except LeaseLost:
            self._end(ready, "lease lost")
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - the handler's own failure
            self._record_failure(ready, error)
        else:
            faults.point("worker.after_commit")
            self._end(ready, "completed")

    def _complete_one(self, tx: Transaction, ready: Ready) -> None:
        if not work.complete(tx, [ready.claimed.lease], writer=self._writer):
            raise LeaseLost("The claim is in other hands.")
        self._apply(tx, ready)
        tx.execute("SET CONSTRAINTS ALL IMMEDIATE")
        faults.point("worker.before_commit")

    def _apply(self, tx: Transaction, ready: Ready) -> None:
        event = ready.claimed.event
        self._handlers.find(event).commit(tx, event, ready.prepared, Propose(tx, event, self._settings))

    def _record_failure(self, ready: Ready, error: BaseException) -> None:
        try:
            ending = self._database.run(lambda tx: self._fail(tx, ready.claimed, error))
        except LeaseLost:
            ending = "lease lost"
        self._end(ready, ending, error=f"{type(error).__name__}: {error}"[:500])

    def _fail(self, tx: Transaction, claimed: ClaimedEvent, error: BaseException) -> str:
        words, lease = f"{type(error).__name__}: {error}", claimed.lease
        if isinstance(error, RetryLater):
            work.retry_later(tx, lease, delay_s=error.delay_s, error=words, counted=False)
            return "retry later"
        if isinstance(error, SetAside):
            work.set_aside(tx, lease, error=words)
            ending = "set_aside"
        else:
            base_s = self._settings.worker.retry_base_s
            state = work.fail(tx, claimed, error=words, base_s=base_s, chance=random.random())
            ending = "set_aside" if state == "failed" else "retried"
        counters.bump(tx, self._writer, claimed.event.namespace, ending)
        return ending

    def _end(self, ready: Ready, ending: str, **facts: Any) -> None:
        lease = ready.claimed.lease
        self._heartbeat.release(lease)
        self._running.pop(lease.token, None)
        self._alone = self._alone and not ready.claimed.alone
        note(ending, event_id=lease.event_id, attempt=ready.claimed.attempt, **facts)

    def hand_back(self) -> None:
        """Give everything back that has not ended: this process is going. The attempts are not burnt."""
        for claimed in list(self._running.values()):
            try:
                self._database.run(lambda tx, lease=claimed.lease: work.hand_back(tx, lease))  # type: ignore[misc]
                self._end(Ready(claimed), "handed back")
            except LedgerError as error:  # its lease will run out
                note("not handed back", event_id=claimed.event.id, error=str(error))
