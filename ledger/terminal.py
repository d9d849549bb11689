"""What every command has in common: sentences instead of tracebacks, lines on standard output, progress on a terminal.

Exit codes: 0 done, 1 not (wholly) done, 2 it cannot start and one sentence says why. What a command needs is imported
when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from ledger.errors import Misconfigured, Unavailable

NOT_DONE, CANNOT_START = 1, 2
DIGITS_MAX = 18  # of a number in the ledger: a bigint that is certainly one
EXIT_CODES = "Exit codes: 0 done, 2 cannot start (one sentence says why)."

Command = Callable[..., None]
Advance = Callable[[int, int | None], None]  # how many so far, and of how many where that is known


@contextmanager
def sentences() -> Iterator[None]:
    """What machine or configuration do not allow is one sentence and exit code 2, never a traceback."""
    try:
        yield
    except (Misconfigured, Unavailable) as error:
        typer.echo(str(error), err=True)
    except BrokenPipeError:  # whoever read our lines has enough of them
        raise
    except OSError as error:
        typer.echo(
            f"{error.filename or 'This machine'}: {error.strerror or error}. Nothing was started.", err=True
        )
    else:
        return
    raise typer.Exit(CANNOT_START)


def number(typed: str | int) -> int:
    """What was typed for the number of an event, an action, a finding or a run. Raises typer.BadParameter."""
    digits = str(typed)
    if digits.isascii() and digits.isdecimal() and len(digits) <= DIGITS_MAX and int(digits) > 0:
        return int(digits)
    raise typer.BadParameter(
        f"{plain(digits, 40)} is no number of anything here: 1, 2, 3 and so on, {DIGITS_MAX} digits at most."
    )


def tell(line: str) -> None:
    typer.echo(line)
    sys.stdout.flush()


def draw(what: object) -> None:
    """Something of rich's: a table, or lines with colours where there are colours."""
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(what)


def plain(text: str, characters_max: int = 200) -> str:
    """Text from outside as a part of one line: no line ends, and nothing that steers a terminal."""
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
    return line if len(line) <= characters_max else line[: characters_max - 1] + "…"


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """Shows how far long work is, on standard error and only where that is a terminal; a log gets nothing."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
