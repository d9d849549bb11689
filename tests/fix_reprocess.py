"""Events that were worked once and are worked again: a shop whose handler writes a row and proposes a receipt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from ledger import audit, reprocess
from ledger.database import Database, Transaction
from ledger.errors import Declined
from ledger.records import Act, Email, Event, Person, Role, Worker
from ledger.records.reprocess import Asked, Plan, RunMode, Wanted
from ledger.reprocess import planning as reprocess_planning
from ledger.reprocess import requests as reprocess_requests
from ledger.reprocess import running as reprocess_running
from ledger.settings import processes as settings_processes
from ledger.sign_in import people
from worker.executor import Executor
from worker.handlers import Handlers, Propose
from worker.heartbeat import Heartbeat

if TYPE_CHECKING:  # pytest wants to be the first that imports a file of fixtures
    from tests.fix_worker import Workshop

POST = """
[providers.post]
kind = "agentmail"
base_url = "http://127.0.0.1:1"
key = "post-key"
window_s = 86400

[actions.receipt]
provider = "post"

[actions.welcome]
provider = "post"
once_ever = true
"""
SOONER = """
UPDATE nottwice.reprocess_runs SET next_at = next_at - greatest(interval '0', (
    SELECT min(next_at) FROM nottwice.reprocess_runs WHERE state = 'running') - now()) WHERE state = 'running'
