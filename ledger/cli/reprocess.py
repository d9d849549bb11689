"""`nottwice reprocess`: events worked again, actions sent again. It only looks, unless told to go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.reprocess_steps import COMMANDS as COMMANDS
from ledger.cli.reprocess_steps import SAY_WHO, Json, Who, Why, not_done, refusals, visited
from ledger.errors import Declined, Misconfigured
from ledger.terminal import NOT_DONE, number, progress, sentences, tell

if TYPE_CHECKING:
    from ledger.database import Database
    from ledger.records import Person
    from ledger.records.reprocess import Asked, Plan, Wanted
    from ledger.settings import Settings

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


@app.callback()
def reprocess(
    context: typer.Context,
    mode: Annotated[str, typer.Option(help="recompute, preview or repeat.")] = "recompute",
    event: Annotated[
        list[int] | None,
        typer.Option(parser=number, metavar="NUMBER", help="This event; may be given often."),
    ] = None,
    namespace: Annotated[str, typer.Option(help="Events of this namespace.")] = "",
    source: Annotated[str, typer.Option(help="Events of this source.")] = "",
    type_: Annotated[str, typer.Option("--type", help="Events of this type.")] = "",
    since: Annotated[str, typer.Option(help="Events accepted from this day or time on (UTC).")] = "",
    until: Annotated[str, typer.Option(help="And up to this day, or before this time (UTC).")] = "",
    state: Annotated[str, typer.Option(help="Events in this state; others than completed are skipped.")] = "",
    error: Annotated[str, typer.Option(help="Events that failed, ever, with this in the error.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="All events that are completed.")] = False,
    action: Annotated[
        list[int] | None,
        typer.Option(parser=number, metavar="NUMBER", help="repeat: this action; may be given often."),
    ] = None,
    finding: Annotated[
        list[int] | None,
        typer.Option(
            parser=number, metavar="NUMBER", help="repeat: what a handler proposed in a run, by its number."
        ),
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
        from ledger.cli.reprocess_words import wanted_of

        wanted = wanted_of(
            mode, event, namespace, source, type_, since, until, state, error, everything, action, finding, even_once_ever
        )  # fmt: skip
        if not dry_run and not (who and reason.strip()):
            raise Misconfigured(f"{SAY_WHO} (Or only look: leave --go out.)")
        skipped = _reprocess(wanted, who, reason, list_, as_json, go=not dry_run)
    raise typer.Exit(NOT_DONE if skipped else 0)


def _reprocess(wanted: Wanted, who: str, reason: str, list_: str, as_json: bool, *, go: bool) -> int:
    """Show the list, and ask for it where told to; how many of its rows are skipped."""
    from ledger.cli import reprocess_words as words
    from ledger.records import Role

    with visited(who) as (settings, database, person):
        made = _planned(settings, database, wanted, person.role if person else Role.VIEWER)
        if list_ and not made.digest.hex().startswith(list_.lower()):
            not_done(f"The list is no longer the one that was shown: it is {words.short(made)} now.")
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
    from ledger.cli.selections import refuse_mistyped

    with progress("looking through events") as advance, refusals():
        made = engine.plan(database, wanted, role, once_ever=settings.once_ever, advance=advance)
    if not any(row.exists for row in made.rows):
        refuse_mistyped(
            database, settings, namespace=wanted.namespace, source=wanted.source, type_=wanted.type
        )
    return made


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
        not_done(str(error))
