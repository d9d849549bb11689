"""One trial: deliver events, work them, look at what was written and proposed, and let it go out to the sandbox."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from ledger import decisions, inbox
from ledger.database import Database
from ledger.records import Act, Delivery, Person, Role, Seen, Worker, digest_of
from ledger.settings import Settings
from ledger.sign_in import people
from ledger.states import ActionState
from worker import providers
from worker.handlers import Handlers
from worker.heartbeat import Heartbeat
from worker.sandbox.store import Mail
from worker.sender import Sender
from worker.trying.events import Worked, Working
from worker.trying.sandbox import Sandbox

ACTIONS = """
SELECT a.id, a.kind, a.action_key, a.state, a.about, a.event_id, c.recipients, c.content
FROM nottwice.actions a JOIN nottwice.action_contents c ON c.action_id = a.id ORDER BY a.id
"""
AGAIN = """
UPDATE nottwice.events SET state = 'pending', ending = NULL, ended_at = NULL, due_at = now(), mode = 'recompute', run = run + 1
WHERE id = :id AND state = 'completed'
"""


@dataclass(frozen=True, slots=True)
class StoredAction:
    """An action as it stands in the ledger. `content` is what every attempt sends: of an e-mail its members that are set."""

    id: int
    kind: str
    key: str
    state: ActionState
    about: str
    event_id: int | None
    recipients: tuple[str, ...]
    content: Mapping[str, Any]


class Trial:
    """A database with your tables and the ledger, empty at first, and your handlers on it; made by `Trials.new()`."""

    def __init__(
        self, owner: Database, worker: Database, settings: Settings, handlers: Handlers, sandbox: Sandbox
    ) -> None:
        self.database, self.settings, self.sandbox = owner, settings, sandbox
        self._events = Working(worker, settings, handlers)
        someone, self._changed = Worker(uuid4(), "trial"), threading.Event()
        heartbeat = Heartbeat(worker, someone, lease_s=settings.worker.lease_s)
        made = providers.build_all(settings)
        self._sender = Sender(worker, settings, made, someone, heartbeat, self._changed.set)

    # ── Events ────────────────────────────────────────────────────────────────────────────────────────

    def deliver(
        self,
        source: str,
        type_: str,
        body: Mapping[str, Any] | bytes,
        *,
        key: str = "",
        at: datetime | None = None,
        ordering_key: str | None = None,
    ) -> int:
        """Accept one event as the front door would once it has read key, type and time; returns its number.

        The same key is the same event, however often it is delivered. How a source finds key, type and time in what
        it is sent is not tried here: `nottwice simulate` does that, through the front door itself.
        """
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        found = self.settings.sources[source]
        key = key or uuid4().hex
        delivery = Delivery(
            found.namespace or source,
            source,
            type_,
            key,
            digest_of("trial", source, key),
            raw,
            digest_of(raw),
            occurred_at=at,
            ignored=type_ in found.ignored_types,
            ordering_digest=None if ordering_key is None else digest_of("ordering", ordering_key),
        )
        (accepted,) = self.database.run(lambda tx: inbox.accept(tx, [delivery], writer=uuid4()))
        return accepted.event_id or 0

    def work(self) -> list[Worked]:
        """Work every event that is due, one at a time, as a worker does; how each of them ended."""
        return self._events.all_due()

    def wait_over(self) -> None:
        """Whatever waits to be tried again, events and sends, is due: as if that time had gone by."""
        for table, state in (("events", "pending"), ("actions", "approved")):
            self.run(f"UPDATE nottwice.{table} SET due_at = now() WHERE state = '{state}'")  # noqa: S608 - ours alone

    def recompute(self, event_id: int) -> list[Worked]:
        """Work a completed event once more, as when an engineer asks for its local results to be worked out again."""
        self.run(AGAIN, id=event_id)
        return self.work()

    # ── What came of it ───────────────────────────────────────────────────────────────────────────────

    def rows(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """What a query finds, as the owner of the database."""
        return [tuple(row) for row in self.database.run(lambda tx: tx.all(sql, **values))]

    def run(self, sql: str, **values: Any) -> None:
        """A statement as the owner of the database."""
        self.database.run(lambda tx: tx.execute(sql, **values) and None)

    def actions(self) -> list[StoredAction]:
        """Everything that was proposed, oldest first."""
        found = self.database.run(lambda tx: tx.all(ACTIONS))
        return [_stored(row) for row in found]

    # ── What goes out ─────────────────────────────────────────────────────────────────────────────────

    def approve(self, action: StoredAction) -> None:
        """A person lets exactly this content go out."""
        seen = self.database.run(
            lambda tx: tx.one(
                "SELECT version, content_digest FROM nottwice.actions WHERE id = :id", id=action.id
            )
        )
        who = self.database.run(
            lambda tx: people.person(tx, "trial", "ada", "Ada", "ada@example.com", Role.SUPPORT)
        )
        self._decide(action.id, Seen(seen.version, bytes(seen.content_digest)), who)

    def _decide(self, action_id: int, seen: Seen, who: Person) -> None:
        act = Act(who, uuid4(), "As the trial has it.", ("The content",))
        self.database.run(lambda tx: decisions.approve(tx, action_id, seen, act, wait_s=0.0), role=who.role)

    def send(self, *faults: dict[str, Any]) -> Sequence[Mail]:
        """Let out whatever may go, once; all the e-mails that the sandbox has taken so far, oldest first.

        Each fault is what happens to one of the next sends: `{"status": 503}`, `{"accept_then_silence": True}`.
        """
        self.sandbox.answer(*faults)
        while self._sender.pump() or self._sender.calls:
            self._changed.wait(1.0)
            self._changed.clear()
        return self.sandbox.mails


def _stored(row: Any) -> StoredAction:
    return StoredAction(
        row.id,
        row.kind,
        row.action_key,
        ActionState(row.state),
        row.about,
        row.event_id,
        tuple(row.recipients),
        json.loads(bytes(row.content)),
    )
