"""A batch in which everything stands already: what becomes of it is the same, whatever was expected of it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from ledger import inbox
from ledger.database import Transaction
from ledger.receiver.scribe import MANY, Scribe
from ledger.records import Acceptance, AcceptanceKind, Delivery, Unusable, digest_of
from tests.fix_events import Ledger, delivery, unusable

ACCEPTED, DUPLICATE = AcceptanceKind.ACCEPTED, AcceptanceKind.DUPLICATE
SEEN, WRITER = digest_of("seen"), uuid4()

STANDING = [
    delivery("a"),
    delivery("b", occurrence_digest=SEEN),
    delivery("gone"),
    delivery("c", namespace="n2"),
]
AGAIN: list[Delivery | Unusable] = [
    delivery("a", delivery_id="2"),
    delivery("a", delivery_id="2"),
    delivery("a", delivery_id="3", body=b"other", content_digest=b"other"),
    delivery("c", namespace="n2", delivery_id="2"),
    delivery("found again", occurrence_digest=SEEN, delivery_id="2"),
    delivery("gone", delivery_id="2"),
    unusable(b"x"),
]
NEW: list[Delivery | Unusable] = [
    delivery("d"),
    delivery("d", delivery_id="2"),
    delivery("e", delivery_id="2"),
]

KEPT = {
    "events": "SELECT namespace, event_key, version FROM nottwice.events",
    "duplicates": """SELECT e.event_key, d.delivery_id, d.deliveries, d.not_compared FROM nottwice.duplicates d
                     JOIN nottwice.events e ON e.id = d.event_id""",
    "conflicts": "SELECT body, deliveries FROM nottwice.conflicts",
    "quarantine": "SELECT body, deliveries FROM nottwice.quarantine",
    "counters": "SELECT namespace, metric, sum(n) FROM nottwice.counters GROUP BY 1, 2",
}
NUMBERED = "SELECT last_value FROM nottwice.events_id_seq"


def stood(tx: Transaction, items: list[Delivery | Unusable], *, nothing_new: bool) -> list[Acceptance]:
    return tx.asked(inbox.accepting(items, writer=WRITER, nothing_new=nothing_new))


class Undone(Exception):
    """Takes back what was only tried."""


def told(book: Ledger, batch: list[Delivery | Unusable], *, nothing_new: bool) -> dict[str, list[Any]]:
    """What the batch became, and everything that is then kept; nothing of it is committed."""
    found: dict[str, list[Any]] = {}
    with suppress(Undone), book.database.transaction() as tx:
        standing = inbox.accept(tx, STANDING, writer=WRITER)
        tx.execute("UPDATE nottwice.events SET content_digest = NULL WHERE event_key = 'gone'")
        names = {answer.event_id: item.event_key for answer, item in zip(standing, STANDING, strict=True)}
        answers = stood(tx, batch, nothing_new=nothing_new)
        found["answers"] = [(one.kind, names.get(one.event_id, "new")) for one in answers]
        found |= {what: sorted(tuple(row) for row in tx.all(sql)) for what, sql in KEPT.items()}
        raise Undone
    return found


@pytest.mark.parametrize(
    "batch",
    [AGAIN, [*AGAIN, *NEW], [*NEW, *AGAIN], NEW],
    ids=["again", "again and new", "new and again", "new"],
)
def test_a_wrong_guess_changes_nothing(book: Ledger, batch: list[Delivery | Unusable]) -> None:
    """Answers, rows and figures are those of a batch of which nothing was expected."""
    expected = told(book, batch, nothing_new=False)
    assert len(expected) == 1 + len(KEPT)
    assert told(book, batch, nothing_new=True) == expected


def test_a_look_that_finds_something_new_holds_nothing(book: Ledger) -> None:
    """Rows of what stands, locked before others are inserted: two receivers would meet in different order."""
    book.accept(*STANDING)

    def look(tx: Transaction) -> tuple[list[Any], bool]:
        sql, values = next(inbox.accepting([*AGAIN, *NEW], writer=WRITER, nothing_new=True))
        rows = tx.straight(sql, **values)
        return rows, bool(
            tx.one("SELECT pg_current_xact_id_if_assigned() IS NULL AS wrote_nothing").wrote_nothing
        )

    assert book.database.run(look) == ([], True)


def test_what_all_stands_is_not_inserted_in_vain(book: Ledger) -> None:
    """To insert what is refused costs half of all: it is tried only when something may be new."""
    book.accept(*STANDING)
    before = book.value(NUMBERED)
    answers = book.database.run(lambda tx: stood(tx, AGAIN, nothing_new=True))
    assert [one.kind for one in answers][:2] == [DUPLICATE] * 2
    assert book.value(NUMBERED) == before
    book.database.run(lambda tx: stood(tx, AGAIN, nothing_new=False))
    assert book.value(NUMBERED) > before


def test_a_storm_of_retries_is_met_by_looking_first(book: Ledger) -> None:
    """After a batch of which nothing was new, and until something is; a few are no storm."""
    batch = [delivery(f"k{n}") for n in range(MANY)]
    news = [replace(one, key_digest=digest_of("new", one.event_key)) for one in batch]
    few = [delivery("k0")] * (MANY - 1)
    took = told_of(book, [batch, batch, batch, news, news, few, few])
    assert [kinds for kinds, _ in took] == [
        {ACCEPTED},
        {DUPLICATE},
        {DUPLICATE},
        {ACCEPTED},
        *[{DUPLICATE}] * 3,
    ]
    assert [numbers > 0 for _, numbers in took] == [True, True, False, True, True, False, True]


def told_of(book: Ledger, batches: list[list[Delivery]]) -> list[tuple[set[AcceptanceKind], int]]:
    """What became of each batch, and how many numbers of new events it took."""

    async def each() -> list[tuple[set[AcceptanceKind], int]]:
        told = []
        with closing(Scribe(book.database, lock_wait_s=10.0, statement_s=40.0)) as scribe:
            for batch in batches:
                before = book.value(NUMBERED)
                kinds = {answer.kind for answer in await scribe.store(batch)}
                told.append((kinds, book.value(NUMBERED) - before))
        return told

    with ThreadPoolExecutor(1) as beside:  # a browser's test before this one may have left a loop here
        return beside.submit(lambda: asyncio.run(each())).result()
