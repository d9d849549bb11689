"""Fifty rounds behind a barrier for whoever can meet in one lane."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import uuid4

import pytest
from sqlalchemy.exc import IntegrityError

from ledger import work
from ledger.database import Transaction
from ledger.records import ClaimedEvent
from tests.fix_events import WAIT_S, Crowd, Ledger, worker
from tests.ledger.test_order import ids_of, in_lane, lane, stored

ROUNDS = 50
W = worker()
Crowds = Callable[[int], Crowd]


def claimed_by(results: list[list[ClaimedEvent] | Exception]) -> list[ClaimedEvent]:
    assert [one for one in results if isinstance(one, Exception)] == []
    return [one for result in results if isinstance(result, list) for one in result]


def test_claims_at_once_take_the_first_of_a_lane_and_it_alone(many: Ledger, crowd: Crowds) -> None:
    together, workers = crowd(6), [worker(name=str(n)) for n in range(6)]
    for turn in range(ROUNDS):
        ids = stored(many, f"{turn}", *(f"{turn} {n}" for n in range(3)))
        done = []
        while len(done) < len(ids):
            got = claimed_by(together.at_once([lambda w=w: many.claim(w, 3) for w in workers]))
            got = got or many.claim(W)  # who offered a row and did not take it had it locked for that moment
            assert len(got) == 1, "two of a lane at once"
            done += ids_of(got)
            many.complete(*got)
        assert done == ids


def test_a_completion_and_claims_at_once_lose_nobody(many: Ledger, crowd: Crowds) -> None:
    """However they meet, the next one is offered afterwards."""
    together = crowd(3)
    for turn in range(ROUNDS):
        _, second = stored(many, f"{turn}", f"{turn} 1", f"{turn} 2")
        one = many.claim_one(W)
        results = together.at_once(
            [lambda one=one: many.complete(one) and [], lambda: many.claim(W), lambda: many.claim(W)]
        )
        got = claimed_by(results) or many.claim(W)
        assert ids_of(got) == [second]
        many.complete(*got)


def test_a_retry_by_a_person_and_claims_at_once_run_one_at_a_time(many: Ledger, crowd: Crowds) -> None:
    """Here two claims may see a different first one; the referee lets one through, and the other one looks again."""
    together = crowd(4)
    for turn in range(ROUNDS):
        first, second = stored(many, f"{turn}", f"{turn} 1", f"{turn} 2")
        one = many.claim_one(W)
        many.database.run(lambda tx, one=one: work.set_aside(tx, one.lease, error="no"))

        def requeue(event_id: int = first) -> list[ClaimedEvent]:
            many.run(
                """UPDATE nottwice.events SET state = 'pending', due_at = now(), ended_at = NULL, attempts_max = 10
                   WHERE id = :id""",
                id=event_id,
            )
            return []

        done: list[int] = []
        got = claimed_by(together.at_once([requeue, *[lambda: many.claim(W)] * 3]))
        while len(done) < 2:
            assert len(got) <= 1, "two of a lane at once"
            done += ids_of(got)
            many.complete(*got)
            got = many.claim(W)
        assert sorted(done) == [first, second]


def test_deliveries_and_workers_at_once_keep_every_lane_in_order(many: Ledger, crowd: Crowds) -> None:
    """Two receivers, three workers, four lanes: what was done is in the order of acceptance, lane by lane."""
    together = crowd(5)
    many.run(
        "CREATE TABLE public.done (event_id bigint, lane bytea, place bigint GENERATED ALWAYS AS IDENTITY)"
    )

    def accepting(n: int) -> None:
        for turn in range(15):
            keys = [f"{n} {turn} {lane_}" for lane_ in range(4)]
            for lane_, key in enumerate(keys):
                many.accept(*in_lane(f"{lane_}", key))

    def working(w: int) -> None:
        ends_at = time.monotonic() + WAIT_S
        while left() or total() < 120:
            assert time.monotonic() < ends_at, "somebody waits for nobody"
            for one in many.claim(worker(name=str(w)), 3):
                many.database.run(lambda tx, one=one: handle(tx, one))

    def left() -> int:
        return int(many.value("SELECT count(*) FROM nottwice.events WHERE state <> 'completed'"))

    def total() -> int:
        return int(many.value("SELECT count(*) FROM nottwice.events"))

    def handle(tx: Transaction, one: ClaimedEvent) -> None:
        assert work.complete(tx, [one.lease], writer=uuid4()) == {one.lease}
        tx.execute(
            "INSERT INTO public.done SELECT id, ordering_digest FROM nottwice.events WHERE id = :id",
            id=one.event.id,
        )

    assert (
        together.at_once(
            [*[lambda n=n: accepting(n) for n in range(2)], *[lambda w=w: working(w) for w in range(3)]]
        )
        == [None] * 5
    )
    rows = many.rows("SELECT lane, event_id, place FROM public.done ORDER BY place")
    assert len(rows) == 120
    late = many.rows("SELECT id FROM nottwice.events WHERE overtaken_by IS NOT NULL")
    for name in "0123":
        order = [id_ for digest, id_, _ in rows if bytes(digest) == lane(name) and (id_,) not in late]
        assert order == sorted(order) and len(order) + len(late) >= 30


def test_the_referee_refuses_a_second_one_of_a_lane(many: Ledger) -> None:
    _, second = stored(many, "a", "k1", "k2")
    one = many.claim_one(W)
    with pytest.raises(IntegrityError, match="one_of_a_lane_at_a_time"):
        many.run(
            """UPDATE nottwice.events SET state = 'processing', due_at = NULL, attempts = 1, waits_behind = 0,
                      claim_token = gen_random_uuid(), claimed_by = gen_random_uuid(), claimed_at = now(), lease_until = now()
               WHERE id = :id""",
            id=second,
        )
    many.complete(one)
    assert ids_of(many.claim(W)) == [second]


def test_a_refused_claim_costs_its_neighbours_a_moment(many: Ledger) -> None:
    """The whole body is run again, and takes what the first try would have taken beside the lane."""
    stored(many, "a", "k1")
    free = many.stored("f1", "f2")
    tries = 0

    def claiming(tx: Transaction) -> list[ClaimedEvent]:
        nonlocal tries
        tries += 1
        got = work.claim(tx, W, limit=10, lease_s=30)
        if tries == 1:
            tx.execute("SELECT nottwice_test_refuse()")
        return got

    many.run(
        """CREATE FUNCTION nottwice_test_refuse() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
           RAISE unique_violation USING CONSTRAINT = 'one_of_a_lane_at_a_time'; END $$"""
    )
    got = many.database.run(claiming)
    assert tries == 2 and len(got) == 3 and set(free) < set(ids_of(got))
