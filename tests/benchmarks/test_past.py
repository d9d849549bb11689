"""What the benchmarks about time and interruption stand on, at a scale of seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from ledger import work
from ledger.database import Database, Transaction, connect_options
from ledger.events.claiming import CLAIM
from ledger.events.front import EVERYWHERE, Front, kinds
from ledger.records import Worker
from tests.benchmarks import claim_flat, held, past, recovery
from tests.fix_worker import Workshop

SHAPE = """
SELECT pg_get_indexdef(i.indexrelid) AS made, i.indisvalid AS valid FROM pg_index i
WHERE i.indrelid = 'nottwice.events'::regclass ORDER BY 1
"""


@pytest.fixture
def owner(database: Database) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(**connect_options(database.engine.url), autocommit=True) as connection:
        yield connection


def test_a_past_has_what_a_ledger_has_and_claims_go_on_upon_it(
    workshop: Workshop, owner: psycopg.Connection[Any], login_url: Callable[[str], str]
) -> None:
    shape, said = workshop.rows(SHAPE), list[str]()
    past.fill(owner, 300, said.append, chunk=200)
    assert workshop.rows(SHAPE) == shape and all(row.valid for row in shape), "every index is there again"
    assert said[:1] and "200 of 300 events" in said and "300 of 300 events" in said
    assert workshop.states() == ["completed"] * 300
    assert workshop.value("SELECT count(*) FROM nottwice.event_contents") == 300
    assert workshop.value(
        "SELECT max(accepted_at) <= now() AND count(DISTINCT accepted_at) = 300 FROM nottwice.events"
    )
    assert workshop.value("SELECT current_setting('session_replication_role') = 'origin'")
    receiver = Database(login_url("nottwice_receiver"), pool_size=1)
    worker = Database(workshop.url, pool_size=1)
    assert claim_flat.round_of_claims(receiver, worker, claims=3, group=4) > 0
    assert workshop.states() == ["completed"] * 312
    for opened in (receiver, worker):
        opened.close()


def test_a_transaction_held_open_keeps_what_is_dead(
    workshop: Workshop, owner: psycopg.Connection[Any]
) -> None:
    other = psycopg.connect(**connect_options(workshop.database.engine.url), autocommit=True)
    with held.held_open(other) as pid:
        workshop.accept(*["sale"] * 5)
        workshop.run("UPDATE nottwice.events SET version = version + 1")
        told: list[str] = []
        owner.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        owner.execute(b"VACUUM (VERBOSE) nottwice.events")
        assert "5 are dead but not yet removable" in "".join(told)
        assert workshop.value(
            "SELECT backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = :pid", pid=pid
        )
    assert other.closed


def test_a_claim_from_its_front_reads_no_more_while_a_transaction_is_held_open(workshop: Workshop) -> None:
    """Without the front, the last claim walks over what all others left."""
    who = Worker(uuid4(), "w", (("shop", "sale"),))
    front = Front(who, clock=lambda: 0.0)
    with held.held_open(psycopg.connect(**connect_options(workshop.database.engine.url), autocommit=True)):
        fill_pending(workshop, 1_000)
        for _ in range(18):
            front.move(
                workshop.database.run(lambda tx: work.claim(tx, who, limit=50, lease_s=60.0, front=front)), 50
            )
        from_front = entries_read(workshop, front.ranges())
        from_the_beginning = entries_read(workshop, kinds(who.handles) | EVERYWHERE)
    assert from_front == 10 and from_the_beginning > 900


def fill_pending(workshop: Workshop, number: int) -> None:
    workshop.run(
        """INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest)
           SELECT 'acme', 'shop', 'sale', 'w' || n, sha256(CAST('w' || n AS bytea)) FROM generate_series(1, :n) AS n""",
        n=number,
    )
    workshop.run("INSERT INTO nottwice.event_contents (event_id, body) SELECT id, '{}' FROM nottwice.events")


def entries_read(workshop: Workshop, where: dict[str, Any]) -> int:
    """Of the index of what is pending, dead ones included, by one claim of ten; it is rolled back."""
    how = {"worker": uuid4(), "lease_s": 60.0, "attempts_max": 5, "alone": False, "limit": 10}
    read = [0]
    with workshop.database.engine.connect() as connection:
        tx = Transaction(connection)
        for _ in range(2):  # the first makes the plan, and looks into the index for that
            assert len(tx.all(CLAIM, **how, **where)) == 10
            row = tx.one("SELECT pg_stat_get_xact_tuples_returned('nottwice.events_pending'::regclass) AS n")
            read.append(int(row.n))  # of this connection, what was rolled back included
            connection.rollback()
    return read[-1] - read[-2]


def samples(*per_tenth: int) -> list[recovery.Sample]:
    """What was completed by then, every tenth of a second."""
    return [(number / 10, sum(per_tenth[: number + 1])) for number in range(len(per_tenth))]


def test_a_rate_is_of_a_whole_second() -> None:
    assert recovery.rates(samples(*[50] * 11)) == [500.0]
    assert recovery.rates(samples(*[50] * 10)) == []


def test_full_rate_begins_with_the_first_second_that_has_it() -> None:
    before = 500.0
    climbing = samples(*[0] * 12, *[50] * 8)
    assert recovery.begins_full(climbing, before) is None
    at, rate = recovery.begins_full(samples(*[0] * 12, *[50] * 9), before) or (0.0, 0.0)
    assert at == pytest.approx(1.0) and rate == pytest.approx(450)
