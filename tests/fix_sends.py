"""Sends as the processes and people of a real installation make them: each under its own login and role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest

from ledger import actions
from ledger.actions import answers
from ledger.database import Database, Transaction
from ledger.records import (
    Accepted,
    Act,
    AttemptRef,
    ClaimedAction,
    Email,
    KindRules,
    Outcome,
    Person,
    Proposal,
    Role,
    Seen,
    Unknown,
    Worker,
)
from ledger.sign_in import people
from ledger.states import ActionState

T = TypeVar("T")
DAY_S = 86_400.0
KEYED = KindRules("reply", "agentmail", "agentmail", key_window_s=DAY_S, retry_for_s=30 * DAY_S)
KEYLESS = KindRules("receipt", "inboxili", "inboxili", retry_for_s=30 * DAY_S)
TO_APPROVE = replace(KEYED, approval=True)
EMAIL = Email(("ann@example.com",), "Your receipt", "Thank you.", sender="shop@example.org")
ACCEPTED = Accepted("<m-1@provider.example>")
UNKNOWN = Unknown("no answer within 5 s")
TIMES = {
    "actions": ("id", ("created_at", "first_started_at", "evidence_until", "review_since", "retry_until", "due_at")),
    "action_attempts": ("action_id", ("started_at", "answered_at", "abandoned_at")),
    "evidence": ("action_id", ("observed_at",)),
}  # fmt: skip


@dataclass
class Sends:
    """`by_worker` and `by_console` log in as those processes do; `by_owner` is for the test's own hands."""

    by_owner: Database
    by_worker: Database
    by_console: Database
    worker: Worker = field(default_factory=lambda: Worker(uuid4(), "w-1"))
    writer: UUID = field(default_factory=uuid4)

    # ── Processes ─────────────────────────────────────────────────────────────────────────────────────

    def proposed(self, rules: KindRules = KEYED, key: str = "", email: Email = EMAIL) -> int:
        proposal = Proposal(
            "acme", key or f"receipt:{uuid4().hex}", rules, email.content(), email.to, "INV-1"
        )
        return self.by_worker.run(lambda tx: actions.propose(tx, proposal)).action_id

    def claimed(self, *accounts: str, lease_s: float = 60.0, worker: Worker | None = None) -> ClaimedAction:
        taken = self.claim_or_none(*accounts, lease_s=lease_s, worker=worker)
        assert taken is not None
        return taken

    def claim_or_none(
        self, *accounts: str, lease_s: float = 60.0, worker: Worker | None = None
    ) -> ClaimedAction | None:
        among = accounts or ("agentmail", "inboxili")
        return self.by_worker.run(lambda tx: actions.claim(tx, worker or self.worker, among, lease_s=lease_s))

    def started(self, claimed: ClaimedAction) -> AttemptRef:
        return self.by_worker.run(lambda tx: actions.start(tx, claimed.lease))

    def answered(self, attempt: AttemptRef, outcome: Outcome, **more: float) -> ActionState:
        options: dict[str, Any] = {"chance": 0.5, "writer": self.writer, **more}
        return self.by_worker.run(lambda tx: answers.record_answer(tx, attempt, outcome, **options))

    def tried(self, action_id: int, outcome: Outcome | None = None) -> AttemptRef:
        """One attempt with its answer; None: its worker vanished and was swept after."""
        self.due_now(action_id)
        claimed = self.claimed(self.row(action_id).account)
        assert claimed.lease.action_id == action_id
        attempt = self.started(claimed)
        if outcome is None:
            self.run_out(action_id)
            self.by_worker.run(actions.rescue)
        else:
            self.answered(attempt, outcome)
        return attempt

    def uncertain(
        self, rules: KindRules = KEYLESS, outcome: Outcome | None = UNKNOWN, email: Email = EMAIL
    ) -> int:
        """A send on the desk, with the time for evidence behind it; a keyed one because its patience is over."""
        self.sql("DELETE FROM nottwice.provider_pauses")  # many doubts in a row would hold the account
        action_id = self.proposed(rules, email=email)
        self.tried(action_id, outcome)
        if self.state(action_id) is ActionState.APPROVED:
            self.sql("UPDATE nottwice.actions SET retry_until = now() WHERE id = :id", id=action_id)
            self.by_worker.run(actions.expire)
        self.sql("UPDATE nottwice.actions SET evidence_until = now() WHERE id = :id", id=action_id)
        assert self.state(action_id) is ActionState.NEEDS_REVIEW
        return action_id

    # ── Time and rows ─────────────────────────────────────────────────────────────────────────────────

    def sql(self, statement: str, **values: Any) -> None:
        self.by_owner.run(lambda tx: tx.execute(statement, **values) and None)

    def due_now(self, action_id: int) -> None:
        self.sql(
            "UPDATE nottwice.actions SET due_at = now() - interval '1 hour' WHERE id = :id AND state = 'approved'",
            id=action_id,
        )

    def run_out(self, action_id: int) -> None:
        """The lease ends now."""
        self.sql(
            "UPDATE nottwice.actions SET lease_until = now() - interval '1 ms' WHERE id = :id AND state = 'sending'",
            id=action_id,
        )

    def aged(self, action_id: int, seconds: float) -> None:
        """Moves all that happened to an action into the past: what time does to it."""
        for table, (column, times) in TIMES.items():
            sets = ", ".join(f"{t} = {t} - make_interval(secs => :s)" for t in times)
            self.sql(f"UPDATE nottwice.{table} SET {sets} WHERE {column} = :id", id=action_id, s=seconds)

    def row(self, action_id: int) -> Any:
        return self.by_owner.run(
            lambda tx: tx.one("SELECT * FROM nottwice.actions WHERE id = :id", id=action_id)
        )

    def rows(self, sql: str, **values: Any) -> list[Any]:
        return self.by_owner.run(lambda tx: list(tx.all(sql, **values)))

    def state(self, action_id: int) -> ActionState:
        return ActionState(self.row(action_id).state)

    def attempts(self, action_id: int) -> list[Any]:
        return self.rows(
            "SELECT * FROM nottwice.action_attempts WHERE action_id = :id ORDER BY number", id=action_id
        )

    def audit(self, action_id: int) -> list[Any]:
        return self.rows(
            "SELECT * FROM nottwice.audit WHERE entity = 'action' AND entity_id = :id ORDER BY id",
            id=action_id,
        )

    # ── People ────────────────────────────────────────────────────────────────────────────────────────

    def person(self, name: str, role: Role = Role.SUPPORT) -> Person:
        return self.by_console.run(
            lambda tx: people.person(tx, "local", name.lower(), name, f"{name.lower()}@example.com", role)
        )

    def act(self, who: Person, reason: str = "The log shows it.", *looked_at: str) -> Act:
        return Act(who, uuid4(), reason, looked_at or ("Provider's own log",))

    def seen(self, action_id: int) -> Seen:
        row = self.row(action_id)
        return Seen(row.version, bytes(row.content_digest))

    def decide(self, act: Act, body: Callable[[Transaction], T]) -> T:
        return self.by_console.run(body, role=act.person.role)


@pytest.fixture
def sends(database: Database, opened_as: Callable[[str], Database]) -> Sends:
    return Sends(database, opened_as("nottwice_worker"), opened_as("nottwice_console"))
