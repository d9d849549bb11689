"""What a user tries handlers with does what a worker does, on a database of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.embedded import Cluster
from ledger.errors import Misconfigured
from tests.databases import connected
from tests.fix_worker import configured
from worker.trying import Trial, Trials

HANDLERS = """
import asyncio
from ledger.records import Email
from worker.handlers import Handlers, RetryLater, SetAside

handlers = Handlers()

@handlers.on("shop", "sale")
async def think(event):
    await asyncio.sleep(0)
    return Email(to=("bo@example.com",), subject="Sold", text=str(event.json()["what"]), inbox="shop@acme.example")

@think.apply
def store(tx, event, mail, propose):
    tx.execute("INSERT INTO sold (what) VALUES (:what)", what=mail.text)
    propose("receipt", f"sale:{event.event_key}", mail)

@handlers.apply("shop", "letter")
def write(tx, event, propose):
    propose("letter", event.event_key, Email(to=("bo@example.com",), subject="A letter", text="Hi", sender="shop@acme.example"))

@handlers.apply("shop", "forgotten")
def no_grant(tx, event, propose):
    tx.execute("INSERT INTO hidden DEFAULT VALUES")
"""
TABLES = """
CREATE TABLE sold (what text PRIMARY KEY);
CREATE TABLE hidden (i int);
REVOKE ALL ON hidden FROM nottwice_worker;
"""
POST = '[providers.house]\nkind = "smtp"\nbase_url = "smtp://mail.example.com"\nuser = "shop"\nkey = "house-key"\n'
ACTIONS = '[actions.receipt]\nprovider = "post"\n[actions.letter]\nprovider = "house"\n'
MORE = '[providers.post]\nkind = "agentmail"\nkey = "post-key"\nbase_url = "https://api.agentmail.to"\n'


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Iterator[Trials]:
    folder = tmp_path_factory.mktemp("tried")
    (folder / "tried_handlers.py").write_text(HANDLERS)
    (folder / "sql").mkdir()
    (folder / "sql" / "0001_sold.sql").write_text(TABLES)
    config = configured(folder, 'app_sql = "sql"', MORE + POST + ACTIONS, "tried_handlers")
    config.write_text(
        config.read_text().replace("retry_base_s = 0.1", "retry_base_s = 3600")
    )  # waits until told
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        patch.setenv("NOTTWICE_TRIAL_URL", cluster.url(database="postgres"))
        patch.setenv("DATABASE_URL", "postgresql+psycopg://nobody@nowhere.invalid/real")
        with Trials(config) as made:
            yield made
    assert _trials_on(cluster) == [], "what was made is removed"


def _trials_on(cluster: Cluster) -> list[str]:
    with connected(cluster, "postgres") as admin:
        mine = f"nottwice_trial_{os.getpid()}_%"
        found = admin.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", [mine])
        return [str(row[0]) for row in found]


@pytest.fixture
def trial(trials: Trials) -> Iterator[Trial]:
    with trials.new() as made:
        yield made


def test_an_event_is_worked_whole_and_its_mail_goes_to_the_sandbox(trial: Trial) -> None:
    number = trial.deliver("shop", "sale", {"what": "a lamp"}, key="e1")
    assert trial.deliver("shop", "sale", {"what": "a lamp"}, key="e1") == number
    (worked,) = trial.work()
    assert (worked.ending, worked.event.id, worked.error) == ("completed", number, None)
    assert trial.rows("SELECT what FROM sold") == [("a lamp",)]
    (action,) = trial.actions()
    assert (action.kind, action.key, action.state, action.event_id) == (
        "receipt",
        "sale:e1",
        "approved",
        number,
    )
    assert (action.recipients, action.content["subject"]) == (("bo@example.com",), "Sold")
    (mail,) = trial.send()
    assert (mail.recipients, trial.actions()[0].state) == (["bo@example.com"], "sent")


def test_what_goes_by_smtp_goes_to_the_sandbox_too(trial: Trial) -> None:
    trial.deliver("shop", "letter", b"{}", key="e1")
    trial.work()
    (mail,) = trial.send()
    assert (mail.provider, mail.recipients, trial.actions()[0].state) == ("smtp", ["bo@example.com"], "sent")


def test_each_trial_begins_with_nothing(trial: Trial) -> None:
    assert (trial.rows("SELECT FROM sold"), trial.actions(), trial.send()) == ([], [], [])


def test_a_failure_is_retried_as_a_worker_would_and_leaves_nothing(trial: Trial) -> None:
    trial.run("INSERT INTO sold VALUES ('a lamp')")
    trial.deliver("shop", "sale", {"what": "a lamp"})
    (worked,) = trial.work()
    assert (worked.ending, trial.work(), trial.actions()) == ("retried", [], [])
    assert "duplicate key" in str(worked.error)
    trial.run("DELETE FROM sold")
    trial.wait_over()
    (worked,) = trial.work()
    assert (worked.ending, worked.event.run.attempt) == ("completed", 2)


def test_a_forgotten_grant_is_noticed(trial: Trial) -> None:
    trial.deliver("shop", "forgotten", b"{}")
    (worked,) = trial.work()
    assert "permission denied for table hidden" in str(worked.error)


def test_what_would_stop_a_worker_stops_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    with (
        pytest.raises(Misconfigured, match="no_such_handlers cannot be imported"),
        Trials(configured(tmp_path, more=MORE, handlers="no_such_handlers")),
    ):
        pass
