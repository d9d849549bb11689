"""Events with one ordering key: one at a time, in the order in which they were accepted."""

from __future__ import annotations

from typing import Any

from ledger.records import digest_of
from tests.fix_events import Ledger, delivery


def lane(name: str) -> bytes:
    return digest_of("ordering", name)


def in_lane(name: str, *keys: str, **changes: Any) -> list[Any]:
    return [delivery(key, ordering_digest=lane(name), **changes) for key in keys]


# ── Acceptance ────────────────────────────────────────────────────────────────────────────────────────


def test_ids_follow_the_arrival_within_a_batch_too(book: Ledger) -> None:
    """Rows are written in the order of their keys; a lane's order must not be that of a digest."""
    keys = [f"k{n}" for n in range(40)]
    ids = [answer.event_id for answer in book.accept(*in_lane("a", *keys))]
    assert ids == sorted(ids, key=lambda id_: id_ or 0)
    rows = book.rows("SELECT event_key, ordering_digest FROM nottwice.events ORDER BY id")
    assert [key for key, _ in rows] == keys
    assert {bytes(digest) for _, digest in rows} == {lane("a")}


def test_an_event_without_an_ordering_key_has_no_lane(book: Ledger) -> None:
    (event_id,) = book.stored("a")
    assert book.event(event_id).ordering_digest is None
