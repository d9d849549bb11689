"""The duties nobody waits for: each at its time, none in another's way, and none undoing what came first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from ledger import actions, audit, work, workers
from ledger.actions import answers
from ledger.database import Database
from ledger.records import Act, AttemptRef, Role, Unknown, Worker
from ledger.sign_in import people
from tests.fix_worker import SWEEP_S, WITHIN_S, Notes, Workshop
from worker.maintenance import Duty, Maintenance

WORKER = Worker(uuid4(), "gone", (("shop", "sale"),))


def told(workshop: Workshop) -> frozenset[str]:
    """What an idle worker hears."""
    heard = workshop.database.run(lambda tx: workers.wait_for_work(tx, (), (), patience_s=0, pause_s=0.01))
    return heard.duties


@pytest.fixture
def maintenance(workshop: Workshop) -> Iterator[Maintenance]:
    database = Database(workshop.url, pool_size=2)
    yield Maintenance(database, workshop.settings().worker)
    database.close()


def expire(workshop: Workshop, limit: int = 50) -> None:
    """Claims that nobody renews any more."""
    workshop.database.run(lambda tx: work.claim(tx, WORKER, limit=limit, lease_s=30))
    workshop.run("UPDATE nottwice.events SET lease_until = now() - interval '1 s' WHERE state = 'processing'")


def test_expired_work_goes_back_and_the_rescue_is_counted(
    workshop: Workshop, maintenance: Maintenance, notes: Notes
) -> None:
    (event,) = workshop.accept("sale")
    expire(workshop)
    maintenance.run_due()
    (row,) = workshop.rows("SELECT state, alone, attempts FROM nottwice.events")
    assert tuple(row) == ("pending", True, 1)
    assert notes.of("rescued", event_id=event, state="pending")
    assert workshop.value("SELECT sum(n) FROM nottwice.counters WHERE metric = 'rescued'") == 1


def test_a_sweep_takes_all_there_is_not_only_a_batch(
    workshop: Workshop, maintenance: Maintenance, notes: Notes
) -> None:
    workshop.accept(*["sale"] * 250)
    expire(workshop, limit=250)
    maintenance.sweep()
    assert notes.of("duty failed") == []
    assert workshop.value("SELECT count(*) FROM nottwice.events WHERE state = 'pending'") == 250


def test_after_an_outage_living_workers_come_first(workshop: Workshop, maintenance: Maintenance) -> None:
    """The last sweep is long past: for one lease nobody is rescued."""
    workshop.accept("sale")
    maintenance.sweep()
    expire(workshop)
    workshop.run("UPDATE nottwice.maintenance SET last_at = now() - interval '1 hour' WHERE duty = 'sweep'")
    maintenance.sweep()
    assert workshop.states() == ["processing"]
    workshop.run("UPDATE nottwice.maintenance SET resume_at = now() WHERE duty = 'sweep'")
    maintenance.sweep()
    assert workshop.states() == ["pending"]


def test_trouble_with_events_does_not_keep_actions_from_their_rescue(
    workshop: Workshop, maintenance: Maintenance, notes: Notes, propose_one: Callable[..., int]
) -> None:
    action = propose_one()
    workshop.accept("sale")
    expire(workshop)
    workshop.database.run(lambda tx: actions.claim(tx, WORKER, ["post"], lease_s=30))
    workshop.run("UPDATE nottwice.actions SET lease_until = now() - interval '1 s'")
    workshop.run(
        """CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'the disk is full' USING ERRCODE = '53100'; END $$"""
    )
    workshop.run(
        "CREATE TRIGGER t BEFORE INSERT ON nottwice.event_attempts FOR EACH ROW EXECUTE FUNCTION public.refuse()"
    )
    maintenance.run_due()
    assert notes.of("duty failed", duty="rescue events")
    assert notes.of("rescued", action_id=action, state="approved")


def test_an_action_whose_time_ended_goes_where_its_history_says_though_nobody_claims_it(
    workshop: Workshop, maintenance: Maintenance, notes: Notes, propose_one: Callable[..., int]
) -> None:
    """Its account is paused, or no sender runs: the sweep puts it before a person, or gives it up."""
    uncertain, in_time, untried = (propose_one(f"receipt:{n}") for n in range(3))
    for action in (uncertain, in_time):
        attempt = _started(workshop, action)
        workshop.database.run(
            lambda tx, a=attempt: answers.record_answer(tx, a, Unknown("no answer"), chance=0, writer=uuid4())
        )  # type: ignore[misc]
    _aged(workshop, uncertain, "first_started_at", 86_400 - 900)
    workshop.run(
        "UPDATE nottwice.action_attempts SET started_at = started_at - interval '24 h' WHERE action_id = :id",
        id=uncertain,
    )
    _aged(workshop, untried, "retry_until", 30 * 86_400)
    maintenance.run_due()
    states = {row.id: row.state for row in workshop.rows("SELECT id, state FROM nottwice.actions")}
    assert states == {uncertain: "needs_review", in_time: "approved", untried: "failed"}
    assert notes.of("expired", action_id=uncertain, state="needs_review")
    assert notes.of("expired", action_id=untried, state="failed") and len(notes.of("expired")) == 2


def _started(workshop: Workshop, action: int) -> AttemptRef:
    claimed = workshop.database.run(lambda tx: actions.claim(tx, WORKER, ["post"], lease_s=30))
    assert claimed is not None and claimed.lease.action_id == action
    return workshop.database.run(lambda tx: actions.start(tx, claimed.lease))


def _aged(workshop: Workshop, action: int, column: str, seconds: float) -> None:
    """What time does to one of an action's times."""
    workshop.run(
        f"UPDATE nottwice.actions SET {column} = {column} - make_interval(secs => :s) WHERE id = :id",
        s=seconds,
        id=action,
    )


