"""Accept: one durable row per logical event, and what else arrived kept beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from ledger import inbox
from ledger.database import Database, Transaction
from ledger.database.asking import Asking, statement
from ledger.digests import KEY_RULE
from ledger.errors import Unavailable
from ledger.inbox import standing
from ledger.records import AcceptanceKind, digest_of
from ledger.views import event as views_event
from tests.fix_events import Ledger, delivery, unusable, worker

ACCEPTED, DUPLICATE = AcceptanceKind.ACCEPTED, AcceptanceKind.DUPLICATE
NOT_COMPARED = AcceptanceKind.NOT_COMPARED
CONFLICT, QUARANTINED = AcceptanceKind.CONFLICT, AcceptanceKind.QUARANTINED


def counted(book: Ledger) -> dict[str, int]:
    return {
        metric: int(n)
        for metric, n in book.rows("SELECT metric, sum(n) FROM nottwice.counters GROUP BY metric")
    }


def test_stores_exactly_what_arrived(book: Ledger) -> None:
    at = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    sent = delivery(
        "evt_1", body=b'{"n": "\xf0\x9f\x8e\x89",  "x":1}', occurred_at=at, content_type="text/plain"
    )
    (answer,) = book.accept(sent)
    assert answer.kind is ACCEPTED and answer.event_id
    row = book.event(answer.event_id)
    assert (row.namespace, row.source, row.type, row.event_key) == ("acme", "shop", "invoice.paid", "evt_1")
    assert bytes(row.key_digest) == sent.key_digest and bytes(row.content_digest) == sent.content_digest
    assert (row.state, row.attempts, row.delivery_id, row.occurred_at) == ("pending", 0, sent.delivery_id, at)
    contents = book.rows(
        "SELECT content_type, body FROM nottwice.event_contents WHERE event_id = :id", id=row.id
    )
    assert contents == [("text/plain", sent.body)]
    assert counted(book) == {"accepted": 1}


def test_same_event_again_is_a_duplicate_and_its_row_is_not_touched(book: Ledger) -> None:
    (first,) = book.accept(delivery("evt_1"))
    before = book.value("SELECT xmin::text || ctid::text FROM nottwice.events")
    for _ in range(3):
        assert book.accept(delivery("evt_1", delivery_id="second")) == [replace(first, kind=DUPLICATE)]
    assert book.accept(delivery("evt_1", delivery_id="third")) == [replace(first, kind=DUPLICATE)]
    assert book.value("SELECT xmin::text || ctid::text FROM nottwice.events") == before
    assert book.rows("SELECT delivery_id, deliveries FROM nottwice.duplicates ORDER BY 1") == [
        ("second", 3),
        ("third", 1),
    ]
    assert counted(book) == {"accepted": 1, "duplicate": 4}


def test_same_event_twice_in_one_batch(book: Ledger) -> None:
    answers = book.accept(delivery("a"), delivery("b"), delivery("a", delivery_id="again"), delivery("a"))
    assert [answer.kind for answer in answers] == [ACCEPTED, ACCEPTED, DUPLICATE, DUPLICATE]
    assert answers[2].event_id == answers[0].event_id == answers[3].event_id
    assert book.value("SELECT sum(deliveries) FROM nottwice.duplicates") == 2


def test_the_first_of_a_batch_stays_and_the_other_content_is_a_conflict(book: Ledger) -> None:
    answers = book.accept(delivery("a", body=b"one"), delivery("a", body=b"two"))
    assert [answer.kind for answer in answers] == [ACCEPTED, CONFLICT]
    assert book.value("SELECT body FROM nottwice.event_contents") == b"one"
    assert book.value("SELECT body FROM nottwice.conflicts") == b"two"


def test_namespaces_and_types_keep_events_apart(book: Ledger) -> None:
    answers = book.accept(
        delivery("a"),
        delivery("a", namespace="other"),
        delivery("a", type="invoice.void", key_digest=digest_of("shop", "invoice.void", "a")),
    )
    assert [answer.kind for answer in answers] == [ACCEPTED] * 3


def test_another_content_is_kept_once_however_often_it_arrives(book: Ledger) -> None:
    (first,) = book.accept(delivery("a", body=b"one"))
    for _ in range(2):
        answers = book.accept(
            delivery("a", body=b"two"), delivery("a", body=b"two"), delivery("a", body=b"three")
        )
        assert {(answer.kind, answer.event_id) for answer in answers} == {(CONFLICT, first.event_id)}
    kept = book.rows("SELECT body, deliveries FROM nottwice.conflicts ORDER BY deliveries")
    assert kept == [(b"three", 2), (b"two", 4)]
    assert book.accept(delivery("a", body=b"one"))[0].kind is DUPLICATE
    assert book.value("SELECT body FROM nottwice.event_contents") == b"one"
    assert counted(book) == {"accepted": 1, "conflict": 6, "duplicate": 7}


def test_other_bytes_with_the_same_content_are_no_conflict(book: Ledger) -> None:
    first = delivery("a", body=b'{"x": 1, "attempt": 1}')
    book.accept(first)
    assert book.accept(replace(first, body=b'{"x": 1, "attempt": 2}'))[0].kind is DUPLICATE


def test_a_content_that_is_gone_cannot_be_compared(book: Ledger) -> None:
    (first,) = book.accept(delivery("a", body=b"one"))
    book.run("UPDATE nottwice.events SET content_digest = NULL")
    for _ in range(2):
        assert book.accept(delivery("a", body=b"two")) == [replace(first, kind=NOT_COMPARED)]
    assert book.rows("SELECT FROM nottwice.conflicts") == []
    assert book.rows("SELECT deliveries, not_compared FROM nottwice.duplicates") == [(2, 2)]
    assert counted(book) == {"accepted": 1, "duplicate": 2}
    story = book.database.run(lambda tx: views_event.story(tx, first.event_id or 0))
    assert story is not None and (story.duplicates, story.not_compared) == (2, 2)


def test_digests_of_other_rules_cannot_be_compared(book: Ledger) -> None:
    """After a release that changed them, a retry of an older event is no conflict."""
    (first,) = book.accept(delivery("a", body=b"one", key_rule=KEY_RULE))
    assert book.value("SELECT key_rule FROM nottwice.events") == KEY_RULE
    later = delivery("a", body=b"two", key_rule=KEY_RULE + 1)
    same = replace(later, content_digest=delivery("a", body=b"one").content_digest)
    assert [one.kind for one in book.accept(later, same)] == [NOT_COMPARED, DUPLICATE]
    assert book.accept(replace(later, key_rule=KEY_RULE)) == [replace(first, kind=CONFLICT)]


def test_a_hit_on_the_occurrence_is_a_duplicate_whatever_it_looks_like(book: Ledger) -> None:
    occurrence = digest_of("message.received", "inbox", "message")
    (first,) = book.accept(delivery("evt_1", occurrence_digest=occurrence))
    found_again = delivery("found by listing", body=b"another form", occurrence_digest=occurrence)
    assert book.accept(found_again, found_again) == [replace(first, kind=DUPLICATE)] * 2
    assert book.value("SELECT count(*) FROM nottwice.events") == 1
    assert book.rows("SELECT FROM nottwice.conflicts") == []


def test_a_delivery_that_meets_two_events_belongs_to_its_key(book: Ledger) -> None:
    one, two = digest_of("one"), digest_of("two")
    first, _ = book.accept(delivery("a", occurrence_digest=one), delivery("b", occurrence_digest=two))
    assert book.accept(delivery("a", occurrence_digest=two)) == [replace(first, kind=DUPLICATE)]


def test_one_occurrence_under_two_keys_in_one_batch_is_one_event(book: Ledger) -> None:
    one = digest_of("one")
    answers = book.accept(delivery("a", occurrence_digest=one), delivery("b", occurrence_digest=one))
    assert sorted(answer.kind for answer in answers) == [ACCEPTED, DUPLICATE]
    assert answers[0].event_id == answers[1].event_id


def test_an_ignored_type_is_completed_on_arrival(book: Ledger) -> None:
    (answer,) = book.accept(delivery("a", ignored=True))
    assert answer.kind is ACCEPTED and answer.event_id
    row = book.event(answer.event_id)
    assert (row.state, row.ending, row.due_at) == ("completed", "ignored", None) and row.ended_at
    assert book.claim(worker()) == []
    assert book.accept(delivery("a", ignored=True))[0].kind is DUPLICATE


def test_unusable_elements_are_kept_once_and_do_not_hold_up_their_neighbours(book: Ledger) -> None:
    batch = (delivery("a"), unusable(b"x"), unusable(b"x", index=1), delivery("b"), unusable(b"x"))
    kinds = [answer.kind for answer in book.accept(*batch)]
    assert kinds == [ACCEPTED, QUARANTINED, QUARANTINED, ACCEPTED, QUARANTINED]
    assert [answer.kind for answer in book.accept(*batch)][:2] == [DUPLICATE, QUARANTINED]
    kept = book.rows(
        "SELECT source, element, reason, body, deliveries FROM nottwice.quarantine ORDER BY element"
    )
    assert kept == [("shop", 0, "It has no key.", b"x", 4), ("shop", 1, "It has no key.", b"x", 2)]
    assert counted(book)["quarantined"] == 6


def test_nothing_is_a_batch_too(book: Ledger) -> None:
    assert book.accept() == []


NASTY = "a\x00b\ud800c\udfff"


def test_what_text_cannot_hold_is_made_visible(book: Ledger) -> None:
    sent = delivery("k", event_key=NASTY, type=NASTY, delivery_id=NASTY, content_type=NASTY)
    first, second, third = book.accept(sent, sent, unusable(b"x", reason=NASTY))
    assert (first.kind, second.kind, third.kind) == (ACCEPTED, DUPLICATE, QUARANTINED)
    row, visible = book.event(first.event_id or 0), "a⟨U+0000⟩b⟨U+D800⟩c⟨U+DFFF⟩"
    assert row.type == row.delivery_id == row.event_key == visible
    assert book.value("SELECT content_type FROM nottwice.event_contents") == visible
    assert book.value("SELECT reason FROM nottwice.quarantine") == visible
    assert bytes(row.key_digest) == sent.key_digest


@pytest.mark.parametrize("length", [2_600, 2_700, 4_000, 8_200, 300_000])
def test_key_12_a_very_long_id_of_random_text(book: Ledger, length: int) -> None:
    """A repeated letter would compress, and hide what an index cannot hold. The same for everything a stranger names."""
    text = "".join(uuid4().hex for _ in range(length // 32 + 1))[:length]
    sent = delivery(text, type=text, delivery_id=text, content_type=text)
    (first,), again = book.accept(sent), book.accept(sent, replace(sent, body=b"2", content_digest=b"2"))
    assert [first.kind, *(answer.kind for answer in again)] == [ACCEPTED, DUPLICATE, CONFLICT]
    assert book.event(first.event_id or 0).event_key == text


def test_a_storm_of_delivery_ids_is_counted_without_a_row_each(
    book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "DELIVERY_IDS_MAX", 5)
    book.accept(delivery("a"))
    book.accept(*(delivery("a", delivery_id=f"d{n}") for n in range(3)))
    book.accept(*(delivery("a", delivery_id=f"d{n}") for n in range(20)))
    book.accept(*(delivery("a", delivery_id=f"d{n}") for n in range(30)))
    rows = dict(book.rows("SELECT delivery_id, deliveries FROM nottwice.duplicates"))
    assert len(rows) <= 6 and sum(rows.values()) == 53
    assert rows["d0"] == rows["d1"] == rows["d2"] == 3


@pytest.mark.parametrize("size", [1, 200])
def test_the_number_of_statements_does_not_grow_with_the_batch(database: Database, size: int) -> None:
    batch = [delivery(f"k{n}") for n in range(size)]
    batch += [replace(one, content_digest=b"other") for one in batch]
    statements = 0

    def run(tx: Transaction) -> None:
        nonlocal statements

        class Counting(Transaction):
            def execute(self, sql: object, /, **values: object) -> object:  # type: ignore[override]
                nonlocal statements
                statements += 1
                return super().execute(sql, **values)  # type: ignore[arg-type]

            def straight(self, sql: str, /, **values: object) -> list[tuple[object, ...]]:
                nonlocal statements
                statements += 1
                return super().straight(sql, **values)

        inbox.accept(
            Counting(tx.connection), [*batch, *(unusable(b"x%d" % n) for n in range(size))], writer=uuid4()
        )

    database.run(run)
    assert statements == 5


def test_even_a_duplicate_writes_something(book: Ledger) -> None:
    """Else its acknowledgement would not wait for a synchronous standby."""
    book.accept(delivery("a"))

    def wrote(tx: Transaction) -> bool:
        inbox.accept(tx, [delivery("a")], writer=book.writer)
        return bool(tx.one("SELECT pg_current_xact_id_if_assigned() IS NOT NULL AS wrote").wrote)

    assert book.database.run(wrote)


def test_a_failed_transaction_leaves_nothing_behind(book: Ledger) -> None:
    def failing(tx: Transaction) -> None:
        inbox.accept(tx, [delivery("a"), unusable(b"x")], writer=book.writer)
        raise RuntimeError("the process has second thoughts")

    with pytest.raises(RuntimeError):
        book.database.run(failing)
    tables = ("events", "event_contents", "quarantine", "counters")
    assert [book.value(f"SELECT count(*) FROM nottwice.{table}") for table in tables] == [0] * 4
    assert book.accept(delivery("a"))[0].kind is ACCEPTED


def test_neither_inserted_nor_found_is_inserted_again_and_not_for_ever(
    book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that vanishes between the two statements: the first look is made to find nothing."""
    book.accept(delivery("a"))
    looks = 0
    note = inbox.noting

    def blind_once(waiting: inbox.Waiting, writer: UUID) -> Asking[inbox.Answers]:
        nonlocal looks
        looks += 1
        if looks == 1:
            yield statement("DELETE FROM nottwice.event_contents")
            yield statement("DELETE FROM nottwice.events")
            return {}
        return (yield from note(waiting, writer))

    def blind(waiting: inbox.Waiting, writer: UUID) -> Asking[inbox.Answers]:
        yield statement("SELECT")
        return {}

    monkeypatch.setattr(inbox, "noting", blind_once)
    assert book.accept(delivery("a"))[0].kind is ACCEPTED
    assert looks == 1
    monkeypatch.setattr(inbox, "noting", blind)
    with pytest.raises(Unavailable, match="Nothing was stored"):
        book.accept(delivery("a"))


def test_lane_keys_name_what_a_lock_is_about() -> None:
    one, same, other = delivery("a"), delivery("a", body=b"other"), delivery("b")
    assert inbox.lane_key(one) == inbox.lane_key(same) != inbox.lane_key(other)
    assert inbox.lane_key(one) != inbox.lane_key(replace(one, namespace="elsewhere"))
    assert inbox.lane_key(unusable(b"x")) != inbox.lane_key(unusable(b"x", index=1))


def test_the_receivers_login_may_do_all_of_it(login_url: Callable[[str], str]) -> None:
    book = Ledger(Database(login_url("nottwice_receiver")))
    for _ in range(2):
        book.accept(delivery("a"), delivery("a", body=b"2"), unusable(b"x"), delivery("b", ignored=True))
    book.database.close()
