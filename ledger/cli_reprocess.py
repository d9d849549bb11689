"""`nottwice reprocess`: events worked again, actions sent again. It only looks, unless told to go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ledger.errors import Declined, Misconfigured
from ledger.terminal import NOT_DONE, Command, progress, sentences, tell

if TYPE_CHECKING:
    from ledger.database import Database, Transaction
    from ledger.records import Act, Person
    from ledger.records_reprocess import Asked, Plan, Wanted
    from ledger.settings import Settings
    from ledger.views_reprocess import Run

EPILOG = (
    "Example: nottwice reprocess --source shop --since 2026-11-30 --go --as bo@example.com --reason 'wrong tax rate'\n\n"
    "Exit codes: 0 done, 1 not wholly (refused, or rows that are skipped: each is said), 2 cannot start (one sentence says why)."
)
app = typer.Typer(
    name="reprocess",
    help="Work events again, or send actions again. Without --go it only looks.\n\n"
    "`recompute` runs the handlers of completed events once more and sends nothing; `repeat` sends chosen actions again, "
    "and takes a second person; `preview` runs the handlers and undoes what they did (their calls to models are made). "
    "The list is frozen when it is asked for, and workers carry it out at \\[reprocess] pace_per_s.",
    epilog=EPILOG,
    invoke_without_command=True,
    rich_markup_mode="rich",
)

Who = Annotated[str, typer.Option("--as", metavar="EMAIL", help="Who does it, of \\[console] people.")]
Why = Annotated[str, typer.Option("--reason", "--why", help="Why; it stands in the audit.")]
RunNumber = Annotated[int, typer.Argument(metavar="RUN", help="The run's number.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
SAY_WHO = "Say who does it and why: --as EMAIL --reason TEXT."


@app.callback()
def reprocess(
    context: typer.Context,
    mode: Annotated[str, typer.Option(help="recompute, preview or repeat.")] = "recompute",
    event: Annotated[list[int] | None, typer.Option(help="This event; may be given often.")] = None,
    namespace: Annotated[str, typer.Option(help="Events of this namespace.")] = "",
    source: Annotated[str, typer.Option(help="Events of this source.")] = "",
    type_: Annotated[str, typer.Option("--type", help="Events of this type.")] = "",
    since: Annotated[str, typer.Option(help="Events accepted from this day or time on (UTC).")] = "",
    until: Annotated[str, typer.Option(help="And up to this day, or before this time (UTC).")] = "",
    state: Annotated[str, typer.Option(help="Events in this state; others than completed are skipped.")] = "",
    error: Annotated[str, typer.Option(help="Events that failed, ever, with this in the error.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="All events that are completed.")] = False,
    action: Annotated[list[int] | None, typer.Option(help="repeat: this action; may be given often.")] = None,
    finding: Annotated[
        list[int] | None, typer.Option(help="repeat: what a handler proposed in a run, by its number.")
    ] = None,
    even_once_ever: Annotated[
        bool, typer.Option("--even-once-ever", help="repeat: also kinds that go out once ever.")
    ] = False,
    list_: Annotated[
        str, typer.Option("--list", metavar="LIST", help="Only if the list is the one that was shown.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run/--go", help="Only look, or ask for it.")] = True,
    who: Who = "",
    reason: Why = "",
    as_json: Json = False,
) -> None:
    if context.invoked_subcommand is not None:
        return
    with sentences():
        from ledger.cli_reprocess_words import wanted_of

        wanted = wanted_of(
            mode, event, namespace, source, type_, since, until, state, error, everything, action, finding, even_once_ever
        )  # fmt: skip
        if not dry_run and not (who and reason.strip()):
            raise Misconfigured(f"{SAY_WHO} (Or only look: leave --go out.)")
        skipped = _reprocess(wanted, who, reason, list_, as_json, go=not dry_run)
    raise typer.Exit(NOT_DONE if skipped else 0)


def _reprocess(wanted: Wanted, who: str, reason: str, list_: str, as_json: bool, *, go: bool) -> int:
    """Show the list, and ask for it where told to; how many of its rows are skipped."""
    from ledger import cli_reprocess_words as words
    from ledger.records import Role

    with _visit(who) as (settings, database, person):
        made = _planned(settings, database, wanted, person.role if person else Role.VIEWER)
        if list_ and not made.digest.hex().startswith(list_.lower()):
            _not_done(f"The list is no longer the one that was shown: it is {words.short(made)} now.")
        for line in words.plan_json(made) if as_json else words.plan_lines(made, settings):
            tell(line)
        if go and person is not None:
            asked = _request(settings, database, made, person, reason)
            tell(words.asked_json(asked) if as_json else words.asked(asked, made))
        elif not as_json:
            tell(words.how_to_go(made))
    return len(made.rows) - len(made.going)


def _planned(settings: Settings, database: Database, wanted: Wanted, role: Any) -> Plan:
    from ledger import reprocess as engine

    with progress("looking through events") as advance, _refusals():
        return engine.plan(database, wanted, role, once_ever=settings.once_ever, advance=advance)


def _request(settings: Settings, database: Database, made: Plan, person: Person, reason: str) -> Asked:
    from ledger import audit
    from ledger import reprocess as engine
    from ledger.records import Act

    expires_s = settings.console.request_expires_s
    form = database.run(lambda tx: engine.form_of(tx, made, person), role=person.role)
    act = Act(person, form, reason)
    try:
        return database.run(
            lambda tx: engine.request(tx, made, act, settings.reprocess, expires_s=expires_s),
            role=person.role,
        )
    except Declined as error:
        words = f"{error} Asked for {len(made.going):,} rows."
        if not getattr(error, "same_form", False):
            database.run(
                lambda tx: audit.refused(tx, act, f"reprocess: {made.wanted.mode}", "installation", 1, words),
                role=person.role,
            )
        _not_done(str(error))


# ── The steps of a run ────────────────────────────────────────────────────────────────────────────────


def approve(run: RunNumber, who: Who = "", reason: Why = "") -> None:
    """Agree to a run as the second person; look at it first, with `show`. Its rows then begin."""
    _step("agree", run, who, reason, "Run {n} begins.")


def decline(run: RunNumber, who: Who = "", reason: Why = "") -> None:
    """Do not agree to a run that waits for a second person: nothing on its list is done."""
    _step("decline", run, who, reason, "Run {n} is declined; nothing on its list was done.")


def cancel(run: RunNumber, who: Who = "", reason: Why = "") -> None:
    """Stop a run before its next row; what is under way ends by itself."""
    _step("cancel", run, who, reason, "Run {n} is cancelled; what was under way ends by itself.")


def _step(name: str, run_id: int, who: str, reason: str, said: str) -> None:
    with sentences():
        if not (who and reason.strip()):
            raise Misconfigured(SAY_WHO)
        with _visit(who) as (_, database, person):
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
            lambda tx: audit.refused(tx, act, f"{name} to a run", "reprocess", run_id, words),
            role=person.role,
        )
        _not_done(words)


def list_(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, the newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """Show the runs, newest first: what was asked for, by whom, and how far each is."""
    with sentences(), _visit("") as (_, database, _person):
        from ledger import cli_reprocess_words as words
        from ledger import views_reprocess
        from ledger.awake import as_viewer

        def read(tx: Transaction) -> list[Run]:
            as_viewer(tx)
            return views_reprocess.newest(tx, limit)

        for run in database.run(read):
            tell(words.run_json(run) if as_json else words.run_line(run))


def show(
    run: RunNumber,
    wait: Annotated[bool, typer.Option("--wait", help="Until it is over, with its progress.")] = False,
    finding: Annotated[int, typer.Option(help="Read what this finding would send; it is recorded.")] = 0,
    who: Who = "",
    reason: Why = "",
    as_json: Json = False,
) -> None:
    """Show a run with the result of each row, and what its handlers proposed that is not what stands.

    Recipients are shown to those who may see them (--as); the text of a finding only behind an entry in the record.
    """
    with sentences(), _visit(who) as (_, database, person):
        from ledger import cli_reprocess_show as screen

        found = screen.watched(database, run) if wait else screen.seen(database, run)
        if found is None:
            raise Misconfigured(f"There is no run {run}. The runs: nottwice reprocess list.")
        if finding:
            _reveal(database, finding, person, reason)
            raise typer.Exit
        for line in screen.lines(database, found, person, as_json=as_json):
            tell(line)
    raise typer.Exit(NOT_DONE if found.failed or found.skipped else 0)


def _reveal(database: Database, finding: int, person: Person | None, reason: str) -> None:
    from uuid import uuid4

    from ledger.cli_reprocess_words import text_lines
    from ledger.records import Act
    from ledger.reveals import reveal

    if person is None:
        raise Misconfigured(SAY_WHO)
    with _refusals():
        body = reveal(database, "finding", finding, Act(person, uuid4(), reason))
    for line in text_lines(body):
        tell(line)


@contextmanager
def _visit(who: str) -> Iterator[tuple[Settings, Database, Person | None]]:
    from ledger import people
    from ledger.awake import visit
    from ledger.settings import load

    settings = load()
    given = people.configured(settings, who) if who else None
    with visit(settings) as database:
        yield settings, database, database.run(lambda tx: people.local(tx, given)) if given else None


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except Declined as error:
        _not_done(str(error))


def _not_done(words: str) -> NoReturn:
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
