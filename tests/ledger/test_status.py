"""The numbers that monitoring reads, after real acceptances, claims and actions."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from ledger import actions, inbox, views, work, workers
from ledger.database import Database, Transaction
from ledger.figures import refusals
from ledger.figures.refusals import Refusal
from ledger.records import Delivery, Email, KindRules, Proposal, Unusable, Worker, digest_of
from ledger.views.status import status

WORKER = Worker(uuid4(), "w-1", (("shop", "paid"), ("shop", "refunded")))
WRITER = uuid4()
MEMBERS = [
    *("events", "actions", "oldest_pending_s", "expired_leases", "unhandled"),
    *("duplicates", "conflicts", "quarantined", "workers", "receivers", "refused", "messages", "endpoints"),
]


def delivery(key: str, *, type_: str = "paid", body: bytes = b"{}", ignored: bool = False) -> Delivery:
    return Delivery("acme", "shop", type_, key, digest_of(key), body, digest_of(body), ignored=ignored)


def accept(tx: Transaction, *items: Delivery | Unusable) -> None:
    inbox.accept(tx, items, writer=WRITER)


def propose(tx: Transaction, key: str, *, approval: bool = False) -> None:
    rules = KindRules(kind="receipt", provider="inboxili", account="inboxili", approval=approval)
    email = Email(to=("a@example.com",), subject="Paid", text="Thank you")
    actions.propose(tx, Proposal("acme", key, rules, email.content(), email.to))


def test_an_empty_ledger_is_all_zeros(database: Database) -> None:
    with database.transaction() as tx:
        found = status(tx)
    assert list(found) == MEMBERS
    assert list(found["events"]) == ["pending", "processing", "completed", "failed"]
    assert set(found["actions"]) == {
        *(
            "proposed",
            "approved",
            "sending",
            "needs_review",
            "sent",
            "refused",
            "failed",
            "declined",
            "closed",
        )
    }
    assert set(found.pop("messages").values()) == {0}
    assert found.pop("endpoints") == {"on": 0, "off": 0, "unanswered": 0}
    assert not any([*found["events"].values(), *found["actions"].values(), *list(found.values())[2:]])


def test_events_are_counted_where_they_stand(database: Database) -> None:
    with database.transaction() as tx:
        workers.register(tx, WORKER)
        accept(tx, *(delivery(f"k{n}") for n in range(6)), delivery("seen", type_="opened", ignored=True))
        done, retried, broken = work.claim(tx, WORKER, limit=3, lease_s=30)
        work.complete(tx, [done.lease], writer=WRITER)
        work.retry_later(tx, retried.lease, delay_s=60, error="busy")
        work.set_aside(tx, broken.lease, error="broken")
        work.claim(tx, WORKER, limit=1, lease_s=30)
        found = status(tx)
    assert found["events"] == {"pending": 3, "processing": 1, "completed": 2, "failed": 1}
    assert found["workers"] == 1


def test_what_came_again_is_counted_since_the_beginning(database: Database) -> None:
    with database.transaction() as tx:
        accept(tx, delivery("k"), delivery("k"), delivery("k"), delivery("k", body=b"other"))
        accept(tx, Unusable("acme", "shop", 0, "no key", b"?"))
        found = status(tx)
    # A delivery with other content is a duplicate of its key as well.
    assert (found["duplicates"], found["conflicts"], found["quarantined"]) == (3, 1, 1)


def test_folded_minutes_still_count(database: Database) -> None:
    with database.transaction() as tx:
        accept(tx, delivery("k"), delivery("k"))
        tx.execute(
            "INSERT INTO nottwice.counters_hourly VALUES (date_trunc('hour', now()), 'acme', 'duplicate', 7)"
        )
        assert status(tx)["duplicates"] == 8


def test_waiting_is_counted_from_when_it_was_due_and_only_where_somebody_handles_it(
    database: Database,
) -> None:
    with database.transaction() as tx:
        workers.register(tx, WORKER)
        accept(tx, delivery("mine"), delivery("nobodys", type_="opened"), delivery("later", type_="refunded"))
        put_back(tx, "mine", 90)
        put_back(tx, "nobodys", 500)
        put_back(tx, "later", -500)
        found = status(tx)
    assert 90 <= found["oldest_pending_s"] < 400
    assert found["unhandled"] == 1
    assert found["events"]["pending"] == 3


def test_work_that_waits_for_the_first_worker_is_seen_to_wait(database: Database) -> None:
    with database.transaction() as tx:
        accept(tx, delivery("k"))
        put_back(tx, "k", 90)
        found = status(tx)
    assert found["oldest_pending_s"] >= 90 and found["unhandled"] == 0


def test_workers_without_any_handler_handle_nothing(database: Database) -> None:
    """As its page says of each event then; a house that was started without handlers shall hear of it."""
    with database.transaction() as tx:
        workers.register(tx, Worker(uuid4(), "w-1", ()))
        accept(tx, delivery("k"))
        put_back(tx, "k", 90)
        found, seen = status(tx), views.snapshot(tx, silent_s=60)
    assert (found["unhandled"], found["oldest_pending_s"]) == (1, 0)
    assert (seen.unhandled, seen.oldest_pending_s) == (1, 0)


def test_a_lease_that_ran_out_is_counted_for_both(database: Database) -> None:
    with database.transaction() as tx:
        accept(tx, delivery("k"))
        propose(tx, "a")
        work.claim(tx, WORKER, limit=1, lease_s=30)
        actions.claim(tx, WORKER, ["inboxili"], lease_s=30)
        assert status(tx)["expired_leases"] == 0
        for table in ("events", "actions"):
            tx.execute(
                f"UPDATE nottwice.{table} SET lease_until = now() - interval '1 second', version = version + 1"
            )
        assert status(tx)["expired_leases"] == 2


def test_actions_are_counted_by_state(database: Database) -> None:
    with database.transaction() as tx:
        propose(tx, "waits", approval=True)
        propose(tx, "goes")
        propose(tx, "goes too")
        actions.claim(tx, WORKER, ["inboxili"], lease_s=30)
        tx.execute(
            "UPDATE nottwice.actions SET state = 'declined', settled_at = now(), version = version + 1 WHERE state = 'proposed'"
        )
        found = status(tx)["actions"]
    assert {state: n for state, n in found.items() if n} == {"approved": 1, "sending": 1, "declined": 1}


def test_a_silent_or_stopped_worker_is_not_alive(database: Database) -> None:
    with database.transaction() as tx:
        silent, stopped = Worker(uuid4(), "silent"), Worker(uuid4(), "stopped")
        for worker in (WORKER, silent, stopped):
            workers.register(tx, worker)
        workers.stop(tx, stopped.id)
        tx.execute(
            """UPDATE nottwice.workers SET started_at = now() - interval '1 h', seen_at = now() - interval '61 s'
               WHERE name = 'silent'"""
        )
        assert status(tx)["workers"] == 1
        assert status(tx, worker_silent_s=120)["workers"] == 2


def test_a_worker_that_was_killed_and_started_again_is_one(database: Database) -> None:
    """Until it counts as silent, a killed one would be counted beside the one in its place."""
    with database.transaction() as tx:
        for second in (3, 2, 1):
            workers.register(tx, Worker(uuid4(), "worker-1"))
            tx.execute(
                "UPDATE nottwice.workers SET seen_at = now() - make_interval(secs => :s)", s=second + 1
            )
            tx.execute(
                "UPDATE nottwice.workers SET started_at = now() - make_interval(secs => :s) WHERE started_at = now()",
                s=second,
            )
        workers.register(tx, Worker(uuid4(), "worker-2"))
        workers.register(tx, Worker(uuid4(), "worker-1"))
        workers.register(tx, Worker(uuid4(), "worker-1"), host="another")
        assert status(tx)["workers"] == 3


@pytest.mark.parametrize("login", ["nottwice_worker", "postgres"])
def test_monitoring_needs_no_more_than_a_workers_login(login_url: Callable[[str], str], login: str) -> None:
    database = Database(login_url(login))
    with database.transaction() as tx:
        assert status(tx)["workers"] == 0
    database.close()


def test_nothing_reads_the_history_of_events(database: Database) -> None:
    """Ten thousand completed events: the plan touches the table by its partial indexes alone."""
    from ledger.views.status import SQL

    with database.transaction() as tx:
        tx.execute(
            """INSERT INTO nottwice.events (namespace, source, type, event_key, key_digest, state, ending, due_at, ended_at)
               SELECT 'acme', 'shop', 'paid', n::text, sha256(n::text::bytea), 'completed', 'done', NULL, now()
               FROM generate_series(1, 10000) n"""
        )
        tx.execute("ANALYZE nottwice.events")
        plan = "\n".join(row[0] for row in tx.all("EXPLAIN " + SQL, silent=60))
    assert "Seq Scan on events" not in plan, plan


def test_the_front_door_is_seen(database: Database) -> None:
    with database.transaction() as tx:
        workers.register(tx, Worker(uuid4(), "receiver-1"), kind="receiver")
        workers.register(tx, Worker(silent := uuid4(), "receiver-2"), kind="receiver")
        tx.execute("UPDATE nottwice.workers SET seen_at = now() - interval '61 s' WHERE id = :id", id=silent)
        for source, reason in (
            ("shop", Refusal.BAD_SIGNATURE),
            ("mail", Refusal.BAD_SIGNATURE),
            ("shop", Refusal.TOO_LARGE),
        ):
            refusals.add(tx, WRITER, {(source, reason): 2})
        found = status(tx)
    assert (found["workers"], found["receivers"]) == (0, 1)
    assert found["refused"] == {"bad_signature": 4, "too_large": 2}


def put_back(tx: Transaction, key: str, seconds: float) -> None:
    tx.execute(
        """UPDATE nottwice.events SET due_at = now() - make_interval(secs => :seconds), version = version + 1
           WHERE event_key = :key""",
        key=key,
        seconds=seconds,
    )
