"""Bad input to ourselves: one clear sentence with the place, exit code 2, nothing half started. In every command.

The commands run in this process; what `receive`, `work` and `sandbox` become is called as the process would.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from ledger import schema
from ledger.cli import app
from ledger.database import Database
from ledger.embedded import Cluster
from ledger.receiver.starting import main as receive
from tests import starts
from tests.fix_home import HANGS_S, NOBODY_LISTENS, NOTTWICE, SECRET, SHOP, UNSAFE
from worker.sandbox.__main__ import main as sandbox
from worker.starting import main as work

BECOME = {"receive": receive, "work": work, "sandbox": sandbox}
ARGUMENTS = {"simulate": ["shop"], "retry": ["--all", "--dry-run"], "prune": ["--dry-run"]}
READS_THE_FILE = (
    *("up", "demo", "migrate", "console", "simulate", "status", "check", "retry", "prune"),
    *("receive", "work", "sandbox"),
)
NEEDS_A_DATABASE = ("up", "demo", "migrate", "console", "status", "check", "retry", "prune")
CHECKS_THE_SCHEMA = ("console", "status", "check", "retry", "prune")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

STARTS = ("up", "demo", "check")  # ask other processes first


@dataclass
class Said:
    code: int
    words: str


class Desk:
    """A home with a configuration, in which commands are tried."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self._capsys = home, capsys

    @property
    def config(self) -> Path:
        return self.home / "nottwice.toml"

    def say(self, command: str, *, here: bool = False) -> Said:
        """What it said in one line, with its exit code. `here`: in this process, whatever it starts."""
        if command in BECOME:
            code = BECOME[command]()
            lines = self._capsys.readouterr().err.splitlines(keepends=True)
            return Said(code, "".join(line for line in lines if not line.startswith("{")))
        if command in STARTS and not here:
            return self._forked(command)
        done = CliRunner().invoke(app, [command, *ARGUMENTS.get(command, [])])
        # Findings are what `check` is for: they go to standard output.
        return Said(done.exit_code, done.stderr or (done.stdout if command == "check" else ""))

    def _forked(self, command: str) -> Said:
        """As a process, which forks those that it asks whether they could start (see `tests.starts`)."""
        done = starts.run([NOTTWICE, command], env=os.environ, timeout=HANGS_S)
        return Said(done.returncode, done.stderr or (done.stdout if command == "check" else ""))

    def refused(self, command: str, *, here: bool = False) -> str:
        """The one sentence; and that nothing runs and no server was made for it."""
        before = set(psutil.Process().children(recursive=True))
        said = self.say(command, here=here)
        assert said.code == 2, said
        assert said.words.count("\n") == 1 and "Traceback" not in said.words, said.words
        assert set(psutil.Process().children(recursive=True)) <= before
        assert not (self.home / "postgres").exists() and not (self.home / "log").exists()
        return said.words


@pytest.fixture(scope="session")
def nest() -> None:
    """There before anybody looks which processes there are."""
    starts.run([NOTTWICE, "--version"], env=os.environ, timeout=HANGS_S)


@pytest.fixture
def desk(
    nest: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    unused_ports: Callable[[int], list[int]],
) -> Iterator[Desk]:
    monkeypatch.setenv("NOTTWICE_HOME", str(tmp_path))
    monkeypatch.setenv("NOTTWICE_CONFIG", str(tmp_path / "nottwice.toml"))
    for name, port in zip(("RECEIVER", "CONSOLE", "SANDBOX"), unused_ports(3), strict=True):
        monkeypatch.setenv(f"NOTTWICE_{name}_PORT", str(port))
    for name, secret in SECRET.items():
        monkeypatch.setenv(name, secret)
    (tmp_path / "nottwice.toml").write_text(SHOP)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    yield Desk(tmp_path, capsys)
    for number, handler in handlers.items():
        signal.signal(number, handler)


# ── The file ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", READS_THE_FILE)
def test_the_configuration_is_refused_with_its_line(desk: Desk, command: str) -> None:
    for text, words in (
        ("[worker]\nslotz = 3\n", "line 2: [worker] slotz is not a setting; did you mean slots?"),
        ("[wroker]\n", "line 1: wroker is not a setting; did you mean worker?"),
        ('[worker]\nlease_s = "long"\n', "line 2: [worker] lease_s must be a number."),
        ("[worker\n", "line 1: this is not TOML"),
    ):
        desk.config.write_text(text)
        assert f"nottwice.toml, {words}" in desk.refused(command)
    desk.config.write_bytes(b'# fine\n[worker]\nhandlers = "caf\xe9"\n')
    assert "nottwice.toml, line 3: this is not UTF-8 text." in desk.refused(command)


