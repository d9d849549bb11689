"""`nottwice audit list | verify | export`: the record from the command line.

Listing and verifying need no name: whoever may read the database reads it. What a check found is kept, and an export is
made, in a named person's name: one of `[console] people` who is auditor or admin.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ledger.errors import Declined, Misconfigured
from ledger.terminal import EXIT_CODES, NOT_DONE, Command, plain, progress, sentences, tell

if TYPE_CHECKING:
    from ledger.audit.check import Kept
    from ledger.audit.choice import Chosen
    from ledger.audit.export import Form
    from ledger.audit.memory import Verification
    from ledger.database import Database, Transaction
    from ledger.records import Act, Person
    from ledger.settings import Settings

BROKEN = 1
app = typer.Typer(
    name="audit", help="The record: who did what, and whether it is whole.", no_args_is_help=True
)
STDOUT = Path("-")

PersonOption = Annotated[
    str, typer.Option("--person", metavar="EMAIL", help="Only theirs; `policy` for nobody's.")
]
ActOption = Annotated[str, typer.Option("--act", help="Only this act, in the record's own words.")]
AboutOption = Annotated[
    str, typer.Option("--about", metavar="KIND:NUMBER", help="Only about this, such as action:17 or event.")
]
OutcomeOption = Annotated[str, typer.Option("--outcome", help="Only done, refused or failed.")]
SinceOption = Annotated[str, typer.Option("--since", metavar="TIME", help="From this day or time on (UTC).")]
UntilOption = Annotated[
    str, typer.Option("--until", metavar="TIME", help="Up to this day, or before this time (UTC).")
]


def list_(
    person: PersonOption = "",
    act: ActOption = "",
    about: AboutOption = "",
    outcome: OutcomeOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, the newest first.")] = 25,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show who did what, when, to what and why, newest first."""
    with sentences(), _record() as (_, database):
        from ledger.audit import export as audit_export
        from ledger.audit import words as audit_words
        from ledger.views import audit as views_audit

        asked = _asked(database, person, act, about, outcome, since, until)
        found = database.run(lambda tx: views_audit.newest(_as_auditor(tx), asked, limit))
    for entry in found:
        tell(audit_export.as_json(entry) if as_json else audit_words.line(entry))
    if not found and not as_json:
        typer.echo("Nothing in the record fits.", err=True)


def verify(
    kept: Annotated[
        str, typer.Option("--kept", metavar="NUMBER:SEAL", help="A seal that was written down elsewhere.")
    ] = "",
    who: Annotated[
        str,
        typer.Option(
            "--as", metavar="EMAIL", envvar="NOTTWICE_PERSON", help="Who checks, of \\[console] people."
        ),
    ] = "",
) -> None:
    """Walk the whole chain and say whether the record is whole, or name the first entry that does not fit.

    In the name of an auditor or admin, what was found is kept for the audit page and for the next check, and is itself an
    entry. Newest entries that were cut off since the
    last check together with their seals cannot be missed from inside the database: write the last seal down
    elsewhere, and give it with --kept.
    """
    with sentences():
        from ledger.audit.words import kept_seal

        found = _verified(kept_seal(kept), who)
    _say(found)
    raise typer.Exit(BROKEN if found.broken else 0)


def export(
    file: Annotated[Path, typer.Argument(help="Where to; `-` is standard output.")] = STDOUT,
    who: Annotated[
        str, typer.Option("--as", metavar="EMAIL", help="Who hands it out, of \\[console] people.")
    ] = "",
    form: Annotated[
        str,
        typer.Option(
            "--format", help="csv, or jsonl: JSON lines. Without it, as the file's name ends; else csv."
        ),
    ] = "",
    person: PersonOption = "",
    act: ActOption = "",
    about: AboutOption = "",
    outcome: OutcomeOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
) -> None:
    """Hand the record out as a file, oldest first, in a named person's name; the export is itself an entry.

    CSV is for spreadsheets: a text that a spreadsheet would work out gets an apostrophe in front, and what would
    control a terminal is replaced. JSON lines hold every value exactly, and all that the seals cover. The file is
    readable by its owner alone, and never takes the place of another.
    """
    with sentences():
        if not who:
            raise Misconfigured("Say who hands it out: --as EMAIL, an auditor or admin of [console] people.")
        form_ = _form(form, file)
    with sentences(), _record() as (settings, database):
        from ledger.sign_in import people

        given = people.configured(settings, who)
        by = database.run(lambda tx: people.local(tx, given))
        asked = _asked(database, person, act, about, outcome, since, until)
        _hand_out(database, by, asked, form_, file)


