"""`nottwice audit list | verify | export`: what is asked for, what is said, exit codes, and who may."""

from __future__ import annotations

import csv
import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from ledger import audit
from ledger.audit import seals
from ledger.cli import app
from ledger.records import Act
from tests.fix_home import NOBODY_LISTENS, NOTTWICE, UNSAFE
from tests.fix_sends import Sends
from tests.ledger.test_seals import entries

Command = Callable[..., Result]
PEOPLE = """
[console]
people = [
    { name = "Ann", email = "ann@example.com", role = "support" },
    { name = "Eve", email = "eve@example.com", role = "auditor" },
]
"""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, login_url: Callable[[str], str]) -> Command:
    """Runs `nottwice audit …` on the test's database, under the console's login."""
    file = tmp_path / "nottwice.toml"
    file.write_text(UNSAFE + PEOPLE)
    given = {"NOTTWICE_HOME": str(tmp_path), "NOTTWICE_CONFIG": str(file), "COLUMNS": "120"}
    for name, value in (given | {"DATABASE_URL": login_url("nottwice_console")}).items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str, **environment: str) -> Result:
        return CliRunner().invoke(app, ["audit", *arguments], env=environment)

    return run


def numbers(done: Result) -> list[int]:
    assert done.exit_code == 0, done.output
    return [int(line.split()[0]) for line in done.stdout.splitlines()]


def sealed(sends: Sends, n: int) -> list[int]:
    ids = entries(sends, n)
    sends.by_worker.run(seals.seal)
    return ids


# ── list ──────────────────────────────────────────────────────────────────────────────────────────────


def test_list_shows_the_newest_first_and_takes_what_fits_all_of_it(command: Command, sends: Sends) -> None:
    ids = entries(sends, 3)
    sends.sql(
        "INSERT INTO nottwice.audit (role, act, entity, entity_id, outcome) VALUES ('policy', 'dropped', 'event', 3, 'done')"
    )
    assert numbers(command("list")) == [ids[2] + 1, *ids[::-1]]
    assert numbers(command("list", "--limit", "1")) == [ids[2] + 1]
    assert numbers(command("list", "--person", "ANN@example.com")) == ids[::-1]
    assert numbers(command("list", "--person", "policy")) == [ids[2] + 1]
    assert numbers(command("list", "--about", "action:2")) == [ids[1]]
    assert numbers(command("list", "--outcome", "done", "--act", "dropped")) == [ids[2] + 1]
    assert numbers(command("list", "--since", "2001-01-01", "--until", "2001-12-31")) == []
    nothing = command("list", "--until", "2001-12-31T10:00")
    assert (nothing.stdout, nothing.stderr) == ("", "Nothing in the record fits.\n")
    line = command("list", "--about", "action:2").stdout
    assert " Ann  try  action 2  refused: no · The log shows it.\n" in line


def test_list_as_json_is_what_the_export_holds(command: Command, sends: Sends) -> None:
    sealed(sends, 2)
    (one, _) = [json.loads(line) for line in command("list", "--json").stdout.splitlines()]
    assert (one["who"], one["entity"], one["entity_id"], one["sequence"]) == ("Ann", "action", 2, 2)
    assert (
        one["hash"]
        == bytes(sends.rows("SELECT hash FROM nottwice.audit_seals WHERE sequence = 2")[0].hash).hex()
    )


def test_words_of_strangers_are_parts_of_one_line(command: Command, sends: Sends) -> None:
    ann = sends.person("Ann")
    act = Act(ann, sends.act(ann).form_id, "two\nlines \x1b[2J\u202eback")
    sends.decide(act, lambda tx: audit.refused(tx, act, "try", "action", 1, "[red]no[/red]"))
    done = command("list")
    assert done.stdout.count("\n") == 1 and "\x1b" not in done.stdout and "\u202e" not in done.stdout
    assert "refused: [red]no[/red] · two lines" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--since", "yesterday"), "--since yesterday is no time. Write 2026-11-30"),
        (("--since", "2026-11-02", "--until", "2026-11-01"), "is not before --until 2026-11-01"),
        (("--about", "mail"), "--about mail is not known. One of: event, action"),
        (("--about", "action:x"), "has no number behind its colon"),
        (("--outcome", "lost"), "--outcome lost is not known. One of: done, refused, failed."),
        (("--person", "nobody@example.com"), "is nobody on record"),
    ],
)
def test_a_wrong_argument_is_explained(command: Command, arguments: tuple[str, ...], words: str) -> None:
    done = command("list", *arguments)
    assert done.exit_code == 2 and words in done.stderr and done.stderr.count("\n") == 1


# ── verify ────────────────────────────────────────────────────────────────────────────────────────────


