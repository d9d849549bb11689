"""The commands that change the ledger: `nottwice retry`, in a person's name, and `nottwice prune`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ledger.cli.told import described, tell_refused
from ledger.errors import Declined, Misconfigured
from ledger.terminal import EXIT_CODES, NOT_DONE, Command, number, plain, progress, sentences, tell

if TYPE_CHECKING:
    from ledger.cli.retrying import Chosen, Filter
    from ledger.database import Database
    from ledger.retention import Pruned
    from ledger.settings import Settings


def retry(
    events: Annotated[
        list[int] | None, typer.Argument(parser=number, help="Numbers of events that are set aside.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All that are set aside, or those filtered.")
    ] = False,
    namespace: Annotated[str, typer.Option(help="Only of this namespace.")] = "",
    source: Annotated[str, typer.Option(help="Only of this source.")] = "",
    type_: Annotated[str, typer.Option("--type", help="Only of this event type.")] = "",
    error: Annotated[str, typer.Option(help="Only those whose last error has this in it.")] = "",
    who: Annotated[
        str, typer.Option("--as", metavar="EMAIL", help="Who does it, of \\[console] people.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Why; it stands in the audit.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be tried, and change nothing.")
    ] = False,
    agree: Annotated[
        int | None,
        typer.Option(
            parser=number,
            metavar="REQUEST",
            help="Agree to the list that somebody else asked for, and carry it out; again, to carry on where that was stopped.",
        ),
    ] = None,
) -> None:
    """Try events again that were set aside, in a named person's name.

    Each gets more attempts on top of those it had, and a row in the audit. Engineers and admins may. More than
    [reprocess] second_person_above within an hour take two people: the first one's list waits as a request.
    """
    with sentences():
        from ledger.cli.retrying import Filter
        from ledger.settings import load

        if events and everything:
            raise Misconfigured(
                "Both numbers and --all were given. Name events by their numbers, or say --all."
            )
        if agree and (events or everything or dry_run or namespace or source or type_ or error):
            raise Misconfigured(
                "--agree stands for a whole list as it was asked for: name nothing beside it."
            )
        if not events and not everything and not agree:
            raise Misconfigured("Name events by their numbers, or say --all (with a filter, if you like).")
        if not dry_run and not (who and reason.strip()):
            raise Misconfigured(
                "Say who does it and why: --as EMAIL --reason TEXT. (Or only look: --dry-run.)"
            )
        wanted = Filter(tuple(events or ()), namespace, source, type_, error)
        settings = load()
        if agree:
            refused = _agree(settings, agree, who, reason)
        elif dry_run:
            refused = _show(settings, wanted)
        else:
            refused = _retry(settings, wanted, who, reason)
    raise typer.Exit(NOT_DONE if refused else 0)


def _show(settings: Settings, wanted: Filter) -> int:
    from ledger.awake import visit
    from ledger.cli.retrying import not_set_aside

    with visit(settings) as database:
        chosen, missing = _chosen(database, settings, wanted), not_set_aside(database, wanted.ids)
    for event in chosen:
        tell(described(event))
    tell_refused(missing)
    tell(f"Would be tried again: {len(chosen)}.")
    return len(missing)


def _chosen(database: Database, settings: Settings, wanted: Filter) -> list[Chosen]:
    """Those that are set aside and wanted. Where none is, a mistyped filter is told from an empty answer."""
    from ledger.cli.retrying import listed
    from ledger.cli.selections import refuse_mistyped

    found = listed(database, wanted)
    if not found:
        refuse_mistyped(
            database, settings, namespace=wanted.namespace, source=wanted.source, type_=wanted.type
        )
    return found


def _retry(settings: Settings, wanted: Filter, who: str, reason: str) -> int:
    from ledger.awake import visit
    from ledger.cli.retrying import ask_second, not_set_aside, put_back
    from ledger.sign_in import people

    given = people.configured(settings, who)
    with visit(settings) as database, progress("trying again") as advance:
        chosen, refused = _chosen(database, settings, wanted), not_set_aside(database, wanted.ids)
        person = database.run(lambda tx: people.local(tx, given))
        expires_s = settings.console.request_expires_s
        if asked := ask_second(database, chosen, person, reason, expires_s=expires_s):
            tell(f"{asked[1]} Somebody else: nottwice retry --agree {asked[0]} --as EMAIL --reason TEXT")
            return len(chosen)
        tried = list(put_back(database, chosen, person, reason, lambda n: advance(n, len(chosen))))
    refused += [one for one in tried if one.refusal]
    tell_refused(refused)
    tell(f"Tried again, as {plain(given.name)}: {sum(not one.refusal for one in tried)}.")
    return len(refused)


def _agree(settings: Settings, request_id: int, who: str, reason: str) -> int:
    from ledger.awake import visit
    from ledger.cli import retrying
    from ledger.sign_in import people

    given = people.configured(settings, who)
    with visit(settings) as database, progress("carrying out") as advance:
        person = database.run(lambda tx: people.local(tx, given))
        try:
            request = retrying.agree(database, request_id, person, reason)
        except Declined as error:
            tell(plain(str(error), 300))
            return 1
        n = len(request.rows)
        tried = list(retrying.carried_out(database, request, person, reason, lambda done: advance(done, n)))
    refused = [one for one in tried if one.refusal]
    tell_refused(refused)
    whose = f"request {request_id} of {plain(request.asked_by)}, as {plain(given.name)}"
    again = request.behind is not None
    before = f"; {request.behind} were done before, or had changed" if again else ""
    tell(
        f"{'Carried on with' if again else 'Agreed to'} {whose}: {n - len(refused)} done ({request.act}){before}."
    )
    return len(refused)


def prune(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would go, and change nothing.")
    ] = False,
) -> None:
    """Remove what is over the time that [retention] gives it, as the database's owner or under the worker's login.

    Contents and keys of completed events whose actions are settled; contents, recipients and, much later, keys of settled
    actions; what lies in quarantine; minutes of the counters, which become hours. Never what is unfinished: the rows
    stay, with states and times. Workers do the same by themselves. May be stopped and repeated at any time, and runs
    beside everything else.
    """
    with sentences():
        from ledger import retention
        from ledger.awake import visit
        from ledger.settings import load

        settings = load()
        with visit(settings, "owner") as database, progress("looking") as advance:
            once_ever = settings.once_ever
            done = list(
                retention.prune(
                    database, settings.retention, once_ever=once_ever, dry_run=dry_run, advance=advance
                )
            )
    for one in done:
        tell(_removed(one, "would be removed" if dry_run else "removed"))


def _removed(one: Pruned, verb: str) -> str:
    where = f" of {plain(one.namespace)}" if one.namespace else ""
    size = f" ({one.content_bytes:,} bytes)" if one.content_bytes else ""
    return f"{one.what}{where}, older than {days(one.older_than_days)}: {one.rows:,} {verb}{size}"


def days(n: float) -> str:
    return "1 day" if n == 1 else f"{n:g} days"


COMMANDS: dict[Command, str] = {
    retry: "Example: nottwice retry --all --source shop --as bo@example.com --reason 'the shop answers again'\n\n"
    "Exit codes: 0 done, 1 some were not tried (each says why), 2 cannot start (one sentence says why).",
    prune: f"Example: nottwice prune --dry-run\n\n{EXIT_CODES}",
}
