"""The commands that start processes, each as the process it is: `nottwice demo`, `up`, `receive`, `work` …"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ledger.terminal import EXIT_CODES, Command, draw, sentences, tell


def demo() -> None:
    """Run the whole chain against a sandbox provider, with live traffic, until Ctrl-C.

    Makes its own configuration and secrets in NOTTWICE_HOME, then starts PostgreSQL, a receiver, workers, the
    console, a stand-in for the providers, and senders of webhooks. Kills a worker now and then, so that you see
    its work being taken over. The next start finds its data again.
    """
    with sentences():
        from ledger.cli.words import demo_banner
        from ledger.running import demo as chain
        from ledger.running import keep_running

        settings = chain.prepare()
        services = chain.services(settings)
        keep_running(settings, services, tell, lambda: draw(demo_banner(settings)), chain.Killer)


def up() -> None:
    """Run receiver, workers and console on this machine until Ctrl-C.

    Brings the database up to date first, so DATABASE_URL is its owner's. Without one, PostgreSQL is started in
    NOTTWICE_HOME and stopped at the end. SIGHUP makes receiver and workers read configuration and secrets again.
    """
    with sentences():
        from ledger.cli.words import up_banner
        from ledger.running import keep_running
        from ledger.running.processes import services
        from ledger.settings import load

        settings = load()
        keep_running(settings, services(settings), tell, lambda: draw(up_banner(settings)))


def migrate() -> None:
    """Bring the database to this version's schema, as its owner.

    Safe to repeat, and from several places at once. The handlers' own SQL files ([worker] app_sql) come after.
    """
    with sentences():
        from ledger import running
        from ledger.settings import load

        applied = running.migrate(load())
    for name in applied:
        tell(f"applied {name}")
    if not applied:
        tell("The schema is up to date.")


def receive() -> None:
    """Run the receiver, which accepts webhooks.

    Starts without a database too, and answers 503 until it is there. SIGHUP makes it read its configuration again.
    """
    _become("ledger.receiver")


def work() -> None:
    """Run a worker, which does the work and sends.

    Starts without a database too, and waits for it. Run as many as you like, on any machine. SIGHUP makes it read
    configuration and secrets again.
    """
    _become("worker")


def console() -> None:
    """Run the console in the browser: for this machine only, unless people sign in.

    Where they sign in is said in [console.sign_in] or [console.proxy], and as what in [console.roles]: docs/sign-in.md.
    """
    with sentences():
        from ledger.running import check_database, make_home, processes
        from ledger.settings import load

        settings = load()
        make_home(settings.home)
        own = processes.console(settings)
        processes.refuse_busy_ports([own])
        check_database(settings, "console")
        processes.make_folders([own])
    os.chdir(own.folder or ".")
    os.execve(own.command[0], own.command, dict(own.environment))  # noqa: S606 - no shell is wanted


def sandbox() -> None:
    """Run the sandbox provider: it speaks the providers' APIs, accepts every e-mail and sends none.

    Point a provider's base_url at it to try a configuration: base_url = "http://127.0.0.1:{sandbox_port}".
    """
    _become("worker.sandbox")


def simulate(
    source: Annotated[str, typer.Argument(help="A \\[sources.NAME] of the configuration.")],
    copies: Annotated[int, typer.Option(min=1, help="Deliveries of each event, all at once.")] = 1,
    burst: Annotated[int, typer.Option(min=1, help="How many different invented events.")] = 1,
    file: Annotated[Path | None, typer.Option(help="Deliver the body in this file instead.")] = None,
) -> None:
    """Post signed webhooks to the receiver, as the provider would.

    However many copies are delivered, one event is accepted.
    """
    with sentences():
        from ledger.settings import load
        from ledger.simulated.simulate import send

        settings = load()
        report = send(settings, source, copies=copies, burst=burst, file=file)
    draw(report)


def _become(module: str) -> NoReturn:
    """This process becomes the other one, so that signals and exit codes are its own."""
    from ledger.running import processes

    os.execv(sys.executable, processes.module(module))  # noqa: S606 - no shell is wanted


ENDS = "Exit codes: 0 ended by SIGTERM or Ctrl-C, 2 cannot start (one sentence says why)."
COMMANDS: dict[Command, str] = {
    demo: f"Example: nottwice demo\n\n{ENDS}",
    up: f"Example: NOTTWICE_HOME=/srv/nottwice nottwice up\n\n{ENDS}",
    receive: f"Example: NOTTWICE_RECEIVER_PORT=9000 nottwice receive\n\n{ENDS}",
    work: f"Example: DATABASE_URL=postgresql://nottwice_worker@db/ledger nottwice work\n\n{ENDS[:-1]}, "
    "75 a handler ran too long: start it again.",
    console: f"Example: NOTTWICE_CONSOLE_PORT=9001 nottwice console\n\n{ENDS}",
    sandbox: f"Example: NOTTWICE_SANDBOX_PORT=9090 nottwice sandbox\n\n{ENDS}",
    migrate: f"Example: DATABASE_URL=postgresql://owner@db/ledger nottwice migrate\n\n{EXIT_CODES}",
    simulate: f"Example: nottwice simulate agentmail --copies 50\n\n{EXIT_CODES}",
}
