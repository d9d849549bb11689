"""The commands that only look: `nottwice status` and `nottwice check`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ledger.terminal import EXIT_CODES, Command, draw, sentences, tell


def status(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for monitoring.")] = False,
) -> None:
    """Say how the ledger stands: events and actions by state, what waits, who works."""
    with sentences():
        from ledger.settings import load
        from ledger.views.status import read

        found = read(load())
    if as_json:
        tell(json.dumps(found))
        return
    from ledger.cli.words import status_table

    draw(status_table(found))


def check() -> None:
    """Say whether somebody should look: one line a finding, and an exit code for monitoring.

    Looks at the configuration as it is on disk, the database and its schema, workers, leases that ran out, work and
    sends that wait too long, events set aside or without a handler, uncertain sends, paused providers, the audit's
    seals, conflicts and quarantine, and at what strains the database: a transaction that stays open, dead rows, clocks
    that differ, growth. The console's Health page shows the same. From when something is late is said in the
    configuration's [alerts]. An embedded PostgreSQL is not started for it.
    """
    with sentences():
        from ledger.check import Level, look, told
        from ledger.settings import load

        found = look(load())
    for line in told(found):
        tell(line)
    raise typer.Exit(max((finding.level for finding in found), default=Level.HEALTHY))


COMMANDS: dict[Command, str] = {
    status: f"Example: nottwice status --json\n\n{EXIT_CODES}",
    check: "Example: nottwice check || mail -s 'Not Twice' ops@example.com\n\n"
    "Exit codes: 0 healthy, 1 warning, 2 critical (also: the database cannot be reached, or the configuration is wrong).",
}
