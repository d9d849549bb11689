"""The page about order: its handler is run as it stands there, against a real database."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger import work
from ledger.records import ClaimedEvent
from tests.docs.book import blocks
from tests.fix_events import Ledger, delivery, worker
from worker.handlers import Handlers

PAGE = Path(__file__).parents[2] / "docs" / "order.md"
UPDATED, DELETED = "subscription.updated", "subscription.deleted"
W = worker(("billing", UPDATED), ("billing", DELETED))
START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def handlers(book: Ledger) -> Handlers:
    """The page's own, with its table."""
    text = {block.language: block.text for block in blocks(PAGE)}
    book.run(text["sql"])
    module: dict[str, Handlers] = {}
    exec(compile(text["python"], PAGE.name, "exec"), module)
    return module["handlers"]


def happened(book: Ledger, key: str, minute: int, status: str, type_: str = UPDATED) -> None:
    body = b'{"subscription": {"id": "s1", "status": "%s"}}' % status.encode()
    at = START + timedelta(minutes=minute)
    book.accept(delivery(key, source="billing", type=type_, body=body, occurred_at=at))


def works(book: Ledger, handlers: Handlers, one: ClaimedEvent) -> None:
    def run(tx: object) -> None:
        assert work.complete(tx, [one.lease], writer=book.writer)  # type: ignore[arg-type]
        handlers.find(one.event).commit(tx, one.event, None, lambda *_: None)  # type: ignore[arg-type]

    book.database.run(run)


def status(book: Ledger) -> str:
    return str(book.value("SELECT status FROM subscriptions WHERE id = 's1'"))


@pytest.mark.parametrize("places", list(itertools.permutations(range(3))), ids=str)
def test_whatever_comes_first_the_latest_stays(
    book: Ledger, handlers: Handlers, places: tuple[int, ...]
) -> None:
    told = [(1, "trial"), (2, "active"), (3, "past_due")]
    for place in places:
        happened(book, f"e{place}", *told[place])
        works(book, handlers, book.claim_one(W))
    assert status(book) == "past_due"


def test_of_two_of_one_time_the_later_accepted_stays_and_the_same_one_passes_again(
    book: Ledger, handlers: Handlers
) -> None:
    happened(book, "e1", 1, "trial")
    happened(book, "e2", 1, "active")
    first, second = book.claim(W)
    works(book, handlers, second)
    works(book, handlers, first)
    assert status(book) == "active"
    book.run("UPDATE subscriptions SET status = 'by hand'")
    recompute = "UPDATE nottwice.events SET state = 'pending', ending = NULL, ended_at = NULL, due_at = now(), mode = 'recompute'"
    book.run(recompute)
    for one in book.claim(W):
        works(book, handlers, one)
    assert status(book) == "active"


@pytest.mark.parametrize(("minute", "stays"), [(0, "active"), (1, "deleted"), (2, "deleted")])
def test_a_decision_in_python_follows_the_same_rule(
    book: Ledger, handlers: Handlers, minute: int, stays: str
) -> None:
    happened(book, "e1", 1, "active")
    happened(book, "e2", minute, "gone", DELETED)
    for one in book.claim(W):
        works(book, handlers, one)
    assert status(book) == stays