def test_verify_says_whole_with_the_last_seal_which_can_be_kept(command: Command, sends: Sends) -> None:
    ids = sealed(sends, 3)
    done = command("verify", "--as", "eve@example.com")
    assert done.exit_code == 0 and done.stdout.startswith("The record is whole: 3 entries. Last seal: 3:")
    assert done.stderr == ""
    kept = done.stdout.split()[-1]
    assert command("verify", "--kept", kept).exit_code == 0
    (check,) = sends.rows(
        "SELECT p.name, c.entries, c.broken FROM nottwice.audit_checks c JOIN nottwice.people p ON p.id = c.person_id"
    )
    assert tuple(check) == ("Eve", 3, None)
    sends.sql("ALTER TABLE nottwice.audit_checks DISABLE TRIGGER USER; DELETE FROM nottwice.audit_checks")
    sends.sql(
        "ALTER TABLE nottwice.audit_seals DISABLE TRIGGER USER; DELETE FROM nottwice.audit_seals WHERE sequence = 3"
    )
    sends.sql("ALTER TABLE nottwice.audit DISABLE TRIGGER USER; DELETE FROM nottwice.audit WHERE id = 3")
    cut = command("verify", "--kept", kept)
    assert cut.exit_code == 1
    assert cut.stdout.startswith(f"The record ends too early, behind entry {ids[1]}.")


def test_a_check_in_nobodys_name_is_not_kept_and_by_who_may_not_it_is_refused_on_record(
    command: Command, sends: Sends
) -> None:
    sealed(sends, 1)
    done = command("verify")
    assert (done.exit_code, done.stdout.startswith("The record is whole: 1 entry.")) == (0, True)
    assert done.stderr.startswith("Not kept for the audit page and the next check: nobody checked by name")
    refused = command("verify", "--as", "ann@example.com")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == "Not checked: An auditor or admin checks and exports the record.\n"
    (entry,) = sends.rows("SELECT act, outcome, role FROM nottwice.audit WHERE entity = 'audit'")
    assert tuple(entry) == ("checked the record", "refused", "support")
    assert sends.rows("SELECT FROM nottwice.audit_checks") == []


def test_verify_names_the_first_that_does_not_fit_and_exits_1(command: Command, sends: Sends) -> None:
    ids = sealed(sends, 4)
    sends.sql("ALTER TABLE nottwice.audit DISABLE TRIGGER USER")
    sends.sql("UPDATE nottwice.audit SET why = 'other' WHERE id > :id", id=ids[1])
    sends.sql("ALTER TABLE nottwice.audit ENABLE TRIGGER USER")
    done = command("verify", NOTTWICE_PERSON="eve@example.com")
    assert done.exit_code == 1
    assert done.stdout.startswith(
        f"Entry {ids[2]} does not fit the one before it. Entry {ids[2]} was changed"
    )
    assert "Do not change anything" in done.stdout
    assert sends.rows("SELECT broken_entry FROM nottwice.audit_checks")[0].broken_entry == ids[2]


def test_verify_warns_of_late_seals_and_stays_whole(command: Command, sends: Sends) -> None:
    sealed(sends, 1)
    entries(sends, 2)
    sends.sql("UPDATE nottwice.audit_unsealed SET since = since - interval '2 min'")
    done = command("verify")
    assert done.exit_code == 0 and "1 entry." in done.stdout
    assert "Warning: 2 entries wait for a seal for over a minute. Does a worker run?" in done.stderr


def test_verify_of_an_empty_record(command: Command) -> None:
    assert command("verify").stdout.startswith("The record is whole: 0 entries.")


@pytest.mark.parametrize("kept", ["3", "0:" + "00" * 32, "3:zz", "3:ab", "x:" + "00" * 32])
def test_a_malformed_seal_is_explained(command: Command, kept: str) -> None:
    done = command("verify", "--kept", kept)
    assert done.exit_code == 2 and "--kept is NUMBER:SEAL" in done.stderr


def test_a_login_that_may_not_and_a_database_that_is_away_are_sentences(
    command: Command, login_url: Callable[[str], str]
) -> None:
    for url, words in ((login_url("nottwice_worker"), "login may not"), (NOBODY_LISTENS, "database")):
        done = command("verify", DATABASE_URL=url)
        assert done.exit_code == 2 and words in done.stderr and done.stderr.count("\n") == 1


# ── export ────────────────────────────────────────────────────────────────────────────────────────────


