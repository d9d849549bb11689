"""What the command line shows: where things are, and how the ledger stands."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ledger.running.processes import url
from ledger.settings import Settings

PASSED_ON = ("NOTTWICE_CONFIG", "NOTTWICE_RECEIVER_PORT")
WRONG, QUIET = "bold red", "dim"


def up_banner(settings: Settings) -> RenderableType:
    """Where to look, once everything is ready."""
    places = {
        "Console": (_console(settings), "what waits, what fails, and the decisions that people make"),
        "Webhooks": (url(settings.receiver_port, "/webhooks/SOURCE"), _sources(settings)),
        "Logs": (_short(settings.home / "log"), "one file a process"),
    }
    end = Text("\nCtrl-C ends everything.\n")
    return Group(Text("\nNot Twice is running.\n", "bold"), *_places(places), end)


def _console(settings: Settings) -> str:
    """As people's browsers know it: where they sign in, it answers to no other name."""
    door = settings.console.door
    return door.origin if door else url(settings.console_port)


def demo_banner(settings: Settings) -> RenderableType:
    """Where to look, and what is worth seeing."""
    places = {
        "Console": (
            url(settings.console_port),
            "open this; a send that may or may not have happened waits in Review",
        ),
        "Sandbox": (url(settings.sandbox_port, "/"), "every e-mail that went out, as the providers log it"),
        "Webhooks": (url(settings.receiver_port, "/webhooks/SOURCE"), _sources(settings)),
        "Logs": (_short(settings.home / "log"), "one file a process"),
    }
    tries = [f"{_command(settings)} simulate {source} --copies 50" for source in list(settings.sources)[:1]]
    tries.append(f"{_command(settings)} status")
    return Group(
        Text("\nNot Twice is running, against a sandbox: no e-mail leaves this machine.\n", "bold"),
        *_places(places),
        Text("\nTry in another terminal:"),
        *(Text(f"  {line}") for line in tries),
        Text("\nCtrl-C ends everything; the next start finds its data again.\n"),
    )


def status_table(found: Mapping[str, Any]) -> RenderableType:
    """Two columns of states, and the figures that should be small."""
    table = Table(box=None, pad_edge=False, header_style=QUIET)
    for heading in ("events", "", "actions", "", "", ""):
        table.add_column(heading, justify="right" if not heading else "left")
    events, actions, figures = (_rows(found["events"]), _rows(found["actions"]), _figures(found))
    for index in range(max(len(events), len(actions), len(figures))):
        cells = [_at(rows, index) for rows in (events, actions, figures)]
        table.add_row(*(cell for pair in cells for cell in pair))
    return table


def _rows(states: Mapping[str, int]) -> list[tuple[Text, Text]]:
    return [
        (Text(state.replace("_", " ")), Text(f"{n:,}", "" if n else QUIET)) for state, n in states.items()
    ]


def _figures(found: Mapping[str, Any]) -> list[tuple[Text, Text]]:
    """The last three say that somebody should look."""
    figures = {
        "workers alive": (f"{found['workers']:,}", not found["workers"]),
        "receivers alive": (f"{found['receivers']:,}", not found["receivers"]),
        "oldest due": (f"{found['oldest_pending_s']:,.1f} s", False),
        "expired leases": (f"{found['expired_leases']:,}", bool(found["expired_leases"])),
        "duplicates": (f"{found['duplicates']:,}", False),
        "bounced": (f"{found['messages']['bounced']:,}", False),
        "unhandled": (f"{found['unhandled']:,}", bool(found["unhandled"])),
        "conflicts": (f"{found['conflicts']:,}", bool(found["conflicts"])),
        "quarantined": (f"{found['quarantined']:,}", bool(found["quarantined"])),
        "endpoints off": (f"{found['endpoints']['off']:,}", bool(found["endpoints"]["off"])),
        "refused in 1 h": (f"{sum(found['refused'].values()):,}", False),
        "to be pruned for": (f"{found['unpruned_s']:,.0f} s", False),
    }
    return [(Text(name), Text(value, WRONG if wrong else "")) for name, (value, wrong) in figures.items()]


def _at(rows: list[tuple[Text, Text]], index: int) -> tuple[Text, Text]:
    return rows[index] if index < len(rows) else (Text(""), Text(""))


def _places(places: Mapping[str, tuple[str, str]]) -> list[Text]:
    """Lines, not a table: an address is never cut to the width of a terminal."""
    width = max(len(where) for where, _ in places.values())
    return [
        Text.assemble(f"  {name:<10}", (f"{where:<{width}}", "bold cyan"), "   ", (what, QUIET))
        for name, (where, what) in places.items()
    ]


def _sources(settings: Settings) -> str:
    if not settings.sources:
        return f"no source yet: add [sources.NAME] to {settings.home / 'nottwice.toml'}"
    return "SOURCE is " + " or ".join(settings.sources)


def _command(settings: Settings) -> str:
    """How to call us from another terminal, with the variables that this one has set."""
    ours = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    ours["NOTTWICE_HOME"] = _short(settings.home)
    return " ".join(
        [*(f"{name}={shlex.quote(value)}" for name, value in ours.items()), _short(Path(sys.argv[0]))]
    )


def _short(path: Path) -> str:
    """Relative where that is shorter."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