@contextmanager
def _record() -> Iterator[tuple[Settings, Database]]:
    from ledger.awake import visit
    from ledger.settings import load

    settings = load()
    with visit(settings) as database:
        yield settings, database


def _verified(kept: Kept | None, who: str) -> Verification:
    from ledger.audit import check as audit_check

    with _record() as (settings, database):
        act = _checking(settings, database, who) if who else None
        read = lambda body: database.run(lambda tx: body(_as_auditor(tx)))  # noqa: E731 - Run, with a role
        with progress("checking entries") as advance:
            found = audit_check.verify(read, advance, kept=kept)
        _keep(database, found, act)
    return found


def _checking(settings: Settings, database: Database, who: str) -> Act:
    """Who checks, in this person's name. Exits where this person may not; the try is on record."""
    from uuid import uuid4

    from ledger import audit
    from ledger.audit.memory import CHECKED
    from ledger.records import Act
    from ledger.sign_in import people
    from ledger.views.audit import must_check

    given = people.configured(settings, who)
    act = Act(database.run(lambda tx: people.local(tx, given)), uuid4())
    try:
        must_check(act.person)
    except Declined as error:
        words = str(error)
        database.run(lambda tx: audit.refused(tx, act, CHECKED, "audit", 0, words), role=act.person.role)
        typer.echo(f"Not checked: {words}", err=True)
        raise typer.Exit(NOT_DONE) from None
    return act


def _keep(database: Database, found: Verification, act: Act | None) -> None:
    from ledger.audit import memory as audit_memory

    if act is None:
        typer.echo(
            "Not kept for the audit page and the next check: nobody checked by name (--as EMAIL).", err=True
        )
        return
    database.run(lambda tx: audit_memory.record(tx, found, act), role=act.person.role)


def _as_auditor(tx: Transaction) -> Transaction:
    """Reads and checks with an auditor's rights, and no others."""
    tx.execute("SET LOCAL ROLE nottwice_auditor")
    return tx


def _asked(
    database: Database, person: str, act: str, about: str, outcome: str, since: str, until: str
) -> Chosen:
    from ledger.audit.words import chosen

    return database.run(
        lambda tx: chosen(
            _as_auditor(tx), person=person, act=act, about=about, outcome=outcome, since=since, until=until
        )
    )


def _say(found: Verification) -> None:
    if found.broken:
        tell(f"{found.broken.heading} {found.broken.words}")
        tell("Do not change anything: keep the database and its backups as they are.")
    else:
        n = f"{found.entries:,} {'entry' if found.entries == 1 else 'entries'}"
        tell(f"The record is whole: {n}. Last seal: {found.entries}:{found.hash.hex()}")
    if found.backdated is not None:
        typer.echo(
            f"Warning: entry {found.backdated:,} claims a time over an hour before the entry sealed before it.",
            err=True,
        )
    if found.unsealed:
        typer.echo(
            f"Warning: {found.unsealed:,} entries wait for a seal for over a minute. Does a worker run?",
            err=True,
        )


def _hand_out(database: Database, by: Person, asked: Chosen, form: Form, file: Path) -> None:
    from ledger.audit import export as audit_export
    from ledger.audit import file as audit_file

    try:
        made = audit_file.hand_out(database, by, asked, form, file)
    except Declined as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(NOT_DONE) from None
    words = f"{audit_export.entries(made.entries)} handed out as {audit_export.FORMS[form]}"
    typer.echo(f"{words}, by {plain(by.name)}; recorded as entry {made.audit_id:,}.", err=True)


def _form(typed: str, file: Path) -> Form:
    """As it was said; else as the file's name ends, and CSV where that says nothing."""
    from ledger.audit.export import FORMS

    ends = file.suffix.lower().removeprefix(".")
    for form in FORMS:
        if form == (typed or (ends if ends in FORMS else "csv")):
            return form
    raise Misconfigured(f"--format {plain(typed, 40)} is not known. One of: {', '.join(FORMS)}.")


COMMANDS: dict[Command, str] = {
    list_: f"Example: nottwice audit list --person bo@example.com --since 2026-11-01 --outcome refused\n\n{EXIT_CODES}",
    verify: "Example: nottwice audit verify --as eve@example.com --kept 20914:3fa9…\n\n"
    "Exit codes: 0 whole, 1 broken (the first entry that does not fit is named), 2 cannot start (one sentence says why).",
    export: "Example: nottwice audit export november.csv --as eve@example.com --since 2026-11-01 --until 2026-11-30\n\n"
    "Exit codes: 0 done, 1 refused (the record has the try), 2 cannot start (one sentence says why).",
}
