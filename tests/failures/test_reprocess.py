"""A whole chain worked again by real workers, one of them killed in the middle: what the sandbox accepted is the judge."""

from __future__ import annotations

import signal
from uuid import uuid4

from ledger import inbox, reprocess
from ledger.records import Act, Delivery, Person, Role, digest_of
from ledger.reprocess import RunMode, Wanted
from ledger.settings.processes import ReprocessSettings
from ledger.sign_in import people
from tests.failures.house import House, event, until

PACE = ReprocessSettings(pace_per_s=100.0)


def accepted(chain: House, type_: str) -> tuple[str, int]:
    key, body = event(type_)
    delivery = Delivery("acme", "shop", type_, key, digest_of(key), body, digest_of(body))
    (answer,) = chain.database.run(lambda tx: inbox.accept(tx, [delivery], writer=uuid4()))
    return key, answer.event_id or 0


def somebody(chain: House, role: Role) -> Person:
    return chain.database.run(lambda tx: people.person(tx, "local", role, role.title(), "", role))


def asked(chain: House, wanted: Wanted) -> int:
    """By an engineer, and where it takes a second person, agreed to by support."""
    engineer, support = somebody(chain, Role.ENGINEER), somebody(chain, Role.SUPPORT)
    plan = reprocess.plan(chain.database, wanted, engineer.role)
    act = Act(engineer, uuid4(), "A rule was wrong.")
    run = chain.database.run(
        lambda tx: reprocess.request(tx, plan, act, PACE, expires_s=60), role=engineer.role
    )
    if run.second_because:
        agreed = Act(support, uuid4(), "The customer asked.")
        chain.database.run(lambda tx: reprocess.agree(tx, run.run_id, agreed), role=support.role)
    return run.run_id


def is_done(chain: House, run_id: int) -> bool:
    return bool(chain.value("SELECT state = 'done' FROM nottwice.reprocess_runs WHERE id = :id", id=run_id))


def test_a_chain_is_worked_again_and_nothing_goes_out_but_what_two_people_chose(chain: House) -> None:
    """WRK-01 in a recompute: killed before its commit, done by the next one; then one mail more, by two people's word."""
    chain.sandbox()
    first = chain.worker(fault="worker.before_commit=kill@2")
    key, event_id = accepted(chain, "message.received")
    until(lambda: chain.action_state(key) == "sent")

    run = asked(chain, Wanted(RunMode.RECOMPUTE, (event_id,)))
    assert until(lambda: first.poll()) == -signal.SIGKILL
    assert chain.effects(key) == 1  # what it did went with it
    chain.worker()
    until(lambda: is_done(chain, run))
    assert chain.effects(key) == 2
    (row,) = chain.rows("SELECT state, found_same FROM nottwice.reprocess_rows")
    assert (row.state, row.found_same) == ("done", 1)
    assert len(chain.mails() or []) == 1

    (action,) = chain.rows("SELECT id FROM nottwice.actions")
    repeat = asked(chain, Wanted(RunMode.REPEAT, action_ids=(action.id,)))
    until(lambda: is_done(chain, repeat))
    chain.rows("UPDATE nottwice.actions SET due_at = now() WHERE state = 'approved' RETURNING id")  # not 15 s
    until(lambda: chain.value("SELECT count(*) FROM nottwice.actions WHERE state = 'sent'") == 2)
    again = chain.mails() or []
    assert len(again) == len({one["idempotency_key"] for one in again}) == 2
    assert chain.effects(key) == 2
