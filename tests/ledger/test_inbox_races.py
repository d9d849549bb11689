"""Accept under pressure: the same event at the same instant, batches in opposite order, a database that says again."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from itertools import cycle, islice
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import inbox
from ledger.database import TRIES_MAX, sqlstate
from ledger.records import Acceptance, AcceptanceKind, Delivery, digest_of
from tests.fix_events import WAIT_S, Crowd, Ledger, delivery, unusable, writers

ROUNDS = 50
ACCEPTED, DUPLICATE = AcceptanceKind.ACCEPTED, AcceptanceKind.DUPLICATE


def kinds(answers: list[list[Acceptance] | Exception]) -> Counter[AcceptanceKind]:
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return Counter(one.kind for answer in answers if not isinstance(answer, Exception) for one in answer)


def test_inb_01_copies_at_the_same_instant_are_one_event(many: Ledger, crowd: Callable[[int], Crowd]) -> None:
    copies = 50
    together, ids = crowd(copies), writers(copies)
    for turn in range(ROUNDS):

        def accept(n: int, turn: int = turn) -> list[Acceptance]:
            one = delivery(f"evt_{turn}", delivery_id=f"d{n}")
            return many.database.run(lambda tx: inbox.accept(tx, [one], writer=ids[n]))

        answers = together.at_once([lambda n=n: accept(n) for n in range(copies)])
        assert kinds(answers) == {ACCEPTED: 1, DUPLICATE: copies - 1}
    assert many.value("SELECT count(*) FROM nottwice.events") == ROUNDS
    assert many.value("SELECT sum(deliveries) FROM nottwice.duplicates") == ROUNDS * (copies - 1)
    assert many.value("SELECT sum(n) FROM nottwice.counters WHERE metric = 'duplicate'") == ROUNDS * (
        copies - 1
    )


def test_inb_01_distinct_events_mixed_with_copies(many: Ledger, crowd: Callable[[int], Crowd]) -> None:
    together, same = crowd(50), [delivery("same")] * 25
    batches = [[one, delivery(f"own {n}")] for n, one in enumerate([*same, *same])]
    assert kinds(together.at_once([lambda b=b: many.accept(*b) for b in batches])) == {
        ACCEPTED: 51,
        DUPLICATE: 49,
    }


def test_one_occurrence_under_many_keys_at_the_same_instant(
    many: Ledger, crowd: Callable[[int], Crowd]
) -> None:
    together = crowd(20)
    for turn in range(ROUNDS):
        same = digest_of(str(turn))
        batch = [delivery(f"{turn} {n}", occurrence_digest=same) for n in range(20)]
        assert kinds(together.at_once([lambda d=d: many.accept(d) for d in batch])) == {
            ACCEPTED: 1,
            DUPLICATE: 19,
        }
    assert many.value("SELECT count(*) FROM nottwice.events") == ROUNDS


def test_contents_that_race_for_one_key_are_one_event_and_a_conflict_each(
    many: Ledger, crowd: Callable[[int], Crowd]
) -> None:
    """Whoever is first stays; every other content is kept once, and every sender is told that it is safe."""
    together, contents = crowd(12), [b"one", b"two", b"three"]
    for turn in range(ROUNDS):
        batch = [delivery(f"evt_{turn}", body=contents[n % 3], delivery_id=f"d{n}") for n in range(12)]
        answers = together.at_once([lambda d=d: many.accept(d) for d in batch])
        assert kinds(answers) == {ACCEPTED: 1, DUPLICATE: 3, AcceptanceKind.CONFLICT: 8}
    kept = many.rows(
        """SELECT count(DISTINCT body), sum(c.deliveries) FROM (
               SELECT event_id, body, 4 AS deliveries FROM nottwice.event_contents
               UNION ALL SELECT event_id, body, deliveries FROM nottwice.conflicts) c GROUP BY event_id"""
    )
    assert kept == [(3, 12)] * ROUNDS
    assert many.value("SELECT count(*) FROM nottwice.conflicts") == 2 * ROUNDS


def shuffled(turn: int, n: int) -> list[Delivery]:
    """Ten keys of a round, every batch beginning elsewhere and half of them walking backwards."""
    keys = list(islice(cycle(range(10)), n, n + 10))
    return [delivery(f"{turn} {key}") for key in (keys if n % 2 else reversed(keys))]


def test_batches_in_opposite_order_do_not_deadlock(many: Ledger, crowd: Callable[[int], Crowd]) -> None:
    """Without the retry of `run`, so that a deadlock would show. The second half of the rounds meets only duplicates.

    Half of them look first whether everything stands already, as a receiver does in a storm of retries.
    """
    together = crowd(8)

    def accept(turn: int, n: int) -> list[Acceptance]:
        items = [*shuffled(turn, n), *(unusable(b"%d" % k) for k in islice(cycle(range(5)), n, n + 5))]
        with many.database.transaction() as tx:
            return tx.asked(inbox.accepting(items, writer=ids[n], nothing_new=n % 4 > 1))

    ids = writers(8)
    for turn in [*range(ROUNDS // 2)] * 2:
        answers = together.at_once([lambda turn=turn, n=n: accept(turn, n) for n in range(8)])
        assert [answer for answer in answers if isinstance(answer, Exception)] == []
    assert many.value("SELECT count(*) FROM nottwice.events") == 10 * ROUNDS // 2


def test_occurrences_that_cross_the_order_of_keys_are_tried_again(
    many: Ledger, crowd: Callable[[int], Crowd]
) -> None:
    """Two unique keys cannot both be sorted: here a deadlock is possible, and `run` takes it."""
    together = crowd(2)
    for turn in range(ROUNDS):
        one, two = digest_of(f"{turn} one"), digest_of(f"{turn} two")
        low, high = sorted((digest_of(f"{turn} a"), digest_of(f"{turn} b")))
        batches = [
            [
                delivery("x", key_digest=low, occurrence_digest=one),
                delivery("x", key_digest=high, occurrence_digest=two),
            ],
            [
                delivery("x", key_digest=low[:-1] + b"!", occurrence_digest=two),
                delivery("x", key_digest=high[:-1] + b"!", occurrence_digest=one),
            ],
        ]
        assert kinds(together.at_once([lambda b=b: many.accept(*b) for b in batches])) == {
            ACCEPTED: 2,
            DUPLICATE: 2,
        }


def test_a_rolled_back_first_is_not_acknowledged_to_the_second(
    many: Ledger, crowd: Callable[[int], Crowd]
) -> None:
    """Of two deliveries the first inserts and fails; the second waits for it and must become the event."""
    inserted = threading.Event()

    def failing() -> None:
        with many.database.transaction() as tx:
            inbox.accept(tx, [delivery("a")], writer=uuid4())
            inserted.set()
            many.until_somebody_waits()
            raise RuntimeError

    def second() -> list[Acceptance]:
        inserted.wait(WAIT_S)
        return many.accept(delivery("a"))

    failed, answers = crowd(2).at_once([failing, second])
    assert isinstance(failed, RuntimeError)
    assert isinstance(answers, list) and answers[0].kind is ACCEPTED
    assert many.value("SELECT count(*) FROM nottwice.events") == 1


# The first `times` statements of a kind on a table fail; a sequence counts, because no rollback takes it back.
AGAIN = """
CREATE SEQUENCE public.tries;
CREATE FUNCTION public.not_yet() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('public.tries') <= {times} THEN
        RAISE EXCEPTION 'not yet' USING ERRCODE = '{code}';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER not_yet AFTER {deed} ON nottwice.{table} FOR EACH STATEMENT EXECUTE FUNCTION public.not_yet();