def test_export_into_a_file_of_its_own_is_recorded(command: Command, sends: Sends, tmp_path: Path) -> None:
    ids, file = sealed(sends, 3), tmp_path / "record.csv"
    done = command("export", str(file), "--as", "eve@example.com", "--about", "action")
    assert done.exit_code == 0, done.output
    assert done.stderr == f"3 entries handed out as CSV, by Eve; recorded as entry {ids[2] + 1}.\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and file.read_bytes().startswith(b"\xef\xbb\xbfNo.,")
    with file.open(encoding="utf-8-sig", newline="") as lines:
        assert [int(row["No."]) for row in csv.DictReader(lines)] == ids
    note = sends.rows(
        "SELECT a.*, p.name FROM nottwice.audit a JOIN nottwice.people p ON p.id = a.person_id ORDER BY id"
    )[-1]
    assert (note.name, note.role, note.act, note.detail) == (
        "Eve",
        "auditor",
        "exported the record",
        "3 entries as CSV: about action",
    )


def test_export_never_takes_the_place_of_a_file(command: Command, sends: Sends, tmp_path: Path) -> None:
    entries(sends, 1)
    (tmp_path / "there.csv").write_text("mine")
    for file in (tmp_path / "there.csv", tmp_path / "no" / "folder.csv"):
        done = command("export", str(file), "--as", "eve@example.com")
        assert done.exit_code == 2 and "cannot be written" in done.stderr
    assert (tmp_path / "there.csv").read_text() == "mine" and len(
        sends.rows("SELECT FROM nottwice.audit")
    ) == 1


def test_export_as_json_lines_to_standard_output(command: Command, sends: Sends) -> None:
    ids = entries(sends, 2)
    done = command("export", "--as", "eve@example.com", "--format", "jsonl")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ids


@pytest.mark.parametrize(
    ("name", "said", "as_json"),
    [
        ("e.jsonl", (), True),
        ("e.JSONL", (), True),
        ("e.txt", (), False),
        ("e.jsonl", ("--format", "csv"), False),
        ("e.csv", ("--format", "jsonl"), True),
    ],
)
def test_the_form_is_as_said_and_else_as_the_name_ends(
    command: Command, sends: Sends, tmp_path: Path, name: str, said: tuple[str, ...], as_json: bool
) -> None:
    entries(sends, 1)
    done = command("export", str(tmp_path / name), "--as", "eve@example.com", *said)
    assert ("as JSON lines, by Eve" if as_json else "as CSV, by Eve") in done.stderr
    assert (tmp_path / name).read_text().startswith("{") is as_json


def test_export_by_who_may_not_is_refused_and_on_record(
    command: Command, sends: Sends, tmp_path: Path
) -> None:
    entries(sends, 1)
    done = command("export", str(tmp_path / "x.csv"), "--as", "ann@example.com")
    assert done.exit_code == 1 and "An auditor or admin checks and exports the record." in done.stderr
    assert not (tmp_path / "x.csv").exists()
    (_, tried) = sends.rows("SELECT act, outcome, role FROM nottwice.audit ORDER BY id")
    assert tuple(tried) == ("exported the record", "refused", "support")


def test_an_empty_export_is_explained_and_leaves_no_file(
    command: Command, sends: Sends, tmp_path: Path
) -> None:
    done = command("export", str(tmp_path / "x.csv"), "--as", "eve@example.com")
    assert done.exit_code == 1 and "nothing to export" in done.stderr and not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Say who hands it out: --as EMAIL"),
        (("--as", "eve@example.com", "--format", "xlsx"), "--format xlsx is not known. One of: csv, jsonl."),
        (
            ("--as", "x@example.com"),
            "not among [console] people; known there: ann@example.com, eve@example.com",
        ),
    ],
)
def test_an_export_by_nobody_or_as_nothing_is_explained(
    command: Command, arguments: tuple[str, ...], words: str
) -> None:
    done = command("export", *arguments)
    assert done.exit_code == 2 and words in done.stderr


# ── As a process ──────────────────────────────────────────────────────────────────────────────────────


def test_progress_is_on_the_terminal_and_the_answer_on_standard_output(
    command: Command, sends: Sends
) -> None:
    """A real terminal as standard error; `command` set the environment."""
    sealed(sends, 3)
    ours, theirs = os.openpty()
    done = subprocess.run(
        [NOTTWICE, "audit", "verify"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
        check=True,
    )
    os.close(theirs)
    drawn = os.read(ours, 65_536).decode()
    os.close(ours)
    assert "checking entries" in drawn and done.stdout.startswith(b"The record is whole: 3 entries.")


@pytest.mark.parametrize("name", ["list", "verify", "export"])
def test_each_shows_an_example_and_its_exit_codes(command: Command, name: str) -> None:
    said = " ".join(command(name, "--help").output.split())
    assert f"Example: nottwice audit {name}" in said and "Exit codes: 0 " in said
