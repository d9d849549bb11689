"""`nottwice release`: a ledger that was restored or copied sends again, in a named person's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ledger.errors import Declined, Misconfigured
from ledger.terminal import NOT_DONE, Command, plain, sentences, tell

if TYPE_CHECKING:
    from ledger.accounts.restored import Held
    from ledger.settings import Settings


def release(
    who: Annotated[
        str, typer.Option("--as", metavar="EMAIL", help="Who does it, of \\[console] people.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Why; it stands in the audit.")] = "",
    whole: Annotated[
        bool, typer.Option("--whole", help="It was moved whole: nothing was sent from where it was before.")
    ] = False,
) -> None:
    """Let a ledger send again that was restored from a backup, or copied; without --as, only look.

    Such a ledger does not know what went out since the backup was made. Each send that waits in it is therefore treated as one
    that may have gone out: where its provider's key still protects it, it is tried again with that key; all others wait
    for a person on the review desk. With --whole, none is. An admin may.
    """
    with sentences():
        from ledger.settings import load

        if bool(who) != bool(reason.strip()):
            raise Misconfigured("Say who does it and why: --as EMAIL --reason TEXT. (Or only look: neither.)")
        done = _release(load(), who, reason, whole=whole) if who else _show(load())
    raise typer.Exit(0 if done else NOT_DONE)


def _show(settings: Settings) -> bool:
    from ledger.accounts import restored
    from ledger.awake import as_viewer, visit
    from ledger.database import Transaction

    def look(tx: Transaction) -> Held | None:
        as_viewer(tx)
        return restored.held(tx)

    with visit(settings) as database:
        held = database.run(look)
    if held is None:
        tell("Nothing is held: this ledger is where it was.")
        return True
    tell(
        f"Nothing is sent: {held.why} Of the sends that wait, {held.keyed:,} go by providers with keys and "
        f"{held.keyless:,} by providers without."
    )
    return False


def _release(settings: Settings, who: str, reason: str, *, whole: bool) -> bool:
    from uuid import uuid4

    from ledger import audit
    from ledger.accounts import restored
    from ledger.awake import visit
    from ledger.records import Act
    from ledger.sign_in import people

    given = people.configured(settings, who)
    with visit(settings) as database:
        person = database.run(lambda tx: people.local(tx, given))
        act = Act(person, uuid4(), reason)
        try:
            marked = database.run(lambda tx: restored.release(tx, act, whole=whole), role=person.role)
        except Declined as error:
            words = str(error)
            database.run(
                lambda tx: audit.refused(tx, act, restored.RELEASE, "installation", 1, words),
                role=person.role,
            )
            tell(f"Not released. {words}")
            return False
    tell(f"Released, as {plain(given.name)}. Sends that may have gone out since: {marked:,}.")
    return True


COMMANDS: dict[Command, str] = {
    release: "Example: nottwice release --as bo@example.com --reason 'restored on the new server, the old one is off'\n\n"
    "Exit codes: 0 done, 1 it is held and stays so (the line says why), 2 cannot start (one sentence says why).",
}
