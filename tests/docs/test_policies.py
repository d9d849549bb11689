"""The kinds of e-mail in docs/policies.md, by their configuration alone: each through the worker's own sender, real HTTP and
the sandbox, down its sad paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ledger import actions
from ledger.database import Database
from ledger.records import Email, Event, Proposed, Worker
from ledger.retention import prune
from ledger.settings import Settings
from ledger.states import ActionState
from tests.docs.book import blocks
from tests.fix_sandbox import Sandbox
from tests.fix_sender import pump_until
from tests.fix_worker import Workshop
from worker import providers
from worker.heartbeat import Heartbeat
from worker.proposing import Propose
from worker.sender import Sender

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
KIND = 'kind = "inboxili"'
LEASE_S, TIMEOUT_S = 10.0, 40.0  # answers come at once; a busy machine does not miss the deadline
LOST = {"status": 503, "accept": True, "count": None}  # it went out, and the answer says nothing
ANN = "ann@example.com"
MONTH = timedelta(days=31)


@dataclass
class Shop:
    """Handlers that propose, the worker's sender, and what came of it."""

    workshop: Workshop
    sandbox: Sandbox
    settings: Settings
    sender: Sender

    def proposed(
        self, kind: str, values: dict[str, Any], at: datetime | None = None, to: str = ANN
    ) -> Proposed:
        """As an apply part does it, for an event of that time."""
        (event_id,) = self.workshop.accept("happened")
        now = datetime.now(UTC)
        event = Event(event_id, "acme", "shop", "happened", str(event_id), b"{}", now, at or now)
        mail = Email((to,), f"About {kind}", "Hello.", sender="shop@example.org", inbox="in-1")
        return self.workshop.database.run(lambda tx: Propose(tx, event, self.settings)(kind, values, mail))

    def carried_out(self, kind: str, values: dict[str, Any], **more: Any) -> int:
        """Proposed, and worked until nothing of it is under way."""
        action_id = self.proposed(kind, values, **more).action_id
        self.work()
        return action_id

    def work(self) -> None:
        """What a sweep and a sender do until nothing is due."""
        self.workshop.run("UPDATE nottwice.actions SET due_at = now() WHERE state = 'approved'")
        self.workshop.database.run(actions.expire)
        due = "SELECT count(*) FROM nottwice.actions WHERE state = 'sending' OR state = 'approved' AND due_at <= now()"
        pump_until(self.sender, lambda: not self.workshop.value(due) and not self.sender.calls)

    def state(self, action_id: int) -> str:
        return str(self.workshop.value("SELECT state FROM nottwice.actions WHERE id = :id", id=action_id))

    def why(self, action_id: int) -> str:
        """What the record says a policy did last."""
        sql = "SELECT why FROM nottwice.audit WHERE entity_id = :id AND role = 'policy' ORDER BY id DESC LIMIT 1"
        return str(self.workshop.value(sql, id=action_id))

    @property
    def asked(self) -> int:
        return len(self.sandbox.requests)

    def is_over(self, action_id: int, column: str) -> None:
        self.workshop.run(f"UPDATE nottwice.actions SET {column} = now() WHERE id = :id", id=action_id)


