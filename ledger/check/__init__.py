"""`nottwice check` and the Health page: what somebody should look at, one line a finding, by the limits of `[alerts]`.

A warning is late or unusual; critical is what stops the house, or is many times over its limit. Both are told from one
reading (`see`), so they never disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.awake import visit
from ledger.check import keeping, outside, work
from ledger.check.found import Finding as Finding
from ledger.check.found import Level as Level
from ledger.check.found import Topic as Topic
from ledger.check.found import critical, warning
from ledger.check.found import duration as duration
from ledger.check.lines import Line as Line
from ledger.check.lines import lines
from ledger.check.seen import Seen, see
from ledger.database import Transaction
from ledger.embedded import Cluster
from ledger.errors import Misconfigured, Unavailable
from ledger.running.processes import receiver
from ledger.running.rehearsal import mistakes
from ledger.settings import AlertSettings, Settings
from ledger.sign_in.way_in import refuse_open_console
from ledger.terminal import plain

HEALTHY = "healthy"


def look(settings: Settings) -> list[Finding]:
    """Everything found, the worst first. Never raises for what it is there to find; starts no server."""
    return _worst_first([*refused_at_a_start(settings), *_standing(settings)])


def told(found: Sequence[Finding]) -> list[str]:
    """What `nottwice check` prints."""
    return [f"{one.level.name.lower()}: {one.what}" for one in found] or [HEALTHY]


def refused_at_a_start(settings: Settings) -> list[Finding]:
    """By the file as it is now: could a console and a receiver start with it?"""
    return [*_no_way_in(settings), *_refused_by_a_receiver(settings)]


def _no_way_in(settings: Settings) -> list[Finding]:
    """Where people sign in. A warning: on a machine without a console its secrets need not be."""
    try:
        if settings.console.door is not None:
            refuse_open_console(settings)
    except Misconfigured as error:
        what = plain(" ".join(str(error).split()), 1000)
        return [
            warning(Topic.CONFIGURATION, f"A console could not start here, so nobody could sign in: {what}")
        ]
    return []


def _refused_by_a_receiver(settings: Settings) -> list[Finding]:
    """One is asked, in a process of its own: it knows the kinds of sources."""
    if not settings.sources:
        return []
    try:
        found = mistakes([receiver(settings)], within_s=settings.supervisor.ready_within_s)
    except Unavailable as error:
        return [warning(Topic.CONFIGURATION, plain(str(error)))]
    return [
        critical(
            Topic.CONFIGURATION,
            f"The configuration cannot be used: {plain(what, 1000)} A receiver that runs goes on with what it "
            "read before; the next one that starts refuses it.",
        )
        for what in found
    ]


def unreadable(error: Misconfigured) -> Finding:
    """The file on disk is none that anything could start with; commands say so and end."""
    return critical(Topic.CONFIGURATION, plain(" ".join(str(error).split()), 1000))


def _standing(settings: Settings) -> list[Finding]:
    if not settings.database_url and (state := Cluster(settings.home).status) != "running":
        what = f"The PostgreSQL of {settings.home} is {state}, so nothing is accepted or worked."
        return [critical(Topic.DATABASE, what)]
    try:
        with visit(settings) as database:
            return list(database.run(lambda tx: health(tx, settings)).found)
    except (Misconfigured, Unavailable) as error:
        return [critical(Topic.DATABASE, " ".join(str(error).split()))]


@dataclass(frozen=True, slots=True)
class Health:
    """What is found, the worst first, and a line for everything that was looked at."""

    found: tuple[Finding, ...]
    lines: tuple[Line, ...]
    seen: Seen

    @property
    def heading(self) -> str:
        """The first line of `nottwice check`."""
        return told(self.found)[0]


def health(
    tx: Transaction,
    settings: Settings,
    refused: Sequence[Finding] | None = None,
    kinds: str | None = None,
) -> Health:
    """Everything at this moment, by a configuration. `refused` is what a rehearsal of a start with it said, when asked;
    `kinds` is what waits, as a snapshot has just counted it.
    """
    seen = see(tx, settings.alerts, settings, kinds)
    receives = bool(settings.sources)
    found = _worst_first([*(refused or ()), *judged(seen, settings.alerts, receives=receives)])
    stands = "" if refused is None else _stands(refused, seen)
    told = lines(seen, settings.alerts, found, receives=receives, configuration=stands)
    return Health(tuple(found), tuple(told), seen)


def _stands(refused: Sequence[Finding], seen: Seen) -> str:
    if refused:
        return "cannot be used"
    n = sum(one.refused_s is not None for one in seen.processes)
    return f"can be used; {n} running go on with one of before" if n else "can be used"


def findings(tx: Transaction, limits: AlertSettings, *, receives: bool = False) -> list[Finding]:
    """What is late, missing or unusual at this moment. `receives`: there are sources, so a receiver must be alive."""
    return judged(see(tx, limits), limits, receives=receives)


def judged(seen: Seen, limits: AlertSettings, *, receives: bool) -> list[Finding]:
    return [
        *outside.held(seen),
        *outside.alarms(seen),
        *work.processes(seen, limits),
        *work.refusing(seen),
        *work.waiting(seen, limits),
        *outside.paused(seen, limits),
        *(work.receivers(seen) if receives else ()),
        *outside.endpoints_off(seen),
        *outside.endpoints_unknown(seen, limits),
        *work.too_many(seen, limits),
        *outside.refused(seen, limits),
        *keeping.record(seen),
        *keeping.strained(seen, limits),
        *outside.unserved(seen, limits),
        *keeping.unpruned(seen, limits),
    ]


def _worst_first(found: Sequence[Finding]) -> list[Finding]:
    return sorted(found, key=lambda one: -one.level)
