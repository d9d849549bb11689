"""`nottwice resume`: the pause of a provider's account ends, in a named person's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ledger.errors import Declined, Misconfigured
from ledger.terminal import NOT_DONE, Command, plain, sentences, tell

if TYPE_CHECKING:
    from ledger.accounts.pauses import Pause
    from ledger.settings import Settings


def resume(
    account: Annotated[str, typer.Argument(help="The paused account, as the list names it.")] = "",
    who: Annotated[
        str, typer.Option("--as", metavar="EMAIL", help="Who does it, of \\[console] people.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Why; it stands in the audit.")] = "",
) -> None:
    """End the pause of a provider's account, also one that the provider asked for; without an account, list them.

    One send tries the account at once; while it fails, the account is paused again, for longer. Admins may.
    """
    with sentences():
        from ledger.settings import load

        given = (bool(account), bool(who), bool(reason.strip()))
        if len(set(given)) > 1:
            raise Misconfigured(
                "Say which account, who does it and why: ACCOUNT --as EMAIL --reason TEXT. (Or only look: none of them.)"
            )
        done = _resume(load(), account, who, reason) if account else _show(load())
    raise typer.Exit(0 if done else NOT_DONE)


def _show(settings: Settings) -> bool:
    from ledger.check import duration

    paused = _standing(settings)
    for one in paused:
        until = f"until {one.paused_until:%H:%M:%S} UTC, since {duration(one.since_s)}"
        tell(f"{plain(one.account)}: {until}: {plain(one.reason)}")
    if not paused:
        tell("No account is paused.")
    return not paused


def _standing(settings: Settings) -> list[Pause]:
    from ledger.accounts import pauses
    from ledger.awake import as_viewer, visit
    from ledger.database import Transaction

    def look(tx: Transaction) -> list[Pause]:
        as_viewer(tx)
        return pauses.standing(tx)

    with visit(settings) as database:
        return database.run(look)


def _resume(settings: Settings, account: str, who: str, reason: str) -> bool:
    from uuid import uuid4

    from ledger import audit
    from ledger.accounts import resuming
    from ledger.awake import visit
    from ledger.records import Act
    from ledger.sign_in import people

    given = people.configured(settings, who)
    chosen = next((one for one in _standing(settings) if one.account == account), None)
    if chosen is None:
        tell(f"Account {plain(account)} is not paused. Nothing was done.")
        return False
    with visit(settings) as database:
        person = database.run(lambda tx: people.local(tx, given))
        act = Act(person, uuid4(), reason)
        try:
            database.run(lambda tx: resuming.resume(tx, act, chosen.id), role=person.role)
        except Declined as error:
            words = str(error)
            database.run(
                lambda tx: audit.refused(tx, act, resuming.RESUME, "provider", chosen.id, words),
                role=person.role,
            )
            tell(f"Not resumed: {words}")
            return False
    tell(f"Resumed, as {plain(given.name)}: {plain(account)}. One send tries it now.")
    return True


COMMANDS: dict[Command, str] = {
    resume: "Example: nottwice resume agentmail --as ana@example.com --reason 'their status page says it is mended'\n\n"
    "Exit codes: 0 done, 1 it is paused and stays so (the line says why), 2 cannot start (one sentence says why).",
}
