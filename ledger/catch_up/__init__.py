"""`nottwice catch-up`: what an outage kept from us, through the same adapters, the same keys and the same transaction.

Three processes: this one conducts; `ledger.receiver.catch_up` reads and stores, under the receiver's login;
`worker.catch_up` asks the provider. What was accepted before is a duplicate, so a catch-up may be repeated, overlap
another, and run beside the receiver. Stopped at any moment, the same command goes on after its last stored batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ledger.catch_up.file import Batch, Lines
from ledger.catch_up.talk import Child
from ledger.errors import Unavailable
from ledger.running.processes import environment, module
from ledger.settings import Settings
from ledger.stopping import Stopped

REMARKS_MAX = 100
# What nobody needs to look at one by one.
IN_PASSING = ("known", "new", "accepted", "duplicate", "not_compared")
BECAME = (
    *IN_PASSING,
    "conflict",
    "quarantined",
    "unreadable",
    "withheld",
    "gone",
)  # what a message may become
TOO_LONG = "It is longer than any line may be."
STOPPED = "Stopped."

Advance = Callable[[int, int | None, str], None]  # how far, of how much, and in words


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. Without `go` nothing is stored."""

    source: str
    file: Path | None = None
    form: str = "body"
    inbox: str = ""
    since: datetime | None = None
    until: datetime | None = None
    go: bool = False
    beyond: bool = False
    afresh: bool = False

    @property
    def read_from(self) -> str:
        return f"file {self.file}" if self.file else f"inbox {self.inbox}"

    @property
    def same(self) -> list[str]:
        """What makes two commands the same one, so that the second goes on where the first was stopped."""
        times = (at.isoformat() if at else "" for at in (self.since, self.until))
        return ["file", str(self.file), self.form] if self.file else ["inbox", self.inbox, *times]


@dataclass(slots=True)
class Report:
    """What became of it. `stopped` says why it did not come to its end."""

    wanted: Wanted
    namespace: str = ""
    kept_days: float = 0.0
    horizon: datetime | None = None
    counts: Counter[str] = field(default_factory=Counter)
    remarks: list[tuple[str, str, str]] = field(default_factory=list)  # where, what became of it, why
    went_on: str = ""
    stopped: str = ""
    ended: bool = False  # there was nothing left to do: what stops us now stops nothing
    refused: bool = False  # older than keys are kept, and nobody said --beyond-retention

    def note(self, where: str, became: str, reason: str = "", *, old: bool = False) -> None:
        self.counts[became] += 1
        self.counts["old"] += old and became == "new"
        if became not in IN_PASSING and len(self.remarks) < REMARKS_MAX:
            self.remarks.append((where, became, reason))

    @property
    def messages(self) -> int:
        """How many a listing named: each became one thing, so that the sum is right whenever it is told."""
        return sum(self.counts[name] for name in BECAME)

    @property
    def is_too_early(self) -> bool:
        """Whether `--since` is older than keys are kept, and nobody said --beyond-retention."""
        since, horizon = self.wanted.since, self.horizon
        return not self.wanted.beyond and since is not None and horizon is not None and since < horizon

    @property
    def is_whole(self) -> bool:
        return not (self.stopped or self.refused or self.counts["unreadable"] or self.counts["withheld"])


def catch_up(settings: Settings, wanted: Wanted, advance: Advance) -> Report:
    """Raises Misconfigured or Unavailable for what cannot begin; what ends it later, Stopped too, is in the report."""
    from ledger.catch_up.listed import Listing

    report = Report(wanted)
    with _until_told_to_stop(report), _entrance(settings) as door:
        begun = _begin(door, report)
        run = _file if wanted.file else Listing(settings, door, begun).run
        with _until_it_breaks_off(report):
            run(door, begun, report, advance)
            if wanted.go:
                door.ask("end")
        report.ended = not report.stopped
    return report


def _entrance(settings: Settings) -> Child:
    return Child(module("ledger.receiver.catch_up"), environment(settings))


def _begin(door: Child, report: Report) -> dict[str, Any]:
    wanted = report.wanted
    begun = door.ask(
        "begin",
        source=wanted.source,
        read_from=wanted.read_from,
        form=wanted.form if wanted.file else "listing",
        same=wanted.same,
        afresh=wanted.afresh,
        go=wanted.go,
    )
    report.namespace, report.kept_days = begun["namespace"], begun["kept_days"]
    report.horizon = datetime.fromisoformat(begun["horizon"])
    if begun["run"]:
        report.counts.update(begun["run"]["counts"])
    return begun


@contextmanager
def _until_told_to_stop(report: Report) -> Iterator[None]:
    """Everything stored is stored, and the place after it is kept; a signal gives up the rest, at once."""
    try:
        yield
    except Stopped:
        if not report.ended:
            report.stopped = STOPPED


@contextmanager
def _until_it_breaks_off(report: Report) -> Iterator[None]:
    try:
        yield
    except Unavailable as error:
        report.stopped = str(error)


# ── A file ────────────────────────────────────────────────────────────────────────────────────────────


def _file(door: Child, begun: dict[str, Any], report: Report, advance: Advance) -> None:
    wanted, run = report.wanted, begun["run"]
    assert wanted.file is not None  # noqa: S101 - for the type checker: it is a file
    with Lines(wanted.file, run and run["position"]) as lines:
        if lines.goes_on:
            report.went_on = f"after line {lines.number:,}"
        elif run and run["position"]:
            report.counts.clear()  # another file under this name: it begins anew
        for batch in lines.batches(begun["line_bytes_max"]):
            _lines(door, batch, report)
            if wanted.go:
                door.ask("save", position=batch.position, counts=report.counts)
            advance(batch.read_bytes, lines.bytes, f"line {batch.position['line']:,}")


def _lines(door: Child, batch: Batch, report: Report) -> None:
    wanted = report.wanted
    what = "store" if wanted.go else "look"
    found = (
        door.ask(what, batch.bodies, form=wanted.form, beyond=wanted.beyond)["found"] if batch.bodies else []
    )
    report.counts["lines"] += len(batch.numbers) + len(batch.too_long)
    for one in found:
        report.note(f"line {batch.numbers[one['place']]:,}", one["became"], one["reason"], old=one["old"])
    for number in batch.too_long:
        report.note(f"line {number:,}", "unreadable", TOO_LONG)
