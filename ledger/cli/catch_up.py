"""`nottwice catch-up`: what an outage kept from us."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ledger.errors import Misconfigured
from ledger.stopping import Stopped, stoppable
from ledger.terminal import CANNOT_START, NOT_DONE, Command, plain, sentences, tell

if TYPE_CHECKING:
    from ledger.catch_up import Advance, Report, Wanted

GOES_ON = "What was stored is stored; the same command goes on from there."


def catch_up(
    source: Annotated[str, typer.Argument(help="A \\[sources.NAME] of the configuration.")],
    inbox: Annotated[str, typer.Option(help="List the messages of this inbox at AgentMail.")] = "",
    since: Annotated[
        str, typer.Option(help="From this time on (2026-11-30T06:00Z; UTC without a zone).")
    ] = "",
    until: Annotated[str, typer.Option(help="And before this one.")] = "",
    file: Annotated[Path | None, typer.Option(help="Read this file instead: one body a line.")] = None,
    envelopes: Annotated[
        bool, typer.Option("--envelopes", help='Each line is {"headers": {…}, "body": "…"}.')
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run/--go", help="Only look, or take it in.")] = True,
    beyond: Annotated[
        bool, typer.Option("--beyond-retention", help="Also what is older than keys are kept: as new events.")
    ] = False,
    afresh: Annotated[
        bool, typer.Option("--afresh", help="From the beginning, although it was stopped.")
    ] = False,
) -> None:
    """Take in what an outage kept from us, and nothing twice.

    Each message goes through the same checks and the same keys as its webhook, so what was accepted before is a
    duplicate, and what was answered is not answered again. Without --go it only looks, and says what would be new.
    Stopped at any moment, the same command goes on where it was.
    """
    with sentences(), _stopping():
        from ledger.catch_up import catch_up as run
        from ledger.settings import load

        form = "envelope" if envelopes else "body"
        wanted = _wanted(
            source, file, form, inbox, since, until, go=not dry_run, beyond=beyond, afresh=afresh
        )
        with _watching(f"{source}: {wanted.read_from}") as advance:
            report = run(load(), wanted, advance)
    _tell(report)
    if report.refused:
        raise typer.Exit(CANNOT_START)
    raise typer.Exit(0 if report.is_whole else NOT_DONE)


@contextmanager
def _stopping() -> Iterator[None]:
    """A stop before there is a report to say it: the same sentence, the same code."""
    try:
        with stoppable():
            yield
    except Stopped:
        tell(f"Stopped. {GOES_ON}")
        raise typer.Exit(NOT_DONE) from None


def _wanted(
    source: str,
    file: Path | None,
    form: str,
    inbox: str,
    since: str,
    until: str,
    *,
    go: bool,
    beyond: bool,
    afresh: bool,
) -> Wanted:
    from ledger.catch_up import Wanted

    if (file is None) == (not inbox):
        raise Misconfigured("Say where from: --inbox INBOX --since TIME, or --file FILE.")
    if file is not None and (since or until):
        raise Misconfigured("A file is read whole: --since and --until are for an inbox.")
    if file is None and (not since or form != "body"):
        raise Misconfigured("Say since when: --since TIME. (--envelopes is for a file.)")
    times = _time("--since", since), _time("--until", until)
    path = file.absolute() if file else None
    return Wanted(source, path, form, inbox, *times, go=go, beyond=beyond, afresh=afresh)


def _time(option: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Misconfigured(f"{option} is {text!r}; write a time as 2026-11-30T06:00Z.") from None
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


# ── In words ──────────────────────────────────────────────────────────────────────────────────────────

# In the order in which they are told.
WORDS = {
    "new": "would be new",
    "accepted": "new",
    "known": "known",
    "duplicate": "known",
    "not_compared": "known",
    "conflict": "known with other content",
    "quarantined": "without a usable key or shape",
    "unreadable": "unreadable",
    "withheld": "left out",
    "gone": "gone meanwhile",
}
REMARKS = {
    "conflict": "the key is known with other content; this one is kept as a conflict",
    "quarantined": "to quarantine: ",
    "unreadable": "nothing was stored of it: ",
    "withheld": "left out: it is older than keys are kept, and not known any more",
    "gone": "",
}


def _tell(report: Report) -> None:
    for where, became, reason in report.remarks:
        tell(f"{plain(where)}: {_remark(became, report.wanted)}{plain(reason)}")
    hidden = sum(report.counts[name] for name in REMARKS) - len(report.remarks)
    if hidden > 0:
        tell(f"… and {hidden:,} more.")
    if report.went_on:
        tell(f"Went on {report.went_on}.")
    tell(_sum(report))
    for line in _advice(report):
        tell(line)


def _remark(became: str, wanted: Wanted) -> str:
    return REMARKS[became].replace("is kept", "is kept" if wanted.go else "would be kept")


def _sum(report: Report) -> str:
    counts, wanted = report.counts, report.wanted
    read = f"{counts['lines']:,} lines" if wanted.file else f"{report.messages:,} messages"
    sums: dict[str, int] = {}
    for name, words in WORDS.items():
        sums[words] = sums.get(words, 0) + counts[name]
    said = ", ".join(f"{n:,} {words}" for words, n in sums.items() if n) or "nothing in them"
    others = f" ({counts['others']:,} others are no incoming mail.)" if counts["others"] else ""
    head = "Taken in" if wanted.go and not report.refused else "Looked at, nothing stored"
    return f"{head}: {read} of {plain(wanted.read_from)} for {wanted.source}: {said}.{others}"


def _advice(report: Report) -> Iterator[str]:
    """What it means, and what to do next."""
    old = report.counts["withheld"] or report.counts["old"]
    if old:
        kept = (
            f"{report.kept_days:g} days, so since {report.horizon:%Y-%m-%d %H:%M} UTC"
            if report.horizon
            else ""
        )
        yield (
            f"Older than event keys are kept ({kept}) and not known: {old:,}. They may have been worked once, and would "
            "be new events. Say --beyond-retention to take them in all the same."
        )
    if report.refused:
        yield (
            f"Refused: --since is older than event keys are kept. From before that: {report.messages:,} "
            "messages. Choose a later time, or say --beyond-retention."
        )
    elif report.stopped:
        yield f"{plain(report.stopped)} {GOES_ON}"
    elif not report.wanted.go and report.is_too_early:
        yield (
            "With --go this is refused: --since is older than event keys are kept. Choose a later time, or say "
            "--beyond-retention too."
        )
    elif not report.wanted.go:
        yield "To take in what is new, say the same with --go."


@contextmanager
def _watching(what: str) -> Iterator[Advance]:
    """How far it is, on standard error and only where that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(plain(what).replace("[", "\\["), total=None, said="")
        yield lambda done, total, said: bar.update(task, completed=done, total=total, said=said)


COMMANDS: dict[Command, str] = {
    catch_up: "Example: nottwice catch-up agentmail --inbox support@acme.example --since 2026-11-30T06:00Z --go\n\n"
    "Exit codes: 0 done, 1 not wholly (stopped, unreadable, left out: each is said), 2 cannot start, or refused.",
}