"""


def say_again(book: Ledger, deed: str, table: str, times: int, code: str = "40001") -> None:
    """Let the database refuse so many times."""
    with book.database.transaction() as tx:
        tx.connection.exec_driver_sql(AGAIN.format(deed=deed, table=table, times=times, code=code))


@pytest.mark.parametrize("code", ["40001", "40P01"])
@pytest.mark.parametrize(
    ("table", "times"), [("events", 3), ("counters", 4)], ids=["events", "counters"]
)  # what was accepted and what was quarantined are counted one after the other
def test_dbx_03_accept_goes_through_on_the_third_try(book: Ledger, table: str, times: int, code: str) -> None:
    say_again(book, "INSERT", table, 2, code)
    assert [one.kind for one in book.accept(delivery("a"), unusable(b"x"))] == [
        ACCEPTED,
        AcceptanceKind.QUARANTINED,
    ]
    assert book.value("SELECT count(*) FROM nottwice.events") == 1
    assert book.value("SELECT sum(n) FROM nottwice.counters") == 2
    assert book.value("SELECT last_value FROM public.tries") == times


def test_dbx_03_accept_gives_up_cleanly(book: Ledger) -> None:
    say_again(book, "INSERT", "events", 1000)
    with pytest.raises(DBAPIError) as caught:
        book.accept(delivery("a"))
    assert sqlstate(caught.value) == "40001"
    assert book.value("SELECT last_value FROM public.tries") == TRIES_MAX
    assert book.value("SELECT count(*) FROM nottwice.counters") == 0


def test_a_receiver_that_holds_a_key_stops_exactly_its_copies(
    many: Ledger, crowd: Callable[[int], Crowd]
) -> None:
    """What the side lane relies on. The holder keeps its key until the other two have ended."""
    free, over = threading.Event(), threading.Barrier(2)

    def hold() -> None:
        with many.database.transaction() as tx:
            inbox.accept(tx, [delivery("held")], writer=many.writer)
            free.set()
            over.wait(WAIT_S)

    def impatient(key: str) -> list[Acceptance]:
        with many.database.transaction() as tx:
            tx.execute("SET LOCAL lock_timeout = '50ms'")
            return inbox.accept(tx, [delivery(key)], writer=uuid4())  # as each connection has its own

    def try_both() -> str | None:
        free.wait(WAIT_S)
        try:
            assert impatient("free")[0].kind is ACCEPTED
            with pytest.raises(DBAPIError) as caught:
                impatient("held")
            return sqlstate(caught.value)
        finally:
            over.wait(WAIT_S)

    _, code = crowd(2).at_once([hold, try_both])
    assert code == "55P03"
