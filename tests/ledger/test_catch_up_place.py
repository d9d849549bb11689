"""Where a listing that was stopped goes on: each message is counted once, also those of one moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ledger.catch_up.place import Place

SINCE = datetime(2026, 11, 30, 6, tzinfo=UTC)
LATER, LATEST = SINCE + timedelta(minutes=1), SINCE + timedelta(minutes=2)


def test_what_was_dealt_with_is_behind_and_its_neighbour_of_the_same_moment_is_not() -> None:
    first = Place(SINCE)
    assert first.is_ahead(SINCE, "a") and first.is_ahead(SINCE), "the first moment is asked for"
    assert not first.is_ahead(SINCE - timedelta(microseconds=1), "z"), (
        "listed because it was asked for with room"
    )
    first.go_past([(SINCE, "a"), (LATER, "b"), (LATER, "c")])
    again = Place(SINCE, first.kept())
    assert again.goes_on and again.start == LATER
    assert [again.is_ahead(at, one) for at, one in ((SINCE, "a"), (LATER, "b"), (LATER, "c"))] == [False] * 3
    assert again.is_ahead(LATER, "d") and again.is_ahead(LATEST, "b")
    again.go_past([(LATER, "d")])
    third = Place(SINCE, again.kept())
    assert not any(third.is_ahead(LATER, one) for one in "bcd"), "nothing of the moment is forgotten"


def test_what_is_no_mail_is_counted_when_the_place_passes_it() -> None:
    place = Place(SINCE)
    assert place.has_passed(SINCE) and not place.has_passed(LATER)
    place.go_past([(LATER, "a")])
    assert place.has_passed(LATER) and not place.has_passed(LATEST) and place.has_passed(None)
    again = Place(SINCE, place.kept())
    assert not again.is_ahead(LATER) and again.is_ahead(LATEST) and again.is_ahead(None)


def test_a_list_that_is_not_in_order_has_no_place() -> None:
    place = Place(SINCE)
    place.go_past([(LATEST, "a"), (LATER, "b")])
    assert place.kept() is None and place.is_ahead(LATER, "b")


def test_a_place_that_was_kept_without_ids_goes_on_too() -> None:
    place = Place(SINCE, {"newest": LATER.isoformat()})
    assert place.is_ahead(LATER, "a") and not place.is_ahead(SINCE, "a")
