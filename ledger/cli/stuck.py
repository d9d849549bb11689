"""`nottwice set-aside` and `nottwice hand-back`: stuck events, by their numbers, in a named person's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ledger.cli.told import described, tell_refused
from ledger.errors import Misconfigured
from ledger.terminal import NOT_DONE, Command, number, plain, progress, sentences, tell

if TYPE_CHECKING:
    from ledger.settings import Settings


class Deed(NamedTuple):
    audited: str  # as `by_two.DEEDS` and the audit have it
    done: str


ASIDE, BACK = Deed("set aside", "set aside"), Deed("hand back", "handed back")
Events = Annotated[list[int], typer.Argument(parser=number, help="Numbers of events.")]
Who = Annotated[str, typer.Option("--as", metavar="EMAIL", help="Who does it, of \\[console] people.")]
Reason = Annotated[str, typer.Option("--reason", "--why", help="Why; it stands in the audit.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]


def set_aside(events: Events, who: Who = "", reason: Reason = "", dry_run: DryRun = False) -> None:
    """Let nobody work on these events until a person tries them again, in a named person's name.

    Also one that a worker has in hand: it can complete nothing of it any more. Each has a row in the audit. Engineers and
    admins may; more than [reprocess] second_person_above within an hour take two people, as with retry.
    """
    _run(ASIDE, events, who, reason, dry_run=dry_run)


def hand_back(events: Events, who: Who = "", reason: Reason = "", dry_run: DryRun = False) -> None:
    """Take these events out of their workers' hands, due at once, in a named person's name.

    Whether their lease has ended or not: the worker that had one can complete nothing of it any more. Each has a row in the
    audit. Engineers and admins may; more than [reprocess] second_person_above within an hour take two people.
    """
    _run(BACK, events, who, reason, dry_run=dry_run)


def _run(deed: Deed, events: list[int], who: str, reason: str, *, dry_run: bool) -> None:
    with sentences():
        from ledger.settings import load

        if not dry_run and not (who and reason.strip()):
            raise Misconfigured(
                "Say who does it and why: --as EMAIL --reason TEXT. (Or only look: --dry-run.)"
            )
        ids, settings = list(dict.fromkeys(events)), load()
        refused = _show(settings, deed, ids) if dry_run else _act(settings, deed, ids, who, reason)
    raise typer.Exit(NOT_DONE if refused else 0)


def _show(settings: Settings, deed: Deed, ids: list[int]) -> int:
    from ledger.awake import visit
    from ledger.cli.retrying import named

    with visit(settings) as database:
        chosen, refused = named(database, deed.audited, ids)
    for event in chosen:
        tell(described(event))
    tell_refused(refused, deed.done)
    tell(f"Would be {deed.done}: {len(chosen)}.")
    return len(refused)


def _act(settings: Settings, deed: Deed, ids: list[int], who: str, reason: str) -> int:
    from ledger.awake import visit
    from ledger.cli.retrying import ask_second, named, put_back
    from ledger.sign_in import people

    given = people.configured(settings, who)
    with visit(settings) as database, progress(deed.audited) as advance:
        chosen, refused = named(database, deed.audited, ids)
        person, n = database.run(lambda tx: people.local(tx, given)), len(chosen)
        expires_s = settings.console.request_expires_s
        if chosen and (
            asked := ask_second(database, chosen, person, reason, expires_s=expires_s, deed=deed.audited)
        ):
            tell_refused(refused, deed.done)
            tell(f"{asked[1]} Somebody else: nottwice retry --agree {asked[0]} --as EMAIL --reason TEXT")
            return n
        tried = (
            list(put_back(database, chosen, person, reason, lambda done: advance(done, n), deed.audited))
            if chosen
            else []
        )
    refused += [one for one in tried if one.refusal]
    tell_refused(refused, deed.done)
    tell(f"{deed.done.capitalize()}, as {plain(given.name)}: {sum(not one.refusal for one in tried)}.")
    return len(refused)


ENDS = "Exit codes: 0 done, 1 some were left as they are (each says why), 2 cannot start (one sentence says why)."
COMMANDS: dict[Command, str] = {
    set_aside: f"Example: nottwice set-aside 4711 --as bo@example.com --reason 'it kills its worker'\n\n{ENDS}",
    hand_back: f"Example: nottwice hand-back 4711 --as bo@example.com --reason 'that host is gone'\n\n{ENDS}",
}
