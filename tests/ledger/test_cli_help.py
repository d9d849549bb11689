"""What the command line says of itself: help, examples, exit codes, completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ledger import environment, terminal
from ledger.cli import app, main
from tests import starts
from tests.fix_home import HANGS_S, NOTTWICE

COMMANDS = sorted(
    each.name or each.callback.__name__.replace("_", "-") for each in app.registered_commands if each.callback
)


def said(*arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_help_names_every_command_the_environment_and_the_exit_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in environment.ports():
        monkeypatch.delenv(f"NOTTWICE_{name.upper()}", raising=False)
    whole = said()
    for word in (
        *COMMANDS,
        "DATABASE_URL",
        "NOTTWICE_CONFIG",
        *(f"NOTTWICE_{name.upper()} ({port})" for name, port in environment.ports().items()),
        "Exit codes: 0 done, 1 not wholly done, 2 cannot start",
    ):
        assert word in whole


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_and_its_exit_codes(command: str) -> None:
    whole = said(command)
    assert "Example: " in whole and f"nottwice {command}" in whole.split("Example: ")[1]
    assert "Exit codes: 0 " in whole and "2 c" in whole.split("Exit codes: ")[1]


def test_names_of_tables_are_not_taken_for_markup() -> None:
    assert "[alerts]" in said("check") and "[console] people" in said("retry")
    assert "[sources.NAME]" in said("simulate")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_shown_for_a_shell(shell: str) -> None:
    """`--install-completion` writes the same text into the shell's own start file."""
    run = [sys.executable, "-m", "ledger.cli", "--show-completion", shell]
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = starts.run(run, env=environment, timeout=HANGS_S)
    assert done.returncode == 0, done.stderr
    assert "_COMPLETE=complete_" + shell in done.stdout


def test_completion_is_installed_into_the_home_it_is_given(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "ledger.cli", "--install-completion", "bash"]
    environment = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert starts.run(run, env=environment, timeout=HANGS_S).returncode == 0
    written = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert "_COMPLETE=complete_bash" in written and "source" in (tmp_path / ".bashrc").read_text()


def test_completion_completes_commands_and_options() -> None:
    def completed(line: str) -> list[str]:
        ask = {"_NOTTWICE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        return starts.run([NOTTWICE], env={**os.environ, **ask}, timeout=HANGS_S).stdout.split()

    assert completed("nottwice re") == ["receive", "retry", "release", "resume", "reprocess"]
    assert completed("nottwice prune --d") == ["--dry-run"]


def test_a_mistyped_command_or_option_says_what_is_meant() -> None:
    for arguments, words in ((["statsu"], "Did you mean 'status'?"), (["status", "--jsn"], "--json")):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 2 and words in done.output and "Traceback" not in done.output


# ── Lines ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\r\n b\tc", "a b c"),
        ("\x1b]0;title\x07\x9b2J", "\ufffd]0;title\ufffd\ufffd2J"),
        ("x" * 300, "x" * 199 + "…"),
        ("\u202etxt\u2028", "\ufffdtxt"),
    ],
)
def test_text_from_outside_is_a_part_of_one_line(text: str, line: str) -> None:
    assert terminal.plain(text) == line


def test_progress_is_quiet_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress("counting") as advance:
        advance(3, 10)
    assert capsys.readouterr() == ("", "")


def test_progress_is_drawn_on_a_terminal() -> None:
    """A real one: a pseudo-terminal as standard error."""
    ours, theirs = os.openpty()
    draw = "from ledger.terminal import progress\nwith progress('counting') as advance: advance(3, 10)"
    done = subprocess.run(
        [sys.executable, "-c", draw],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
        check=True,
    )
    os.close(theirs)
    drawn = os.read(ours, 65_536).decode()
    os.close(ours)
    assert "counting" in drawn and "3/10" in drawn and done.stdout == b""


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("retry --foo", "nottwice retry: No such option: --foo. Help: nottwice retry --help"),
        ("statsu", "nottwice: No such command 'statsu'. Did you mean 'status'? Help: nottwice --help"),
        ("bogus", "nottwice: No such command 'bogus'. Help: nottwice --help"),
        ("simulate", "nottwice simulate: Missing argument 'source'. Help: nottwice simulate --help"),
        (
            "audit verify x",
            "nottwice audit verify: Got unexpected extra argument(s) (x). Help: nottwice audit verify --help",
        ),
    ],
)
def test_what_was_typed_wrong_is_one_sentence(
    typed: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["nottwice", *typed.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, *capsys.readouterr()) == (2, "", sentence + "\n")


def test_without_a_command_the_help_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["nottwice"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 2 and "Usage: nottwice" in said.out + said.err
