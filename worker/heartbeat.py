"""Renews what this process holds: a thread and a connection of its own, so that nothing a handler does delays it.

Each lease is judged by a clock of this machine that was read before the claim (or renewal) was sent. The database
counted from a later moment, so we never believe in a lease longer than the database does, whatever the wall clocks
say; and the clock goes on while the machine sleeps. What is not sure any more starts no external call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from ledger import actions, work, workers
from ledger.clock import clock as clock
from ledger.database import Database, Transaction
from ledger.errors import Unavailable
from ledger.records import ActionLease, EventLease, Worker
from worker.observer import note

Lease = EventLease | ActionLease
BEATS_PER_LEASE = 3
MARGIN = 0.1  # of a lease: within it we are not sure any more


@dataclass(slots=True)
class Held:
    ends_at: float
    renew_until: float


class Heartbeat:
    """`hold` what was claimed, `release` what has ended; the thread renews what is held, every third of a lease."""

    def __init__(self, database: Database, worker: Worker, *, lease_s: float) -> None:
        self._database, self._worker, self._lease_s = database, worker, lease_s
        self.has_refused = False  # the configuration that the worker was told to read again
        self._held: dict[Lease, Held] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def hold(self, lease: Lease, asked_at: float, *, renew_for_s: float = float("inf")) -> None:
        """`asked_at`: the clock before the claim was sent. It is renewed for `renew_for_s` at most."""
        with self._lock:
            self._held[lease] = Held(asked_at + self._lease_s, asked_at + renew_for_s)

    def hold_all(self, leases: Iterable[Lease], asked_at: float) -> None:
        """Several of one claim."""
        ends_at = asked_at + self._lease_s
        with self._lock:
            self._held.update({lease: Held(ends_at, float("inf")) for lease in leases})

    def release(self, *leases: Lease) -> None:
        with self._lock:
            for lease in leases:
                self._held.pop(lease, None)

    def is_sure(self, lease: Lease) -> bool:
        """Whether the lease is certainly ours, for at least another tenth of its length."""
        with self._lock:
            held = self._held.get(lease)
        return held is not None and clock() < held.ends_at - MARGIN * self._lease_s

    def _run(self) -> None:
        pause_s = every_s = self._lease_s / BEATS_PER_LEASE
        while not self._stopped.wait(pause_s):
            asked_at = clock()
            try:
                self.beat()
                pause_s = max(0.0, every_s - (clock() - asked_at))
            except Exception as error:  # noqa: BLE001 - a heart that stops for one error kills the work of all
                what = str(error) if isinstance(error, Unavailable) else type(error).__name__
                note("heartbeat missed", error=what)
                pause_s = every_s / 4

    def beat(self) -> None:
        """Renew everything held, in one transaction, and forget what ran out.

        What is not renewed is not lost yet: its row may be locked by our own commit. Only time decides.
        """
        asked_at = clock()
        with self._lock:
            leases = [lease for lease, held in self._held.items() if asked_at < held.renew_until]
        renewed = self._database.run(lambda tx: self._renew(tx, leases))
        with self._lock:
            for lease in renewed & self._held.keys():
                self._held[lease].ends_at = asked_at + self._lease_s
            lost = [lease for lease, held in self._held.items() if held.ends_at <= clock()]
            for lease in lost:
                del self._held[lease]
        for lease in lost:
            note("lease ran out", **id_of(lease))

    def _renew(self, tx: Transaction, leases: list[Lease]) -> set[Lease]:
        # Not only a sign of life: after an hour of silence the row is gone.
        workers.register(tx, self._worker, refused=self.has_refused)
        events = [lease for lease in leases if isinstance(lease, EventLease)]
        sends = [lease for lease in leases if isinstance(lease, ActionLease)]
        renewed: set[Lease] = set()
        if events:
            renewed |= work.renew(tx, events, lease_s=self._lease_s)
        if sends:
            renewed |= actions.renew(tx, sends, lease_s=self._lease_s)
        return renewed


def id_of(lease: Lease) -> dict[str, int]:
    """A lease as a log may name it: without its token."""
    return {"event_id": lease.event_id} if isinstance(lease, EventLease) else {"action_id": lease.action_id}