@pytest.fixture
def shop(workshop: Workshop, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("NOTTWICE_SECRET_MAIL_KEY", "ix-key")
    (page,) = [block.text for block in blocks(PAGE) if block.words == "nottwice.toml"]
    at_the_sandbox = f'{KIND}\nbase_url = "{sandbox.url}/api/v1"\ntimeout_s = {TIMEOUT_S}\n#'
    assert page.count(KIND) == 1
    settings = workshop.settings(more=page.replace(KIND, at_the_sandbox), lease_s=LEASE_S)
    database, someone = Database(workshop.url, pool_size=8), Worker(uuid4(), "sender", ())
    heartbeat = Heartbeat(database, someone, lease_s=LEASE_S)
    yield Shop(
        workshop,
        sandbox,
        settings,
        Sender(database, settings, providers.build_all(settings), someone, heartbeat),
    )
    database.close()


def test_a_one_time_code_is_closed_when_nobody_knows_and_never_sent_late(shop: Shop) -> None:
    shop.sandbox.faults(LOST)
    unknown = shop.carried_out("one_time_code", {"request": "r-1"})
    assert (shop.state(unknown), shop.asked) == ("closed", 1)
    assert shop.why(unknown) == "The policy of this kind is drop. It may have gone out."
    shop.sandbox.forget()

    eleven_minutes_ago = datetime.now(UTC) - timedelta(minutes=11)
    late = shop.carried_out("one_time_code", {"request": "r-2"}, at=eleven_minutes_ago)
    waited = shop.proposed("one_time_code", {"request": "r-3"}).action_id
    shop.is_over(waited, "send_before")
    shop.work()
    for action_id in (late, waited):
        assert shop.state(action_id) == "closed"
        assert shop.why(action_id).startswith("It was to go out before ")
        assert shop.why(action_id).endswith("Nothing went out.")
    assert shop.asked == 0

    states = [shop.proposed("one_time_code", {"request": f"n-{n}"}).state for n in range(5)]
    assert states == [ActionState.APPROVED] * 4 + [
        ActionState.CLOSED
    ]  # the first may have gone out, so it counts
    shop.work()
    assert len(shop.sandbox.mails) == 4


def test_a_welcome_goes_out_once_ever(shop: Shop) -> None:
    first = shop.carried_out("welcome", {"user": 7})
    month_later = shop.carried_out("welcome", {"user": 7}, at=datetime.now(UTC) + MONTH)
    receipt = shop.carried_out("receipt", {"invoice": "INV-1"})
    assert (first, shop.state(first), shop.asked) == (month_later, "sent", 2)
    shop.workshop.run(
        """UPDATE nottwice.actions SET settled_at = now() - interval '500 days', created_at = now() - interval '500 days'"""
    )
    settings = shop.settings
    list(prune(shop.workshop.database, settings.retention, once_ever=settings.once_ever))
    assert shop.workshop.value("SELECT key_digest IS NULL FROM nottwice.actions WHERE id = :id", id=receipt)
    assert shop.carried_out("welcome", {"user": 7}) == first
    assert shop.asked == 2


@pytest.mark.parametrize("kind", ["receipt", "invoice", "refund"])
def test_what_can_be_booked_twice_waits_for_a_person(shop: Shop, kind: str) -> None:
    shop.sandbox.faults(LOST)
    action_id = shop.carried_out(kind, {"invoice": "INV-1"})
    assert shop.carried_out(kind, {"invoice": "INV-1"}) == action_id
    assert (shop.state(action_id), shop.asked) == ("needs_review", 1)


def test_a_security_alert_is_tried_exactly_once_more(shop: Shop) -> None:
    shop.sandbox.faults({**LOST, "count": 1})
    arrives = shop.carried_out("security_alert", {"alert": "a-1"})
    assert shop.asked == 1, "evidence is waited for first"
    assert shop.why(arrives) == "The policy of this kind is resend. It may have gone out."
    shop.work()
    assert (shop.state(arrives), shop.asked) == ("sent", 2)

    shop.sandbox.forget()
    shop.sandbox.faults(LOST)
    never_known = shop.carried_out("security_alert", {"alert": "a-2"})
    for _ in range(3):
        shop.work()
    assert (shop.state(never_known), shop.asked) == ("needs_review", 2)


def test_a_failed_payment_is_told_once_a_month_by_the_clocks_of_berlin(shop: Shop) -> None:
    times = {
        "2026-11-02T08:00:00+00:00": 1,
        "2026-11-30T22:59:59+00:00": 1,  # a second before midnight in Berlin
        "2026-11-30T23:00:00+00:00": 2,
        "2026-12-31T22:59:59+00:00": 2,
        "2026-10-31T22:59:59+00:00": 3,  # an older one that comes late: October has had none
    }
    for at, asked in times.items():
        shop.carried_out("payment_failed", {"subscription": "sub_1"}, at=datetime.fromisoformat(at))
        assert shop.asked == asked, at
    shop.carried_out(
        "payment_failed", {"subscription": "sub_2"}, at=datetime.fromisoformat("2026-11-02T08:00:00+00:00")
    )
    assert shop.asked == len(shop.sandbox.mails) == 4


def test_what_the_table_says_is_what_is_configured(shop: Shop) -> None:
    told = {kind: (rules.policy.value, rules.once_ever) for kind, rules in shop.settings.actions.items()}
    assert told == {
        "one_time_code": ("drop", False),
        "welcome": ("review", True),
        "receipt": ("review", False),
        "invoice": ("review", False),
        "refund": ("review", False),
        "security_alert": ("resend", False),
        "payment_failed": ("review", False),
    }
