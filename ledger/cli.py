"""`nottwice`: starts the processes as processes, and asks the ledger. What it says is for people.

Exit codes: 0 done, 2 it cannot start (one sentence says why), 1 anything else. What a command needs is imported
when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ledger.errors import Misconfigured, Unavailable

CANNOT_START = 2
ENVIRONMENT = (
    "Settings come from one TOML file (NOTTWICE_CONFIG, else nottwice.toml in NOTTWICE_HOME) and the environment: "
    "NOTTWICE_HOME (data; ~/.nottwice), DATABASE_URL (else a PostgreSQL of our own runs in the home), "
    "NOTTWICE_RECEIVER_PORT (8080), NOTTWICE_CONSOLE_PORT (8501), NOTTWICE_SANDBOX_PORT (8090)."
)

app = typer.Typer(
    name="nottwice",
    help="Every e-mail webhook is accepted once, worked once, and what goes out because of it goes out once.\n\n"
    "Start with [bold]nottwice demo[/bold].",
    epilog=ENVIRONMENT,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)


def main() -> None:
    """The console script."""
    app()


@app.command()
def demo() -> None:
    """Run the whole chain against a sandbox provider, with live traffic, until Ctrl-C.

    Makes its own configuration and secrets in NOTTWICE_HOME, then starts PostgreSQL, a receiver, workers, the
    console, a stand-in for the providers, and senders of webhooks. Kills a worker now and then, so that you see
    its work being taken over. The next start finds its data again.
    """
    with _sentences():
        from ledger import demo as chain
        from ledger.running import keep_running
        from ledger.words import demo_banner

        settings = chain.prepare()
        services = chain.services(settings)
        keep_running(settings, services, _tell, lambda: _print(demo_banner(settings)), chain.Killer)


@app.command()
def up() -> None:
    """Run receiver, workers and console on this machine until Ctrl-C.

    Brings the database up to date first, so DATABASE_URL is its owner's. Without one, PostgreSQL is started in
    NOTTWICE_HOME and stopped at the end.
    """
    with _sentences():
        from ledger.processes import services
        from ledger.running import keep_running
        from ledger.settings import load
        from ledger.words import up_banner

        settings = load()
        keep_running(settings, services(settings), _tell, lambda: _print(up_banner(settings)))


@app.command()
def migrate() -> None:
    """Bring the database to this version's schema, as its owner.

    Safe to repeat, and from several places at once. The handlers' own SQL files ([worker] app_sql) come after.
    """
    with _sentences():
        from ledger import running
        from ledger.settings import load

        applied = running.migrate(load())
    for name in applied:
        _tell(f"applied {name}")
    if not applied:
        _tell("The schema is up to date.")


@app.command()
def receive() -> None:
    """Run the receiver, which accepts webhooks.

    Starts without a database too, and answers 503 until it is there. SIGHUP makes it read its configuration again.
    """
    _become("ledger.receiver")


@app.command()
def work() -> None:
    """Run a worker, which does the work and sends.

    Starts without a database too, and waits for it. Run as many as you like, on any machine.
    """
    _become("worker")


@app.command()
def console() -> None:
    """Run the console in the browser, on this machine only."""
    with _sentences():
        from ledger import processes
        from ledger.running import check_database
        from ledger.settings import load

        settings = load()
        own = processes.console(settings)
        processes.refuse_busy_ports([own])
        check_database(settings, "console")
    os.chdir(own.folder or ".")
    os.execve(own.command[0], own.command, dict(own.environment))  # noqa: S606 - no shell is wanted


@app.command()
def sandbox() -> None:
    """Run the sandbox provider: it speaks the providers' APIs, accepts every e-mail and sends none.

    Point a provider's base_url at it to try a configuration: base_url = "http://127.0.0.1:{sandbox_port}".
    """
    _become("worker.sandbox")


@app.command()
def simulate(
    source: Annotated[str, typer.Argument(help="A [sources.NAME] of the configuration.")],
    copies: Annotated[int, typer.Option(min=1, help="Deliveries of each event, all at once.")] = 1,
    burst: Annotated[int, typer.Option(min=1, help="How many different invented events.")] = 1,
    file: Annotated[Path | None, typer.Option(help="Deliver the body in this file instead.")] = None,
) -> None:
    """Post signed webhooks to the receiver, as the provider would.

    Try `nottwice simulate agentmail --copies 50`: fifty answers, one event.
    """
    with _sentences():
        from ledger.settings import load
        from ledger.simulate import send

        settings = load()
        report = send(settings, source, copies=copies, burst=burst, file=file)
    _print(report)


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for monitoring.")] = False,
) -> None:
    """Say how the ledger stands: events and actions by state, what waits, who works."""
    with _sentences():
        from ledger.settings import load
        from ledger.status import read

        found = read(load())
    if as_json:
        _tell(json.dumps(found))
        return
    from ledger.words import status_table

    _print(status_table(found))


def _become(module: str) -> NoReturn:
    """This process becomes the other one, so that signals and exit codes are its own."""
    os.execv(sys.executable, [sys.executable, "-m", module])  # noqa: S606 - no shell is wanted


@contextmanager
def _sentences() -> Iterator[None]:
    """What machine or configuration do not allow is one sentence and exit code 2, never a traceback."""
    try:
        yield
    except (Misconfigured, Unavailable) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(CANNOT_START) from None


def _print(what: object) -> None:
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(what)


def _tell(line: str) -> None:
    typer.echo(line)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
