"""A house in which work is stuck, one piece in each way, made by the ledger's own functions and moved in time by the owner."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ledger.events import endings
from ledger.records import NotSent, Worker
from tests.fix_events import Ledger, worker
from tests.fix_seed import REFUND, House, mail

SOURCE = "billing"
KIND = (SOURCE, "invoice.paid")
LANE = b"\7" * 32


@dataclass
class Stuck:
    """Fills one database; each method is one way to be stuck, and returns the event's id."""

    house: House
    one: Worker = field(default_factory=lambda: worker(KIND, name="w-3f9a"))

    def __post_init__(self) -> None:
        self.book = Ledger(self.house.db)
        self.running(self.one)

    def running(self, one: Worker, *, silent_s: float = 0.0, stopped: bool = False) -> UUID:
        self.house.run(
            """INSERT INTO nottwice.workers (id, name, handles, seen_at, stopped_at)
               VALUES (:id, :name, :handles, now() - make_interval(secs => :s), CASE WHEN :stopped THEN now() END)""",
            id=one.id,
            name=one.name,
            handles=[f"{source} {type_}" for source, type_ in one.handles],
            s=silent_s,
            stopped=stopped,
        )
        return one.id

    def stored(self, key: str, *, age_s: float = 0.0, **changes: Any) -> int:
        (event_id,) = self.book.stored(key, **({"source": SOURCE} | changes))
        self.house.run(
            """UPDATE nottwice.events SET accepted_at = accepted_at - make_interval(secs => :s),
                      due_at = due_at - make_interval(secs => :s) WHERE id = :id""",
            id=event_id,
            s=age_s,
        )
        return event_id

    def in_hand(self, key: str, *, left_s: float, **changes: Any) -> int:
        """Claimed, with so many seconds of its lease left; negative: it has ended."""
        event_id = self.stored(key, age_s=70.0, **changes)
        claimed = self.book.claim_one(self.one, 60.0)
        assert claimed.event.id == event_id
        self.house.run(
            """UPDATE nottwice.events SET lease_until = now() + make_interval(secs => :left),
                      claimed_at = claimed_at - interval '60 s' WHERE id = :id""",
            id=event_id,
            left=left_s,
        )
        return event_id

    def failed(self, key: str, *, error: str = "ValueError: no such invoice", ago_s: float = 0.0) -> int:
        event_id = self.stored(key, age_s=3600.0)
        for _ in range(5):
            self.book.due(event_id)
            self._fails(event_id, error)
        self.house.run(
            "UPDATE nottwice.events SET ended_at = ended_at - make_interval(secs => :s) WHERE id = :id",
            id=event_id,
            s=ago_s,
        )
        return event_id

    def retrying(self, key: str) -> int:
        """Tried twice, accepted an hour ago, and due in a quarter of an hour."""
        event_id = self.stored(key, age_s=3600.0)
        for _ in range(2):
            self.book.due(event_id)
            self._fails(event_id, "TimeoutError: no answer")
        return event_id

    def _fails(self, event_id: int, error: str) -> None:
        claimed = self.book.claim_one(self.one)
        assert claimed.event.id == event_id
        self.book.database.run(lambda tx: endings.fail(tx, claimed, error=error, base_s=900, chance=0))

    def unhandled(self, key: str) -> int:
        return self.stored(f"invoice.voided {key}", age_s=7200.0, type="invoice.voided")

    def overdue(self, key: str) -> int:
        """Due for an hour, and nobody took it."""
        return self.stored(key, age_s=3600.0)

    def in_line(self, ahead: str, key: str) -> tuple[int, int]:
        """One in a worker's hands, another lined up behind it."""
        first = self.stored(ahead, age_s=3600.0, ordering_digest=LANE)
        assert self.book.claim_one(self.one, 3600.0).event.id == first
        second = self.stored(key, age_s=1800.0, ordering_digest=LANE)
        assert self.book.claim(self.one) == []
        return first, second

    # ── Sends ─────────────────────────────────────────────────────────────────────────────────────────

    def ready(self, about: str) -> int:
        """A send that has been due for an hour."""
        send = self.house.proposed(REFUND, mail("ana.ruiz@example.com", "About your refund"), about=about)
        self.house.run("UPDATE nottwice.actions SET due_at = now() - interval '1 h' WHERE id = :id", id=send)
        return send

    def given_up(self, about: str) -> int:
        """No try reached its provider, and its time is over."""
        send = self.ready(about)
        self.house.tried(send, REFUND.account, NotSent("The connection was refused."))
        self.house.run(
            """UPDATE nottwice.actions SET state = 'failed', due_at = NULL, settled_at = now(), retry_until = now(),
                      version = version + 1 WHERE id = :id""",
            id=send,
        )
        return send

    def sending(self, about: str) -> int:
        """A send whose worker was gone before its call."""
        send = self.ready(about)
        self.house.run(
            """UPDATE nottwice.actions SET state = 'sending', due_at = NULL, claim_token = gen_random_uuid(), claimed_by = :worker,
                      claimed_at = now(), lease_until = now() - interval '5 s', version = version + 1 WHERE id = :id""",
            worker=self.one.id,
            id=send,
        )
        return send
