"""Runs in every state, asked for by the people of the console: sales worked out again, receipts that wait for a second person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from ledger import actions, reprocess
from ledger.records import Act, Person, Proposal, Role
from ledger.records.reprocess import RunMode, Wanted
from ledger.settings.processes import ReprocessSettings
from ledger.sign_in import people
from tests.fix_events import Ledger, worker
from tests.fix_record import PEOPLE
from tests.fix_seed import RECEIPT, House, mail

SOURCE, TYPE = "tills", "sale.closed"
RULES = ReprocessSettings(second_person_above=100)
# What the workers did of a run: so many done, left alone, failed and under way, in the order of its list.
CARRIED = """
UPDATE nottwice.reprocess_rows w SET state = p.state, reason = p.reason, began_at = now(),
       found_same = CASE WHEN p.state = 'done' THEN 1 ELSE 0 END,
       ended_at = CASE WHEN p.state IN ('done', 'skipped', 'failed') THEN now() END
FROM unnest(CAST(:states AS text[]), CAST(:reasons AS text[])) WITH ORDINALITY AS p(state, reason, place),
     (SELECT id, row_number() OVER (ORDER BY id) AS place FROM nottwice.reprocess_rows WHERE run_id = :run) AS l
WHERE l.place = p.place AND w.id = l.id
"""
OVER = "UPDATE nottwice.reprocess_runs SET state = 'done', next_at = NULL, ended_at = now(), version = version + 1 WHERE id = :run"
FAR = "UPDATE nottwice.reprocess_runs SET next_at = now() + interval '1 day' WHERE id = :run"
WHY_FAILED = "ValueError: the article A-17 has no tax rate"


@dataclass(frozen=True)
class Reruns:
    """Numbers of runs by their state, and of the events behind them."""

    events: tuple[int, ...]
    done: int
    running: int
    waiting: int


def sold(house: House, n: int, *, first: int = 2040) -> tuple[int, ...]:
    """Sales that are done, each with a receipt that went out; numbered from `first` on."""
    book, one = Ledger(house.db), worker((SOURCE, TYPE), name="w-77b1")
    house.run(
        "INSERT INTO nottwice.workers (id, name, handles) VALUES (:id, 'w-77b1', '{tills sale.closed}')",
        id=one.id,
    )
    ids = []
    for number in range(first, first + n):
        ids += book.stored(f"{TYPE} till-4-{number}", source=SOURCE, type=TYPE)
        claimed = book.claim_one(one)
        email = mail(f"customer{number - first}@example.com", f"Your receipt {number}")
        proposal = Proposal(
            "acme", f"till:{number}", RECEIPT, email.content(), email.to, f"sale {number}", event_id=claimed.event.id
        )  # fmt: skip
        book.database.run(lambda tx, proposal=proposal: actions.propose(tx, proposal))  # type: ignore[misc]
        book.complete(claimed)
    house.run(
        "UPDATE nottwice.actions SET state = 'sent', due_at = NULL, settled_at = now(), version = version + 1 WHERE event_id = ANY (:ids)",
        ids=ids,
    )
    return tuple(ids)


def reruns(house: House) -> Reruns:
    """One run of each sort; who asked is who may."""
    events = sold(house, 12)
    eva, ana = _person(house, "Eva"), _person(house, "Ana")
    done = asked(house, eva, "the tax rate of November was wrong", RunMode.RECOMPUTE, event_ids=events[:9])
    carried(house, done, ["done"] * 6 + ["skipped", "failed", "done"])
    house.run(OVER, run=done)
    running = asked(house, eva, "the discount was not booked", RunMode.RECOMPUTE, source=SOURCE, type=TYPE)
    carried(house, running, ["done"] * 5 + ["skipped", "working"])
    house.run(FAR, run=running)
    sends = tuple(row.id for row in _sends(house, events[:3]))
    waiting = asked(
        house, ana, "three customers wrote that they never got it", RunMode.REPEAT, action_ids=sends
    )
    return Reruns(events, done, running, waiting)


def asked(house: House, who: Person, why: str, mode: RunMode, **wanted: Any) -> int:
    plan = reprocess.plan(house.db, Wanted(mode, **wanted), who.role)
    act = Act(who, uuid4(), why)
    return house.db.run(lambda tx: reprocess.request(tx, plan, act, RULES, expires_s=14_400.0)).run_id


def carried(house: House, run: int, states: list[str]) -> None:
    reasons = {"skipped": "It is being worked now.", "failed": WHY_FAILED}
    house.run(CARRIED, run=run, states=states, reasons=[reasons.get(state, "") for state in states])


def _sends(house: House, events: tuple[int, ...]) -> Any:
    sql = "SELECT id FROM nottwice.actions WHERE event_id = ANY (:ids) ORDER BY id"
    return house.db.run(lambda tx: tx.all(sql, ids=list(events)))


def _person(house: House, short: str) -> Person:
    name, role = PEOPLE[short]
    email = f"{name.lower().replace(' ', '.')}@acme.example"
    return house.db.run(lambda tx: people.person(tx, people.LOCAL, email, name, email, Role(role)))
