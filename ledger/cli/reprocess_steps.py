"""The steps of a run on the command line: show it, list them all, agree or not, cancel. Each in a named person's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ledger.errors import Declined, Misconfigured
from ledger.terminal import NOT_DONE, Command, number, sentences, tell

if TYPE_CHECKING:
    from ledger.database import Database, Transaction
    from ledger.records import Act, Person
    from ledger.settings import Settings
    from ledger.views.reprocess import Run

Who = Annotated[str, typer.Option("--as", metavar="EMAIL", help="Who does it, of \\[console] people.")]
Why = Annotated[str, typer.Option("--reason", "--why", help="Why; it stands in the audit.")]
RunNumber = Annotated[int, typer.Argument(parser=number, metavar="RUN", help="The run's number.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
SAY_WHO = "Say who does it and why: --as EMAIL --reason TEXT."


def approve(run: RunNumber, who: Who = "", reason: Why = "") -> None:
    """Agree to a run as the second person; look at it first, with `show`. Its rows then begin."""
    _step("agree", run, who, reason, "Run {n} begins.")


def decline(run: RunNumber, who: Who = "", reason: Why = "") -> None:
    """Do not agree to a run that waits for a second person: nothing on its list is done."""
    _step("decline", run, who, reason, "Run {n} is declined; nothing on its list was done.")


def cancel(run: RunNumber, who: Who = "", reason: Why = "") -> None:
    """Stop a run before its next row; what is under way ends by itself."""
    _step("cancel", run, who, reason, "Run {n} is cancelled; what was under way ends by itself.")


TRIES = {"agree": "agree to", "decline": "decline", "cancel": "cancel"}


def _step(name: str, run_id: int, who: str, reason: str, said: str) -> None:
    with sentences():
        if not (who and reason.strip()):
            raise Misconfigured(SAY_WHO)
        with visited(who) as (_, database, person):
            assert person is not None  # noqa: S101 - for the type checker: there is a name
            _carry_out(database, name, run_id, person, reason)
    tell(said.format(n=run_id))


def _carry_out(database: Database, name: str, run_id: int, person: Person, reason: str) -> None:
    from uuid import uuid4

    from ledger import audit
    from ledger import reprocess as engine
    from ledger.records import Act

    act = Act(person, uuid4(), reason)
    step: Callable[[Transaction, int, Act], int] = getattr(engine, name)
    try:
        database.run(lambda tx: step(tx, run_id, act), role=person.role)
    except Declined as error:
        words = str(error)
        database.run(
            lambda tx: audit.refused(tx, act, f"{TRIES[name]} a run", "reprocess", run_id, words),
            role=person.role,
        )
        not_done(words)


def list_(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, the newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """Show the runs, newest first: what was asked for, by whom, and how far each is."""
    with sentences(), visited("") as (_, database, _person):
        from ledger.awake import as_viewer
        from ledger.cli import reprocess_words as words
        from ledger.views import reprocess as views_reprocess

        def read(tx: Transaction) -> list[Run]:
            as_viewer(tx)
            return views_reprocess.newest(tx, limit)

        for run in database.run(read):
            tell(words.run_json(run) if as_json else words.run_line(run))


def show(
    run: RunNumber,
    wait: Annotated[bool, typer.Option("--wait", help="Until it is over, with its progress.")] = False,
    finding: Annotated[
        int | None,
        typer.Option(
            parser=number, metavar="NUMBER", help="Read what this finding would send; it is recorded."
        ),
    ] = None,
    who: Who = "",
    reason: Why = "",
    as_json: Json = False,
) -> None:
    """Show a run with the result of each row, and what its handlers proposed that is not what stands.

    Recipients are shown to those who may see them (--as); the text of a finding only behind an entry in the record.
    """
    with sentences(), visited(who) as (_, database, person):
        from ledger.cli import reprocess_show as screen

        found = screen.watched(database, run) if wait else screen.seen(database, run)
        if found is None:
            raise Misconfigured(f"There is no run {run}. The runs: nottwice reprocess list.")
        if finding is not None:
            if not screen.has_found(database, run, finding):
                raise Misconfigured(f"Run {run} has no finding {finding}.")
            _reveal(database, finding, person, reason)
            raise typer.Exit
        for line in screen.lines(database, found, person, as_json=as_json):
            tell(line)
    raise typer.Exit(NOT_DONE if found.failed or found.skipped else 0)


def _reveal(database: Database, finding: int, person: Person | None, reason: str) -> None:
    from uuid import uuid4

    from ledger.cli.reprocess_words import text_lines
    from ledger.kept.reveals import reveal
    from ledger.records import Act

    if person is None:
        raise Misconfigured(SAY_WHO)
    with refusals():
        body = reveal(database, "finding", finding, Act(person, uuid4(), reason))
    for line in text_lines(body):
        tell(line)


@contextmanager
def visited(who: str) -> Iterator[tuple[Settings, Database, Person | None]]:
    from ledger.awake import visit
    from ledger.settings import load
    from ledger.sign_in import people

    settings = load()
    given = people.configured(settings, who) if who else None
    with visit(settings) as database:
        yield settings, database, database.run(lambda tx: people.local(tx, given)) if given else None


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except Declined as error:
        not_done(str(error))


def not_done(words: str) -> NoReturn:
    typer.echo(words, err=True)
    raise typer.Exit(NOT_DONE)


_CODES = "Exit codes: 0 done, 1 refused (the record has the try), 2 cannot start (one sentence says why)."
COMMANDS: dict[Command, str] = {
    approve: f"Example: nottwice reprocess approve 7 --as ana@example.com --reason 'the customer asked'\n\n{_CODES}",
    decline: f"Example: nottwice reprocess decline 7 --as ana@example.com --reason 'not this list'\n\n{_CODES}",
    cancel: f"Example: nottwice reprocess cancel 7 --as bo@example.com --reason 'found another way'\n\n{_CODES}",
    list_: "Example: nottwice reprocess list --json\n\nExit codes: 0 done, 2 cannot start (one sentence says why).",
    show: "Example: nottwice reprocess show 7 --wait\n\n"
    "Exit codes: 0 all rows are done or still to come, 1 some were skipped or failed, 2 cannot start.",
}