@pytest.mark.parametrize("command", READS_THE_FILE)
def test_a_configuration_that_is_no_file(desk: Desk, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, words in (("none.toml", "No such file or directory"), (".", "Is a directory")):
        monkeypatch.setenv("NOTTWICE_CONFIG", str(desk.home / name))
        assert f"cannot be read: {words}." in desk.refused(command)


# ── Secrets ───────────────────────────────────────────────────────────────────────────────────────────

POST = '[providers.post]\nkind = "agentmail"\nkey = "post-key"\n'


@pytest.mark.parametrize(("command", "name"), [("up", "hook"), ("receive", "hook"), ("simulate", "hook"), ("work", "post-key"),
                                               ("sandbox", "post-key"), ("up", "post-key")])  # fmt: skip
def test_a_secret_that_is_not_to_be_had(
    desk: Desk, command: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.config.write_text(SHOP + POST)
    variable = "NOTTWICE_SECRET_" + name.replace("-", "_").upper()
    if name != "hook":
        monkeypatch.setenv(variable, " ")
        assert f"The secret {name} is empty in {variable}." in desk.refused(command)
    monkeypatch.delenv(variable)
    assert f"The secret {name} is nowhere. Set the environment variable {variable}" in desk.refused(command)
    file = desk.home / "secrets" / name
    file.parent.mkdir()
    for content, words in (
        (b" \n", f"The file {file} of the secret {name} is empty."),
        (b"\xff\xfe", "it is not UTF-8 text."),
    ):
        file.write_bytes(content)
        assert words in desk.refused(command)
    file.unlink()
    file.mkdir()
    assert f"cannot be read from {file}: Is a directory." in desk.refused(command)


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root may read everything, and may become somebody who may not"
)
def test_a_secret_that_may_not_be_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root reads whatever its mode: so the one who reads gives up that right for the moment."""
    monkeypatch.delenv("NOTTWICE_SECRET_HOOK")
    (desk.home / "secrets").mkdir()
    (desk.home / "secrets" / "hook").write_text("whsec_secret")
    (desk.home / "secrets" / "hook").chmod(0)
    for folder in (desk.home, *desk.home.parents):
        with suppress(OSError):
            folder.chmod(folder.stat().st_mode | 0o711 if folder != Path("/") else folder.stat().st_mode)
    desk.config.chmod(0o644)
    os.seteuid(65_534)
    try:
        said = desk.say("receive")
    finally:
        os.seteuid(0)
    assert said.code == 2 and "cannot be read from" in said.words and "Permission denied" in said.words


# ── Ports ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", READS_THE_FILE)
def test_a_port_that_is_none(desk: Desk, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for port in ("0", "65536", "http"):
        monkeypatch.setenv("NOTTWICE_RECEIVER_PORT", port)
        assert f"NOTTWICE_RECEIVER_PORT is '{port}'; a port is a number from 1 to 65535." in desk.refused(
            command
        )


@pytest.mark.parametrize(
    ("command", "variable"),
    [("up", "RECEIVER"), ("up", "CONSOLE"), ("demo", "SANDBOX"), ("console", "CONSOLE"), ("receive", "RECEIVER"), ("sandbox", "SANDBOX")],
)  # fmt: skip
def test_a_port_that_somebody_has(desk: Desk, command: str, variable: str) -> None:
    port = int(os.environ[f"NOTTWICE_{variable}_PORT"])
    with socket.create_server(("127.0.0.1", port)):
        said = desk.refused(command)
    assert f"ort {port} " in said and "cannot be used" in said and f"NOTTWICE_{variable}_PORT" in said


def test_a_port_for_two(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    port = os.environ["NOTTWICE_RECEIVER_PORT"]
    monkeypatch.setenv("NOTTWICE_CONSOLE_PORT", port)
    assert f"Port {port} is for receiver and for console." in desk.refused("up")


# ── The database ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", READS_THE_FILE)
def test_a_database_url_that_is_none(desk: Desk, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for url, words in (
        ("mysql://root:hush@db/ledger", "DATABASE_URL is no address of a PostgreSQL server."),
        ("host=db password=hush", "DATABASE_URL is no address of a PostgreSQL server."),
        ("postgresql://me:hu/sh@db/ledger", "DATABASE_URL cannot be read."),
        ("postgresql://me:hush@db:port/ledger", "DATABASE_URL cannot be read."),
    ):
        monkeypatch.setenv("DATABASE_URL", url)
        said = desk.refused(command)
        assert words in said and "postgresql://LOGIN:PASSWORD@HOST:PORT/DATABASE" in said
        assert "hush" not in said and "hu/sh" not in said


@pytest.mark.parametrize("command", [*NEEDS_A_DATABASE, "work"])
def test_a_database_url_with_an_option_that_nobody_knows(
    desk: Desk, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:hush@127.0.0.1:1/ledger?pool=3")
    said = desk.refused(command)
    assert 'DATABASE_URL cannot be used: invalid connection option "pool".' in said and "hush" not in said


@pytest.mark.parametrize("command", NEEDS_A_DATABASE)
def test_a_database_that_cannot_be_reached(desk: Desk, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", NOBODY_LISTENS)
    assert "Connection refused" in desk.refused(command)


def test_the_old_spelling_of_a_url_is_understood(
    desk: Desk, login_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "DATABASE_URL", login_url("nottwice_console").replace("postgresql+psycopg://", "postgres://")
    )
    assert desk.say("status").code == 0


def test_a_primary_and_its_standby_are_one_url(
    desk: Desk, cluster: Cluster, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As libpq writes it; the first does not answer, the second does. For those that migrate and those that ask."""
    there = str(cluster.socket).replace("/", "%2F")
    name = sa.make_url(database_url).database
    monkeypatch.setenv(
        "DATABASE_URL",
        f"postgresql://postgres@127.0.0.1:1,{there}:5432/{name}?target_session_attrs=read-write",
    )
    desk.config.write_text(UNSAFE)
    assert desk.say("status") == Said(0, "")
    assert desk.say("migrate") == Said(0, "")


def test_a_server_that_is_too_old(desk: Desk, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server older than 15 can be had here; so the version asked for is one that is still to come."""
    monkeypatch.setattr(schema, "VERSION_MIN", 99)
    monkeypatch.setenv("DATABASE_URL", database_url)
    for command in ("migrate", "up"):
        assert "Not Twice needs 99 or newer." in desk.refused(command, here=True)


@pytest.mark.parametrize("command", CHECKS_THE_SCHEMA)
def test_a_schema_of_another_version(
    desk: Desk, command: str, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    later = "INSERT INTO nottwice.schema_files (name, sha256) VALUES ('9999_later.sql', '')"
    with database.transaction() as tx:
        tx.execute(later)
    assert "9999_later.sql, which this version does not know. Start the newer version" in desk.refused(
        command
    )
    with database.transaction() as tx:
        tx.execute("DELETE FROM nottwice.schema_files WHERE name = '9999_later.sql' OR name LIKE '0009%'")
    assert "The database lacks 0009_screens.sql. Run `nottwice migrate`" in desk.refused(command)


@pytest.mark.parametrize("command", CHECKS_THE_SCHEMA)
def test_a_database_without_a_ledger(
    desk: Desk, command: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = sa.make_url(database_url).set(database="postgres").render_as_string(hide_password=False)
    monkeypatch.setenv("DATABASE_URL", empty)
    assert "Run `nottwice migrate` as its owner" in desk.refused(command)


# ── Handlers, and the home ────────────────────────────────────────────────────────────────────────────

HEAD = "from worker.handlers import Handlers\nhandlers = Handlers()\n"
APPLY = "@handlers.apply('shop', 'sale')\ndef sale{}(tx, event, propose): pass\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("h_missing", None, "the module h_missing cannot be imported: ModuleNotFoundError"),
        ("h_named.py", "", "Put h_named.py beside the configuration, and name it without .py."),
        ("h_syntax", "def broken(:\n", "the module h_syntax cannot be imported: SyntaxError"),
        (
            "h_raises",
            "1 / 0\n",
            "cannot be imported: ZeroDivisionError: division by zero (h_raises.py, line 1)",
        ),
        ("h_exits", "raise SystemExit\n", "the module h_exits cannot be imported: SystemExit"),
        ("h_empty", "", "the module h_empty has no `handlers = Handlers()`"),
        ("h_source", HEAD + APPLY.format("").replace("shop", "till"), "there is no [sources.till]"),
        (
            "h_twice",
            HEAD + APPLY.format("1") + APPLY.format("2"),
            "The handler of shop sale is registered twice",
        ),
        ("h_uncallable", HEAD + "handlers.apply('shop', 'sale')(7)\n", "must be a function; 7 is none"),
    ],
)
def test_handlers_that_cannot_be_used(
    desk: Desk, name: str, text: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))
    if text is not None:
        (desk.home / f"{name.removesuffix('.py')}.py").write_text(text)
    desk.config.write_text(SHOP + f'[worker]\nhandlers = "{name}"\n')
    assert words in desk.refused("work")


@pytest.mark.parametrize("command", ["up", "demo", "migrate", "console"])
def test_a_home_that_cannot_be_made(desk: Desk, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk.home / "file").write_text("")
    monkeypatch.setenv("NOTTWICE_HOME", str(desk.home / "file"))
    assert "cannot be made (File exists)" in desk.refused(command)


@pytest.mark.parametrize("command", ["status", "retry", "prune"])
def test_a_home_without_a_ledger(desk: Desk, command: str) -> None:
    assert f"There is no ledger in {desk.home} yet. Start one with `nottwice up`." in desk.refused(command)
