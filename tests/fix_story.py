"""Events with a past, made by the ledger's own functions and then moved in time by the owner: what the Events page shows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ledger import actions
from ledger.events import endings
from ledger.records import Delivery, Proposal, Unusable, Worker
from tests.fix_events import Ledger, delivery, unusable, worker
from tests.fix_seed import RECEIPT, House, mail

PAID = {
    "id": "evt_1042",
    "type": "invoice.paid",
    "created": 1796031862,
    "data": {
        "object": {
            "invoice": "INV-1042",
            "amount": 124000,
            "currency": "eur",
            "customer": "ana.ruiz@example.com",
        }
    },
}
CHANGED: dict[str, Any] = PAID | {
    "data": {"object": {"invoice": "INV-1042", "amount": 142000, "currency": "eur", "lines": []}}
}


SOURCE = "billing"  # of its own: what else waits in a house is not claimed here


@dataclass(frozen=True)
class Told:
    """The events of a house with a past: by what became of them."""

    done: int
    failing: int
    set_aside: int
    waiting: int
    in_hand: int
    ignored: int
    conflict: int
    quarantined: int
    binary: int
    send: int


def received(key: str, body: object = None, **changes: Any) -> Delivery:
    raw = json.dumps(body if body is not None else {"id": key}).encode()
    return delivery(
        f"invoice.paid {key}", body=raw, **({"source": SOURCE, "delivery_id": f"req_{key}"} | changes)
    )


def told(house: House) -> Told:
    book, one = Ledger(house.db), worker((SOURCE, "invoice.paid"), name="w-3f9a")
    house.run(
        "INSERT INTO nottwice.workers (id, name, handles) VALUES (:id, 'w-3f9a', '{billing invoice.paid}')",
        id=one.id,
    )
    done = _done(house, book, one)
    failing = _tried(book, one, "evt_1043", 2)
    set_aside = _tried(book, one, "evt_1044", 5)
    (in_hand,) = book.stored("invoice.paid evt_1046", source=SOURCE)
    book.claim_one(one, 3600.0)
    (waiting,) = book.stored("invoice.paid evt_1045", source=SOURCE)
    (ignored,) = (
        a.event_id or 0 for a in book.accept(received("evt_1047", type="invoice.viewed", ignored=True))
    )
    conflict = _conflict(book, done)
    _aged(house, done)
    quarantined, binary = _quarantine(book)
    send = house.db.run(lambda tx: tx.one("SELECT id FROM nottwice.actions WHERE event_id = :id", id=done)).id
    return Told(done, failing, set_aside, waiting, in_hand, ignored, conflict, quarantined, binary, send)


def _done(house: House, book: Ledger, one: Worker) -> int:
    """Paid, delivered three times, failed once, and led to a receipt whose fate nobody knows."""
    first = received("evt_1042", PAID)
    (answer,) = book.accept(first)
    book.accept(first)
    book.accept(received("evt_1042", PAID, delivery_id="req_again"))
    claimed = book.claim_one(one)
    book.database.run(
        lambda tx: endings.fail(
            tx, claimed, error="TimeoutError: the model gave no answer", base_s=2, chance=0
        )
    )
    book.due(claimed.event.id)
    again = book.claim_one(one)
    email = mail("ana.ruiz@example.com", "Your receipt for invoice INV-1042")
    proposal = Proposal(
        "acme",
        "invoice:INV-1042:paid",
        RECEIPT,
        email.content(),
        email.to,
        "INV-1042 paid",
        event_id=claimed.event.id,
    )
    send = book.database.run(lambda tx: actions.propose(tx, proposal)).action_id
    book.complete(again)
    house.tried(send, RECEIPT.account, None)
    house.on_the_desk(send)
    house.aged(send, 8034)
    return answer.event_id or 0


def _tried(book: Ledger, one: Worker, key: str, times: int) -> int:
    (event_id,) = book.stored(f"invoice.paid {key}", source=SOURCE)
    for _ in range(times):
        book.due(event_id)
        claimed = book.claim_one(one)
        book.database.run(
            lambda tx, claimed=claimed: endings.fail(
                tx, claimed, error="ValueError: no such invoice", base_s=900, chance=0
            )  # type: ignore[misc]
        )
    return event_id


def _conflict(book: Ledger, event_id: int) -> int:
    book.accept(received("evt_1042", CHANGED))
    return int(book.value("SELECT id FROM nottwice.conflicts WHERE event_id = :id", id=event_id))


def _quarantine(book: Ledger) -> tuple[int, int]:
    items: list[Unusable] = [
        unusable(b'{"type": "invoice.paid", "id": null}', reason="It has no usable key."),
        unusable(bytes(range(256)) * 4, reason="It is not UTF-8 (byte 128)."),
    ]
    book.accept(*items)
    rows = book.rows("SELECT id FROM nottwice.quarantine ORDER BY octet_length(body)")
    return int(rows[0][0]), int(rows[1][0])


AGED = (
    "UPDATE nottwice.events SET accepted_at = now() - interval '8040 s', ended_at = now() - interval '8033.6 s' WHERE id = :id",
    """UPDATE nottwice.duplicates SET first_seen_at = now() - interval '8037 s', last_seen_at = now() - interval '8010 s'
       WHERE event_id = :id""",
    """UPDATE nottwice.event_attempts SET claimed_at = now() - interval '8039.8 s', ended_at = now() - interval '8038.4 s'
       WHERE event_id = :id""",
    """UPDATE nottwice.conflicts SET first_seen_at = now() - interval '7200 s', last_seen_at = now() - interval '7200 s'
       WHERE event_id = :id""",
)


def _aged(house: House, event_id: int) -> None:
    """What was done just now was done two hours ago, in some seconds."""
    for sql in AGED:
        house.run(sql, id=event_id)