def test_seals_are_written_soon_after_the_ledger_told_of_some(
    workshop: Workshop, maintenance: Maintenance
) -> None:
    def act(tx: object) -> None:
        person = people.person(tx, "test", "ada", "Ada", "ada@example.com", Role.ENGINEER)  # type: ignore[arg-type]
        audit.refused(tx, Act(person, uuid4(), "why"), "try again", "event", 1, "no")  # type: ignore[arg-type]

    seal = next(duty for duty in maintenance.duties if duty.name == "seal")
    assert seal.every_s <= SWEEP_S and seal.if_told
    for sealed in (1, 2):
        workshop.database.run(act)
        deadline = time.monotonic() + WITHIN_S
        # A transaction that runs anywhere on the server, as in another test's database, holds the seals back.
        while workshop.value("SELECT count(*) FROM nottwice.audit_seals") < sealed:
            assert time.monotonic() < deadline
            maintenance.run_due(told(workshop))
            threading.Event().wait(0.02)


def test_every_duty_has_its_turn_though_the_first_one_fails(maintenance: Maintenance, notes: Notes) -> None:
    done: list[str] = []

    def fails() -> None:
        raise ZeroDivisionError

    maintenance.duties = [
        Duty("first", 60, fails),
        Duty("second", 60, lambda: done.append("second")),
        Duty("third", 0, lambda: done.append("third"), if_told=True),
    ]
    for heard in (None, frozenset[str](), frozenset({"third"}), frozenset({"first", "second"})):
        maintenance.run_due(heard)
    assert done == ["second", "third", "third"]
    assert len(notes.of("duty failed", duty="first", error="ZeroDivisionError")) == 1


def test_what_can_wait_comes_after_what_waits_in_the_ledger_but_not_for_ever(
    maintenance: Maintenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a start it is due like the others; while there is work it is late by its own period, or two seconds."""
    now, done = [1000.0], list[str]()
    monkeypatch.setattr("worker.maintenance.clock", lambda: now[0])
    maintenance.duties = [
        Duty("hourly", 3600, lambda: done.append("hourly"), can_wait=True, since=now[0]),
        Duty("first", 7200, lambda: done.append("first"), since=now[0]),
        Duty("often", 1, lambda: done.append("often"), can_wait=True, since=now[0]),
    ]

    def at(seconds: float, *, busy: bool) -> list[str]:
        done.clear()
        now[0] = 1000.0 + seconds
        maintenance.run_due(busy=busy)
        return done

    assert at(0, busy=True) == ["first"]
    assert at(0.1, busy=False) == ["hourly", "often"]
    assert at(2.0, busy=True) == [] and at(2.2, busy=True) == ["often"]
    assert at(3602.0, busy=True) == ["often"] and at(3602.2, busy=True) == ["hourly"]
    assert at(3603.3, busy=False) == ["often"]


def test_a_completion_that_came_first_is_not_undone(workshop: Workshop, maintenance: Maintenance) -> None:
    """Lesson 2: the sweep and a late completion, again and again; a finished row is never opened again."""
    workshop.accept(*["sale"] * 40)
    claimed = workshop.database.run(lambda tx: work.claim(tx, WORKER, limit=40, lease_s=30))
    workshop.run("UPDATE nottwice.events SET lease_until = now() - interval '1 s'")
    late = Database(workshop.url, pool_size=1)
    ended: set[int] = set()

    def complete() -> None:
        for one in claimed:
            ended.update(
                lease.event_id
                for lease in late.run(lambda tx, one=one: work.complete(tx, [one.lease], writer=uuid4()))  # type: ignore[misc]
            )

    racing = threading.Thread(target=complete)
    racing.start()
    while racing.is_alive():
        workshop.database.run(lambda tx: work.rescue(tx, limit=1))
    racing.join()
    late.close()
    rows = workshop.rows("SELECT id, state FROM nottwice.events")
    assert {row.id for row in rows if row.state == "completed"} == ended
    assert {row.state for row in rows} <= {"completed", "pending", "processing"}
