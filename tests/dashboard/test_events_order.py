"""What an event's page says about its order: whom it waits for, who was passed over, who overtook it."""

from __future__ import annotations

from dashboard.screens import events_story
from ledger import work
from ledger.records import ClaimedEvent
from ledger.views import event as views_event
from ledger.views.event import Story
from tests.fix_events import Ledger, worker
from tests.ledger.test_order import stored

W = worker()


def story(book: Ledger, event_id: int) -> Story:
    found = book.database.run(lambda tx: views_event.story(tx, event_id))
    assert found is not None
    return found


def set_aside(book: Ledger, one: ClaimedEvent) -> None:
    book.database.run(lambda tx: work.set_aside(tx, one.lease, error="no"))


def test_the_page_says_whom_it_waits_for_and_who_went_before(book: Ledger) -> None:
    first, second, third = stored(book, "a", "k1", "k2", "k3")
    one = book.claim_one(W)
    assert book.claim(W) == []
    assert events_story.lead(story(book, second)) == (
        f"It waits for event {first}, which has the same ordering key and goes first."
    )
    set_aside(book, one)
    book.complete(book.claim_one(W))
    assert events_story.order(story(book, second)) == f"Event {first} before it was set aside"
    assert events_story.order(story(book, first)) == ""
    assert events_story.lead(story(book, third)).startswith("The next free worker")
    book.run(
        "UPDATE nottwice.events SET state = 'pending', due_at = now(), ended_at = NULL WHERE id = :id",
        id=first,
    )
    book.complete(book.claim_one(W))
    assert events_story.order(story(book, first)) == f"Event {second} after it was done first"
