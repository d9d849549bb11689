"""Events for tests: deliveries, a worker, the shortest way through each function, and races behind a barrier."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from ledger import inbox, work
from ledger.database import Database
from ledger.events import recovery
from ledger.records import Acceptance, ClaimedEvent, Delivery, Unusable, Worker, digest_of

T = TypeVar("T")
WAIT_S = 40.0
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def delivery(key: str, *, body: bytes = b'{"a": 1}', **changes: Any) -> Delivery:
    """A delivery of the event `key`; its content is its body unless said otherwise."""
    made = Delivery(
        namespace="acme",
        source="shop",
        type="invoice.paid",
        event_key=key,
        key_digest=digest_of("shop", key),
        body=body,
        content_digest=hashlib.sha256(body).digest(),
        content_type="application/json",
        delivery_id=f"delivery of {key}",
    )
    return replace(made, **changes)


def unusable(body: bytes, *, index: int = 0, reason: str = "It has no key.") -> Unusable:
    return Unusable("acme", "shop", index, reason, body)


class Ledger:
    """One database, spoken to as a receiver and a worker would: every call is a transaction of its own."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.writer = uuid4()

    def accept(self, *items: Delivery | Unusable) -> list[Acceptance]:
        return self.database.run(lambda tx: inbox.accept(tx, items, writer=self.writer))

    def stored(self, *keys: str, **changes: Any) -> list[int]:
        """Accept one event a key, each with the changes; their ids."""
        return [answer.event_id or 0 for answer in self.accept(*(delivery(k, **changes) for k in keys))]

    def claim(
        self, worker: Worker, limit: int = 10, lease_s: float = 30.0, *, idle: bool = False
    ) -> list[ClaimedEvent]:
        return self.database.run(lambda tx: work.claim(tx, worker, limit=limit, lease_s=lease_s, idle=idle))

    def claim_one(self, worker: Worker, lease_s: float = 30.0, *, idle: bool = False) -> ClaimedEvent:
        (one,) = self.claim(worker, 1, lease_s, idle=idle)
        return one

    def complete(self, *claimed: ClaimedEvent) -> set[int]:
        leases = [one.lease for one in claimed]
        ended = self.database.run(lambda tx: work.complete(tx, leases, writer=self.writer))
        return {lease.event_id for lease in ended}

    def rescue(self, limit: int = 100) -> dict[int, str]:
        rescued = self.database.run(lambda tx: work.rescue(tx, limit=limit, writer=self.writer))
        return {one.id: one.state.value for one in rescued}

    def expire(self, *event_ids: int) -> None:
        """Let the leases of these events have run out a moment ago."""
        self.run(
            "UPDATE nottwice.events SET lease_until = now() - interval '1 s' WHERE id = ANY (:ids)",
            ids=list(event_ids),
        )

    def due(self, *event_ids: int) -> None:
        """Let these pending events be due, whatever they were waiting for."""
        self.run("UPDATE nottwice.events SET due_at = now() WHERE id = ANY (:ids)", ids=list(event_ids))

    def run(self, sql: str, **values: Any) -> None:
        self.database.run(lambda tx: tx.execute(sql, **values) and None)

    def rows(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.database.run(lambda tx: tx.all(sql, **values))]

    def value(self, sql: str, **values: Any) -> Any:
        return self.rows(sql, **values)[0][0]

    def event(self, event_id: int) -> Any:
        return self.database.run(
            lambda tx: tx.one("SELECT * FROM nottwice.events WHERE id = :id", id=event_id)
        )

    def until_somebody_waits(self) -> None:
        """Until a session of this database waits for another's lock."""
        ends_at = time.monotonic() + WAIT_S
        with self.database.engine.connect() as watching:
            while not watching.execute(sa.text(WAITING)).scalar():
                watching.rollback()  # activity is read once a transaction
                assert time.monotonic() < ends_at, "nobody waits"
                time.sleep(0.005)

    def violations(self) -> list[str]:
        return self.database.run(recovery.invariant_violations)


def worker(*kinds: tuple[str, str], name: str = "w") -> Worker:
    return Worker(uuid4(), name, kinds or (("shop", "invoice.paid"),))


@pytest.fixture
def book(database: Database) -> Ledger:
    """The ledger of this test."""
    return Ledger(database)


class Crowd:
    """So many threads, released together as often as wanted."""

    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size)
        self._barrier = threading.Barrier(size)

    def at_once(self, deeds: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Each deed on a thread of its own, all at the same instant; their results or errors in the same order."""
        assert len(deeds) == self._barrier.parties
        waiting = [self._pool.submit(self._release, deed) for deed in deeds]
        return [one.result(WAIT_S) for one in waiting]

    def _release(self, deed: Callable[[], T]) -> T | Exception:
        self._barrier.wait(WAIT_S)
        try:
            return deed()
        except Exception as error:
            return error

    def close(self) -> None:
        self._barrier.abort()
        self._pool.shutdown()


@pytest.fixture
def crowd() -> Iterator[Callable[[int], Crowd]]:
    """`crowd(50)`: fifty threads that are let go together."""
    crowds: list[Crowd] = []

    def gather(size: int) -> Crowd:
        crowds.append(Crowd(size))
        return crowds[-1]

    yield gather
    for one in crowds:
        one.close()


@pytest.fixture
def many(database_url: str) -> Iterator[Ledger]:
    """The same database through a pool wide enough for a crowd."""
    database = Database(database_url, pool_size=50, pool_wait_s=WAIT_S)
    yield Ledger(database)
    database.close()


def writers(n: int) -> list[UUID]:
    return [uuid4() for _ in range(n)]
