"""The sandbox tells a real receiver what became of its mails, signed as the providers sign, in the habits it is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agentmail import events as published

from ledger.settings import Settings, load
from tests.fix_receiver import WITHIN_S, Receiver, Start
from tests.fix_sandbox import Sandbox, until
from tests.worker.test_sandbox import MAIL, agentmail, inboxili
from worker.sandbox.courier import Courier, Habits, NotAHabit, changed
from worker.sandbox.statuses import spelled
from worker.sandbox.store import Mail, Store

CONFIG = """
[sources.mail]
kind = "agentmail"
namespace = "acme"
secrets = ["MAIL"]

[sources.receipts]
kind = "inboxili"
namespace = "acme"
secrets = ["SHOP"]
type_path = "event.name"
notices = { "email.delivered" = "delivered", "email.bounced" = "bounced" }

[database]
allow_unsafe = true
"""
TOLD = "SELECT source, type, count(*) FROM nottwice.events GROUP BY source, type ORDER BY source, type"


class Told:
    """A sandbox with a courier, and the receiver it posts to."""

    def __init__(
        self, sandbox: Sandbox, receiver: Receiver, rows: Callable[..., list[tuple[Any, ...]]]
    ) -> None:
        self.http, self.sandbox, self.receiver, self.rows = sandbox.http, sandbox, receiver, rows

    def habits(self, **members: Any) -> dict[str, Any]:
        calm = {
            "mode": "on",
            "early": 0,
            "late": 0,
            "lost": 0,
            "bounced": 0,
            "complained": 0,
            "pace": 0,
            "late_s": 0,
        }
        answer = self.http.put("/sandbox/webhooks", json=calm | members)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    @property
    def seen(self) -> list[tuple[Any, ...]]:
        return self.rows(TOLD)

    def counts(self) -> dict[str, int]:
        return dict(self.http.get("/sandbox/webhooks").json()["counts"])


@pytest.fixture
def settings(receivers: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Receiver, Settings]:
    receiver = receivers(CONFIG)
    for name, value in receiver.environment.items():
        if name.startswith("NOTTWICE_"):
            monkeypatch.setenv(name, value)
    return receiver, load()


@pytest.fixture
def told(settings: tuple[Receiver, Settings], rows: Callable[..., list[tuple[Any, ...]]]) -> Iterator[Told]:
    receiver, read = settings
    keys = {"agentmail": "am-key", "inboxili": "ix-key"}
    with Sandbox(Store(), keys, Courier(read)) as running:
        yield Told(running, receiver, rows)


def test_webhooks_travel_as_they_are_told(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.sandbox.courier.EARLY_S", WITHIN_S)  # on a busy machine
    told.habits(mode="hold", bounced=1)
    agentmail(told.http, "k-1")
    agentmail(told.http, "k-1")  # the same key: no second mail, so no second story
    inboxili(told.http)
    assert told.http.get("/sandbox/webhooks").json()["held"] == 3
    assert told.seen == []
    told.http.post("/sandbox/webhooks")
    held = [("mail", "message.bounced", 1), ("mail", "message.sent", 1), ("receipts", "email.bounced", 1)]
    assert told.seen == held

    told.habits(mode="off")
    inboxili(told.http)
    told.habits(lost=1)
    inboxili(told.http)
    assert told.counts() == {"posted": 3, "lost": 1}

    told.habits(early=1)
    inboxili(told.http)
    assert ("receipts", "email.delivered", 1) in told.seen  # before the API's answer was here

    told.habits(late=1, complained=1)
    inboxili(told.http)
    until(lambda: told.counts()["posted"] == 6, WITHIN_S)  # "complained" too, as a type that nobody maps
    assert told.rows("SELECT count(*) FROM nottwice.quarantine") == [(0,)]

    told.sandbox.faults({"provider": "inboxili", "cut": True})
    with pytest.raises(Exception, match="disconnected"):
        inboxili(told.http)
    assert told.counts()["posted"] == 6  # nothing was accepted, nothing is told


def test_each_body_is_what_the_published_package_reads(settings: tuple[Receiver, Settings]) -> None:
    mail = Mail(
        "t",
        "agentmail",
        "/",
        "k",
        ["Ann <Ann@Example.com>"],
        "d",
        "<m>",
        "thd",
        sender="in@x",
        labels=["nt-1"],
    )
    at = published.Delivery(
        inbox_id="i", thread_id="t", message_id="m", timestamp="2026-03-01T12:00:00Z", recipients=[]
    ).timestamp
    models = {
        "sent": published.MessageSentEvent,
        "delivered": published.MessageDeliveredEvent,
        "bounced": published.MessageBouncedEvent,
        "complained": published.MessageComplainedEvent,
    }
    source = settings[1].sources["mail"]
    for what, model in models.items():
        body = spelled(source, mail, what, at, echo=what == "sent")
        read = model.model_validate_json(body)
        (inner,) = (value for value in json.loads(body).values() if isinstance(value, dict))
        assert read.event_type == f"message.{what}"
        address = read.bounce.recipients[0].address if what == "bounced" else inner["recipients"][0]
        assert (address, inner["message_id"]) == ("ann@example.com", "<m>")
        assert inner.get("labels") == (["nt-1", "sent"] if what == "sent" else None)


def test_without_a_source_or_a_receiver_nothing_is_held_up(
    settings: tuple[Receiver, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, read = settings
    receiver.stop()
    only_mail = read.model_copy(update={"sources": {"mail": read.sources["mail"]}})
    with Sandbox(Store(), {}, Courier(only_mail)) as sandbox:
        sandbox.http.put("/sandbox/webhooks", json={"early": 1})
        assert inboxili(sandbox.http).status_code == 200
        assert sandbox.http.get("/sandbox/webhooks").json()["counts"] == {}
        assert agentmail(sandbox.http, "k").status_code == 200
        assert sandbox.mails[1]["recipients"] == MAIL["to"]


def test_a_sandbox_without_a_receiver_to_tell_says_so(sandbox: Sandbox) -> None:
    assert sandbox.http.get("/sandbox/webhooks").status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {"fast": 1},
        {"mode": "slow"},
        {"lost": 1.5},
        {"late_s": -1},
        {"echo": 1},
        {"pace": True},
        {"early": "x"},
    ],
)
def test_what_is_no_habit_is_refused(wrong: Any) -> None:
    with pytest.raises(NotAHabit):
        changed(Habits(), wrong)
