"""The command line as a person meets it: real commands, real processes, exit codes and sentences."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable

import psutil
import pytest

from ledger import schema
from ledger.database import Database
from ledger.embedded import Cluster
from ledger.embedded.programs import first_number
from ledger.environment import package_folder
from ledger.running.demo import prepare
from tests import starts
from tests.fix_home import NOBODY_LISTENS, SECRET, SHOP, UNSAFE, WITHIN_S, Home, until

# ── what it says ──────────────────────────────────────────────────────────────────────────────────────


def test_help_costs_no_library_it_does_not_need() -> None:
    heavy = ["sqlalchemy", "psycopg", "pydantic", "starlette", "uvicorn", "httpx", "streamlit", "pandas"]
    look = f"import ledger.cli, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["up", "receive", "work"])
def test_a_mistake_in_the_configuration_is_one_sentence(home: Home, command: str) -> None:
    home.configure("[worker]\nslotz = 3\n")
    done = home.run(command)
    assert done.returncode == 2
    assert "nottwice.toml, line 2: [worker] slotz is not a setting; did you mean slots?" in done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


def test_simulating_an_unknown_source_names_the_known(home: Home) -> None:
    home.configure(SHOP)
    done = home.run("simulate", "shoop")
    assert done.returncode == 2 and "no [sources.shoop]" in done.stderr and "shop" in done.stderr


# ── without a database ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", ["up", "status"])
def test_without_a_database_it_stops_with_one_sentence(home: Home, command: str) -> None:
    done = home.run(command, DATABASE_URL=NOBODY_LISTENS)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "database" in done.stderr and "Traceback" not in done.stderr


def test_without_a_database_the_receiver_starts_and_says_503(home: Home) -> None:
    home.configure(SHOP)
    process = home.start("receive", DATABASE_URL=NOBODY_LISTENS, **SECRET)
    until(lambda: home.get(home.receiver, "/healthz") == 200, home.said.read_text)
    assert home.get(home.receiver, "/readyz") == 503
    sent = home.run("simulate", "shop", **SECRET)
    assert sent.returncode == 0 and "1 × 503" in sent.stdout, sent.stderr
    process.send_signal(signal.SIGTERM)
    assert process.wait(WITHIN_S) == 0


def test_without_a_database_a_worker_starts_and_tries_again(home: Home) -> None:
    home.configure(SHOP)
    process = home.start("work", DATABASE_URL=NOBODY_LISTENS, **SECRET)
    until(lambda: home.said.read_text().count("database away") >= 2, home.said.read_text)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(WITHIN_S) == 0


def test_a_home_without_a_ledger_has_no_status(home: Home) -> None:
    done = home.run("status")
    assert done.returncode == 2 and "There is no ledger in" in done.stderr


# ── migrate ───────────────────────────────────────────────────────────────────────────────────────────


def test_migrate_says_what_it_applied(home: Home) -> None:
    applied = home.run("migrate")
    assert applied.stdout.splitlines() == [f"applied {name}" for name, _ in schema.files()]
    assert home.run("migrate").stdout.strip() == "The schema is up to date."
    assert home.status()["workers"] == 0


def test_migrate_refuses_a_server_that_forgets_commits(home: Home, database_url: str) -> None:
    done = home.run("migrate", DATABASE_URL=database_url)
    assert done.returncode == 2 and "fsync=off" in done.stderr
    home.configure(UNSAFE)
    assert home.run("migrate", DATABASE_URL=database_url).returncode == 0


def test_status_reads_with_the_login_it_is_given(
    home: Home, database_url: str, login_url: Callable[[str], str]
) -> None:
    for login in ("nottwice_worker", "nottwice_console"):
        done = home.run("status", "--json", DATABASE_URL=login_url(login))
        assert json.loads(done.stdout)["workers"] == 0
    refused = home.run("status", DATABASE_URL=login_url("nottwice_receiver"))
    assert refused.returncode == 2 and "may not read the ledger" in refused.stderr


def test_the_console_does_not_start_on_an_older_schema(home: Home, database_url: str) -> None:
    drop_last_file(database_url)
    done = home.run("console", DATABASE_URL=database_url)
    assert done.returncode == 2 and "Run `nottwice migrate`" in done.stderr


def test_the_console_runs_alone(home: Home, database_url: str) -> None:
    process = home.start("console", DATABASE_URL=database_url)
    until(lambda: home.get(home.console, "/_stcore/health") == 200, home.said.read_text)
    process.send_signal(signal.SIGTERM)
    assert process.wait(WITHIN_S) == 0


# ── up and demo ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("command", "service"), [("up", "console"), ("demo", "sandbox")])
def test_a_busy_port_is_named_with_its_variable(home: Home, command: str, service: str) -> None:
    port = getattr(home, service)
    with socket.create_server(("127.0.0.1", port)):
        done = home.run(command)
    assert done.returncode == 2
    assert f"Port {port} of 127.0.0.1 cannot be used" in done.stderr
    assert f"NOTTWICE_{service.upper()}_PORT" in done.stderr


def test_up_says_all_that_stops_it_and_nothing_was_started_or_written(home: Home) -> None:
    (home.folder / "h_broken.py").write_text("def broken(:\n")
    misspelled = SHOP.replace("shop", "other").replace("agentmail", "agentmial").replace("hook", "short")
    home.configure(SHOP.replace("hook", "short") + misspelled + '[worker]\nhandlers = "h_broken"\n')
    before = sorted(home.folder.iterdir())
    done = home.run("up", NOTTWICE_SECRET_SHORT="whsec_???")
    file = home.folder / "nottwice.toml"
    begins = (
        f"{file}, line 3: [sources.shop] secrets ",
        f"{file}, line 5: [sources.other] kind must be one of ",
        "[worker] handlers: the module h_broken cannot be imported: SyntaxError: invalid syntax (h_broken.py, line 1).",
    )
    said = done.stderr.splitlines()
    assert done.returncode == 2 and len(said) == 3, done.stderr
    assert all(line.startswith(begin) for line, begin in zip(said, begins, strict=True)), done.stderr
    assert sorted(home.folder.iterdir()) == before


def test_check_knows_a_source_that_the_next_start_refuses(home: Home) -> None:
    """Before a first start too; a secret that only the receiver has is none of its business."""
    wrong = SHOP.replace("shop", "other") + 'key_path = "id"\n'
    home.configure(SHOP + wrong)
    done = home.run("check")
    file = home.folder / "nottwice.toml"
    assert done.returncode == 2 and done.stdout.count("cannot be used") == 1, done.stdout
    assert (
        f"critical: The configuration cannot be used: {file}, line 7: [sources.other] key_path is not for"
        in done.stdout
    )
    home.configure(SHOP)
    assert "cannot be used" not in home.run("check").stdout


def test_up_runs_until_sigterm_and_finds_its_data_again(home: Home) -> None:
    home.configure(SHOP + "[supervisor]\nworkers = 1\n")
    first = ready(home, "up", anew=True, **SECRET)  # here everything is as a person starts it
    assert home.get(home.receiver, "/healthz") == home.get(home.receiver, "/readyz") == 200
    assert home.get(home.console, "/_stcore/health") == 200
    assert "5 × 200" in home.run("simulate", "shop", "--copies", "5", **SECRET).stdout
    accepted = home.status()
    assert sum(accepted["events"].values()) == 1 and accepted["duplicates"] == 4
    ended_by(signal.SIGTERM, first, home)
    assert home.status()["duplicates"] == 4  # an embedded server is woken for the look, and sleeps again
    assert Cluster(home.folder).status == "stopped"


def test_up_is_alone_in_its_home_passes_a_hangup_on_and_survives_its_server(home: Home) -> None:
    home.configure("[supervisor]\nworkers = 1\n")
    process = ready(home, "up")
    done = home.run("up")
    assert done.returncode == 2 and "already" in done.stderr
    assert home.get(home.receiver, "/readyz") == 200
    process.send_signal(signal.SIGHUP)
    for name in ("receiver", "w-1"):
        log = home.folder / "log" / f"{name}.log"
        until(lambda log=log: "configuration read" in log.read_text(), log.read_text)
    os.kill(first_number(Cluster(home.folder).data / "postmaster.pid"), signal.SIGKILL)
    until(lambda: "PostgreSQL answers again" in home.said.read_text(), home.said.read_text)
    assert "PostgreSQL ended unexpectedly and is started again; its log is in " in home.said.read_text()
    until(lambda: home.get(home.receiver, "/readyz") == 200, home.said.read_text)


def test_demo_shows_mail_going_out_and_ends_on_ctrl_c(home: Home) -> None:
    of_demo = package_folder("worker.sandbox") / "demo.toml"
    one_worker = of_demo.read_text().replace("workers = 3", "workers = 1")  # its owner may edit it
    (home.folder / "demo.toml").write_text(one_worker)
    demo = ready(home, "demo")
    said = home.said.read_text()
    for port in (home.console, home.sandbox, home.receiver):
        assert f"http://127.0.0.1:{port}" in said
    until(lambda: mails(home), home.said.read_text)
    ended_by(signal.SIGINT, demo, home)


def mails(home: Home) -> list[object]:
    with urllib.request.urlopen(f"http://127.0.0.1:{home.sandbox}/sandbox/mails", timeout=40) as answer:
        return list(json.load(answer))


def test_demo_makes_its_configuration_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTTWICE_HOME", str(home.folder))
    monkeypatch.setenv("NOTTWICE_SECRET_INBOXILI_API", "given")
    made = prepare()
    secrets = {path.name: path.read_text() for path in (home.folder / "secrets").iterdir()}
    assert made.secret("inboxili-api") == "given" and "inboxili-api" not in secrets
    assert all(made.secret(source.secrets[0]) for source in made.sources.values())
    for path in (*(home.folder / "secrets").iterdir(), home.folder / "demo.toml"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (home.folder / "demo.toml").write_text((home.folder / "demo.toml").read_text() + "# mine\n")
    prepare()
    assert (home.folder / "demo.toml").read_text().endswith("# mine\n")
    assert secrets == {path.name: path.read_text() for path in (home.folder / "secrets").iterdir()}


def ready(home: Home, command: str, *, anew: bool = False, **more: str) -> starts.Running:
    """Started, and everything answered."""
    process = home.start(command, anew=anew, **more)
    until(
        lambda: "Ctrl-C ends everything" in home.said.read_text() or process.poll() is not None,
        home.said.read_text,
    )
    assert process.poll() is None, home.said.read_text()
    return process


def ended_by(number: signal.Signals, process: starts.Running, home: Home) -> None:
    """Exit code 0 within 15 s, and nothing that it started is left, PostgreSQL included."""
    started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    assert process.wait(WITHIN_S) == 0, home.said.read_text()
    assert not [child for child in started if child.is_running()]
    assert Cluster(home.folder).status == "stopped"


def drop_last_file(url: str) -> None:
    database = Database(url)
    with database.transaction() as tx:
        tx.execute(
            "DELETE FROM nottwice.schema_files WHERE name = (SELECT max(name) FROM nottwice.schema_files)"
        )
    database.close()
