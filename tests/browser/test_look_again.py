"""Look again, and adopt what was found: a real browser, console, worker and sandbox provider on one database."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from playwright.sync_api import Page, expect

from tests.browser.conftest import Hall
from tests.browser.stage import WAIT_MS
from tests.browser.test_review import acts, state
from tests.fix_sandbox import Sandbox
from tests.fix_seed import REPLY, mail
from tests.fix_worker import Process

pytestmark = pytest.mark.browser
Visit = Callable[..., Page]
Workers = Callable[[Hall, Sandbox], Process]
INBOX = "help@acme.example"
CONFIGURATION = """
[providers.agentmail]
kind = "agentmail"
base_url = "{url}"
key = "agentmail-api"
window_s = 86400
timeout_s = 30

[worker]
lease_s = 10
patience_s = 0.2

[database]
allow_unsafe = true
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Workers]:
    """Starts a worker on the hall's database, with AgentMail at the sandbox."""
    started: list[Process] = []

    def start(hall: Hall, sandbox: Sandbox) -> Process:
        file = tmp_path / "nottwice.toml"
        file.write_text(CONFIGURATION.format(url=sandbox.url))
        url = hall.database.engine.url.set(username="nottwice_worker").render_as_string(hide_password=False)
        given = {"NOTTWICE_CONFIG": str(file), "NOTTWICE_HOME": str(tmp_path), "DATABASE_URL": url}
        started.append(Process(os.environ | given | {"NOTTWICE_SECRET_AGENTMAIL_API": "am-key"}))
        return started[-1]

    yield start
    for process in started:
        process.end()


def by_hand(sandbox: Sandbox, to: str, subject: str) -> str:
    """Somebody else writes from the same inbox, without our mark."""
    answer = sandbox.http.post(
        f"/v0/inboxes/{INBOX}/messages/send",
        json={"to": [to], "subject": subject, "text": "Hello"},
        headers={"Authorization": "Bearer am-key"},
    )
    return str(answer.json()["message_id"])


def evidence(hall: Hall, send: int) -> list[sa.Row[tuple[object, ...]]]:
    sql = "SELECT points_to, proof, message_id FROM nottwice.evidence WHERE action_id = :id"
    return list(hall.database.run(lambda tx: tx.all(sql, id=send)))


def test_look_again_waits_for_a_worker_says_what_it_found_and_a_hint_is_adopted(
    alone: Hall, sandbox: Sandbox, visit: Visit, worker: Workers
) -> None:
    send = alone.house.uncertain(REPLY, mail("ana@example.com", "Re: log in", sender=INBOX))
    message_id = by_hand(sandbox, "Ana <ana@example.com>", "Re: log in")
    page = visit(alone, f"/review?send={send}")
    expect(page.get_by_text("Asks the provider now. Sends nothing.")).to_be_visible()
    page.get_by_role("button", name="Look again").click()
    expect(page.get_by_text("No worker is running. As soon as one does, it asks AgentMail")).to_be_visible(
        timeout=WAIT_MS
    )
    assert acts(alone.database, send) == [("look again", "done")] and len(sandbox.requests) == 1
    page.reload()
    expect(page.get_by_text("Asked by Ana Soto at")).to_be_visible(timeout=WAIT_MS)

    worker(alone, sandbox).notes.wait_for("looked up", within_s=WAIT_MS / 1000)
    expect(page.get_by_text("Is this the message?")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("AgentMail was asked 1 time, last at")).to_be_visible()
    expect(page.get_by_text("with the same subject, but without our mark").first).to_be_visible()
    assert [tuple(row) for row in evidence(alone, send)] == [("sent", False, message_id)]
    assert state(alone.database, send) == "needs_review" and len(sandbox.requests) == 1

    adopt = page.get_by_role("button", name="It was this one: close as sent")
    adopt.click()
    expect(page.get_by_text("Nothing was done. Please say why.")).to_be_visible(timeout=WAIT_MS)
    page.get_by_label("Why is it this one? The audit keeps your words.").fill("Same subject, same minute")
    adopt.click()
    expect(page.get_by_text("Closed as sent, by you")).to_be_visible(timeout=WAIT_MS)
    row = alone.database.run(
        lambda tx: tx.one("SELECT state, message_id FROM nottwice.actions WHERE id = :id", id=send)
    )
    assert tuple(row) == ("sent", message_id)
    assert acts(alone.database, send) == [("look again", "done"), ("closed as sent", "done")]
