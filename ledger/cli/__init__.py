"""`nottwice`: the list of its commands. What they do stands in this package."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping

import typer
from typer.exceptions import TyperException

from ledger.cli import act as cli_act
from ledger.cli import audit as cli_audit
from ledger.cli import catch_up as cli_catch_up
from ledger.cli import look as cli_look
from ledger.cli import release as cli_release
from ledger.cli import reprocess as cli_reprocess
from ledger.cli import resume as cli_resume
from ledger.cli import run as cli_run
from ledger.cli import stuck as cli_stuck
from ledger.terminal import CANNOT_START, Command

USAGE = typer.BadParameter.__bases__[0]  # typer brings its own click, and does not name this one
ENVIRONMENT = (
    "Settings come from one TOML file (NOTTWICE_CONFIG, else nottwice.toml in NOTTWICE_HOME) and the environment: "
    "NOTTWICE_HOME (data; ~/.nottwice), DATABASE_URL (else a PostgreSQL of our own runs in the home), "
    "NOTTWICE_RECEIVER_PORT (8080), NOTTWICE_CONSOLE_PORT (8501), NOTTWICE_SANDBOX_PORT (8090), "
    "NOTTWICE_SANDBOX_SMTP_PORT (8115).\n\n"
    "Exit codes: 0 done, 1 not wholly done, 2 cannot start (one sentence says why)."
)

app = typer.Typer(
    name="nottwice",
    help="Every e-mail webhook is accepted once, worked once, and what goes out because of it goes out once.\n\n"
    "Start with [bold]nottwice demo[/bold]; `nottwice COMMAND --help` shows an example of each.",
    epilog=ENVIRONMENT,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def main() -> None:
    """The console script. What was typed wrong is one sentence, as every other mistake."""
    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        code = _misused(error)
    sys.exit(code or 0)


def _misused(error: TyperException) -> int:
    """Says what was wrong, of which command, and where its help is; nothing more where the help was shown."""
    words = " ".join(error.format_message().split()) if isinstance(error, USAGE) else ""
    if words:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "nottwice"
        typer.echo(f"{command}: {_ended(words.rstrip('.'))} Help: {command} --help", err=True)
    return CANNOT_START


def _ended(words: str) -> str:
    return words if words.endswith("?") else f"{words}."


def _register(panel: str, commands: Mapping[Command, str], within: typer.Typer = app) -> None:
    """Each with its last lines of help: an example, and its exit codes."""
    for command, epilog in commands.items():
        name = command.__name__.rstrip("_").replace("_", "-")
        within.command(name, rich_help_panel=panel, help=_flowing(command), epilog=epilog)(command)


def _flowing(command: Command) -> str:
    """Its docstring with each paragraph as one line, for the terminal to break; `[alerts]` is no markup."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs).replace("[", "\\[")


_register("Run", cli_run.COMMANDS)
_register("Look", cli_look.COMMANDS)
_register(
    "Act",
    {
        **cli_catch_up.COMMANDS,
        **cli_act.COMMANDS,
        **cli_stuck.COMMANDS,
        **cli_release.COMMANDS,
        **cli_resume.COMMANDS,
    },
)
_register("The record", cli_audit.COMMANDS, cli_audit.app)
_register("The steps of a run", cli_reprocess.COMMANDS, cli_reprocess.app)
app.add_typer(cli_audit.app, rich_help_panel="Look")
app.add_typer(cli_reprocess.app, rich_help_panel="Act")