"""
PACE = settings_processes.ReprocessSettings(pace_per_s=1000.0, under_way_max=20, second_person_above=10)


FOUND = (
    "SET LOCAL session_replication_role = replica",  # its run, its row and whoever asked are not what is looked at
    """INSERT INTO nottwice.reprocess_findings (row_id, namespace, event_id, found, kind, action_key, key_digest, about, content,
                                                recipients, subject, content_digest)
       VALUES (1, 'acme', 1, 'new', 'receipt', 'k', '', 'INV-1', 'text', '{ann@example.com}', 'Receipt', '')""",
)


def a_finding(database: Database) -> None:
    """What a handler proposed in some run."""
    database.run(lambda tx: [tx.execute(sql) for sql in FOUND] and None)


@dataclass
class Shop:
    """What the handler says and does can be changed between two runs: `text`, `keys`, `fails`, and `breaks` in the database."""

    workshop: Workshop
    by_console: Database
    by_worker: Database
    text: str = "Paid."
    keys: tuple[str, ...] = ("receipt:{id}",)
    kind: str = "receipt"
    fails: bool = False
    breaks: bool = False
    runs: list[tuple[int, str, int]] = field(default_factory=list)
    executor: Executor | None = None

    # ── Work ──────────────────────────────────────────────────────────────────────────────────────────

    def sell(self, n: int = 1, **more: Any) -> list[int]:
        """So many events, each worked for the first time: one effect and one action a key."""
        ids = self.workshop.accept(*["sale"] * n, **more)
        self.work_off()
        return ids

    def handle(self, tx: Transaction, event: Event, propose: Propose) -> None:
        self.runs.append((event.id, event.run.mode.value, event.run.number))
        tx.execute("INSERT INTO public.effects (what) VALUES (:what)", what=f"{self.text} {event.id}")
        for key in self.keys:
            propose(self.kind, key.format(id=event.id), self.email())
        if self.breaks:
            tx.execute("INSERT INTO public.effects (what) VALUES (NULL)")
        if self.fails:
            raise ValueError("the shop is on fire")

    def email(self) -> Email:
        return Email(("ann@example.com",), "Receipt", self.text, inbox="in-1", sender="in-1")

    def work_off(self) -> None:
        """Claim and work until nothing is due and nothing in hand."""
        executor = self.executor = self.executor or self._built()
        while executor.in_hand or executor.claim(idle=False):
            executor.wait(0.05)

    def _built(self) -> Executor:
        handlers = Handlers()
        handlers.apply("shop", "sale")(self.handle)
        worker = Worker(uuid4(), "live", handlers.kinds)
        settings = self.workshop.settings(more=POST, lease_s=9.0)
        heartbeat = Heartbeat(self.by_worker, worker, lease_s=9.0)
        executor = Executor(self.by_worker, settings, handlers, worker, heartbeat)
        executor.start()
        return executor

    def settle(self, state: str = "sent") -> None:
        """What is approved has gone its way."""
        self.workshop.run(
            "UPDATE nottwice.actions SET state = :state, due_at = NULL, settled_at = now(), version = version + 1 WHERE state = 'approved'",
            state=state,
        )

    # ── People ────────────────────────────────────────────────────────────────────────────────────────

    def person(self, role: Role = Role.ENGINEER, name: str = "") -> Person:
        called = name or role.value.capitalize()
        return self.by_console.run(
            lambda tx: people.person(
                tx, "local", called.lower(), called, f"{called.lower()}@example.com", role
            )
        )

    def plan(self, mode: RunMode = RunMode.RECOMPUTE, role: Role = Role.ENGINEER, **wanted: Any) -> Plan:
        return reprocess_planning.plan(self.by_console, Wanted(mode, **wanted), role, once_ever=("welcome",))

    def ask(self, plan: Plan, who: Person | None = None, why: str = "A rule was wrong.") -> Asked:
        who = who or self.person()
        act = Act(who, uuid4(), why)
        return self.by_console.run(
            lambda tx: reprocess_requests.request(tx, plan, act, PACE, expires_s=60.0), role=who.role
        )

    def recompute(self, *event_ids: int, mode: RunMode = RunMode.RECOMPUTE) -> int:
        return self.ask(self.plan(mode, event_ids=event_ids)).run_id

    def repeat(self, **chosen: Any) -> int:
        """Asked for by an engineer, agreed to by support."""
        asked = self.ask(self.plan(RunMode.REPEAT, **chosen))
        self.decide(reprocess.agree, asked.run_id, self.person(Role.SUPPORT))
        return asked.run_id

    def decide(self, what: Callable[[Transaction, int, Act], int], run_id: int, who: Person) -> int:
        act = Act(who, uuid4(), "I looked at the list.")
        return self.by_console.run(lambda tx: what(tx, run_id, act), role=who.role)

    def refused(self, what: Callable[[Transaction, int, Act], int], run_id: int, who: Person) -> str:
        with pytest.raises(Declined) as error:
            self.decide(what, run_id, who)
        return str(error.value)

    # ── Runs ──────────────────────────────────────────────────────────────────────────────────────────

    def turn(self, wait_s: float = 0.0) -> reprocess_running.Turn | None:
        """One worker's turn, at the time when the first run is due again."""
        rules = self.workshop.settings(more=POST).rules
        self.workshop.run(SOONER)
        return self.by_worker.run(lambda tx: reprocess_running.turn(tx, rules, wait_s=wait_s))

    def finish(self, run_id: int) -> list[tuple[str, str]]:
        """Turns and work in turn, until the run is over; its rows' states and reasons."""
        while self.state(run_id) == "running":
            self.turn()
            self.work_off()
        return self.rows(run_id)

    def state(self, run_id: int) -> str:
        return str(self.workshop.value("SELECT state FROM nottwice.reprocess_runs WHERE id = :id", id=run_id))

    def rows(self, run_id: int) -> list[tuple[str, str]]:
        sql = "SELECT state, reason FROM nottwice.reprocess_rows WHERE run_id = :id ORDER BY id"
        return [(row.state, row.reason) for row in self.workshop.rows(sql, id=run_id)]

    def event(self, event_id: int) -> Any:
        return self.workshop.rows("SELECT * FROM nottwice.events WHERE id = :id", id=event_id)[0]

    def actions(self) -> list[tuple[int, str, int, str]]:
        rows = self.workshop.rows(
            "SELECT id, action_key, generation, state FROM nottwice.actions ORDER BY id"
        )
        return [(row.id, row.action_key, row.generation, row.state) for row in rows]

    def entries(self, entity: audit.Entity) -> list[tuple[str, str, str | None, str | None]]:
        rows = self.workshop.rows(
            """SELECT a.act, p.name, a.state_before, a.state_after FROM nottwice.audit a JOIN nottwice.people p ON p.id = a.person_id
               WHERE a.entity = :entity ORDER BY a.id""",
            entity=entity,
        )
        return [(row.act, row.name, row.state_before, row.state_after) for row in rows]


@pytest.fixture
def shop(workshop: Workshop, opened_as: Callable[..., Database]) -> Shop:
    return Shop(workshop, *(opened_as(f"nottwice_{name}", pool_size=8) for name in ("console", "worker")))
