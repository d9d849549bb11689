"""Renews leases from a thread and a connection of its own, so that no handler can keep it from beating.

A lease is judged by a monotonic clock that was read before the claim (or the renewal) was sent: by that clock it
ends at the same time as in the database, or earlier. Whoever may not be sure of a lease starts nothing under it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from ledger import actions, work, workers
from ledger.database import Database, Transaction
from ledger.errors import LedgerError
from ledger.records import ActionLease, EventLease, Worker
from worker.observer import note

Lease = EventLease | ActionLease
BEATS_PER_LEASE = 3


@dataclass(slots=True)
class Held:
    ends_at: float  # by the monotonic clock
    since: float


class Heartbeat:
    """`hold` what was claimed, `release` what has ended; the thread renews what is held."""

    def __init__(self, database: Database, worker: Worker, *, lease_s: float, run_s_max: float) -> None:
        self._database, self._worker = database, worker
        self._lease_s, self._run_s_max = lease_s, run_s_max
        self._held: dict[Lease, Held] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self.overdue = threading.Event()  # a handler ran too long: the process should be replaced

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=self._lease_s)

    def hold(self, lease: Lease, sent_at: float) -> None:
        """`sent_at`: the monotonic clock before the claim was sent."""
        with self._lock:
            self._held[lease] = Held(sent_at + self._lease_s, sent_at)

    def release(self, lease: Lease) -> None:
        with self._lock:
            self._held.pop(lease, None)

    def is_sure(self, lease: Lease) -> bool:
        """Whether the lease is certainly ours for at least another tenth of its length."""
        with self._lock:
            held = self._held.get(lease)
        return held is not None and time.monotonic() < held.ends_at - self._lease_s / 10

    def _run(self) -> None:
        while not self._stopped.wait(self._lease_s / BEATS_PER_LEASE):
            try:
                self.beat()
            except LedgerError as error:  # the database is away: leases run out by themselves
                note("heartbeat missed", error=str(error))
            except Exception as error:  # noqa: BLE001 - a heart that stops for one error kills the work of all
                note("heartbeat failed", error=f"{type(error).__name__}: {error}")

    def beat(self) -> None:
        """Renew everything held, in one transaction; forget what is not ours any more."""
        self._drop_overdue()
        with self._lock:
            leases = list(self._held)
        sent_at = time.monotonic()
        renewed = self._database.run(lambda tx: self._renew(tx, leases))
        with self._lock:
            for lease in leases:
                if lease in renewed and lease in self._held:
                    self._held[lease].ends_at = sent_at + self._lease_s
                elif lease not in renewed and self._held.pop(lease, None) is not None:
                    note("lease lost", lease=lease)

    def _renew(self, tx: Transaction, leases: list[Lease]) -> set[Lease]:
        workers.beat(tx, self._worker.id)
        events = [lease for lease in leases if isinstance(lease, EventLease)]
        sends = [lease for lease in leases if isinstance(lease, ActionLease)]
        held: set[Lease] = set()
        if events:
            held |= work.renew(tx, events, lease_s=self._lease_s)
        if sends:
            held |= actions.renew(tx, sends, lease_s=self._lease_s)
        return held

    def _drop_overdue(self) -> None:
        with self._lock:
            late = [
                lease
                for lease, held in self._held.items()
                if isinstance(lease, EventLease) and time.monotonic() - held.since > self._run_s_max
            ]
            for lease in late:
                del self._held[lease]
        if late:
            self.overdue.set()
            note("handler ran too long", leases=late, run_s_max=self._run_s_max)
