"""Each thing that is looked at, as a line: how it is now, its limit, how that is judged, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledger.check.found import Finding, Level, Topic, duration, size
from ledger.check.keeping import dead_rows_limit
from ledger.check.seen import CatchUp, Seen
from ledger.settings import AlertSettings
from ledger.terminal import plain

NAMED_MAX = 3
NO_LIMIT = "–"


@dataclass(frozen=True, slots=True)
class Line:
    """`now` may hold names from outside, as text. `todo` is empty while nothing is found."""

    topic: Topic
    now: str
    limit: str
    level: Level
    todo: str


def lines(
    seen: Seen, limits: AlertSettings, found: Sequence[Finding], *, receives: bool, configuration: str = ""
) -> Iterator[Line]:
    """In the order of `Topic`. `configuration` is how the one on disk stands; without it there is no such line."""
    worst: dict[Topic, Level] = {}
    for one in found:
        worst[one.topic] = max(worst.get(one.topic, Level.HEALTHY), one.level)
    told = _told(seen, limits, receives=receives)
    if configuration:
        told = {Topic.CONFIGURATION: (configuration, NO_LIMIT)} | told
    for topic in sorted(told, key=list(Topic).index):
        level = worst.get(topic, Level.HEALTHY)
        yield Line(topic, *told[topic], level, TODO[topic] if level else "")


def _told(seen: Seen, limits: AlertSettings, *, receives: bool) -> dict[Topic, tuple[str, str]]:
    return {**_work(seen, limits, receives=receives), **_outside(seen, limits), **_house(seen, limits)}


def _work(seen: Seen, limits: AlertSettings, *, receives: bool) -> dict[Topic, tuple[str, str]]:
    counts, waits, silent = seen.counts, seen.waits, f"silent after {duration(limits.worker_silent_s)}"
    events, actions = counts["events"], counts["actions"]
    doors = (
        f"{counts['receivers']} alive" if receives or counts["receivers"] else "no source, so none is needed"
    )
    lease_n = counts["expired_leases"]
    return {
        Topic.WORKERS: (f"{counts['workers']} alive", silent),
        Topic.RECEIVERS: (doors, silent),
        Topic.PENDING: (_oldest(counts["oldest_pending_s"], events["pending"]), duration(limits.pending_s)),
        Topic.SENDS: (_oldest(waits["send_s"], actions["approved"]), duration(limits.pending_s)),
        Topic.LEASES: (f"{lease_n:,}" if lease_n else "none", f"{duration(limits.lease_over_s)} over"),
        Topic.UNSETTLED: (_oldest(waits["review_s"], actions["needs_review"]), duration(limits.unsettled_s)),
        Topic.PROPOSED: (_oldest(waits["proposed_s"], actions["proposed"]), duration(limits.unsettled_s)),
        Topic.RUNS: (_oldest(waits["runs_s"], int(waits["runs"])), duration(limits.unsettled_s)),
        Topic.FAILED: _counted(events["failed"], limits.failed_max),
        Topic.UNHANDLED: _counted(counts["unhandled"], limits.unhandled_max),
        Topic.CONFLICTS: _counted(counts["conflicts"], limits.conflicts_max),
        Topic.QUARANTINED: _counted(counts["quarantined"], limits.quarantined_max),
    }


def _outside(seen: Seen, limits: AlertSettings) -> dict[Topic, tuple[str, str]]:
    off, most = seen.endpoints_off, max((one.n for one in seen.refused), default=0)
    held = f"held for {duration(seen.held.since_s)}" if seen.held else "as usual"
    unserved = (
        f"{sum(one.sends for one in seen.unserved):,} of {_named([one.account for one in seen.unserved])}"
    )
    return {
        Topic.HELD: (held, NO_LIMIT),
        Topic.PAUSED: (_named([one.account for one in seen.pauses]), "none"),
        Topic.UNSERVED: (unserved if seen.unserved else "none", duration(limits.pending_s)),
        Topic.ALARMS: (f"{seen.busy_keys:,}" if seen.busy_keys else "none", "none"),
        Topic.ENDPOINTS: (_endpoints(seen), "none"),
        Topic.CATCH_UPS: (_catch_ups(seen), NO_LIMIT),
        Topic.REFUSED: (f"{most:,} of a source in an hour" if most else "none", f"{limits.refused_max:,}"),
    } | ({} if off or seen.watched else {Topic.ENDPOINTS: ("none is watched", "none")})


def _house(seen: Seen, limits: AlertSettings) -> dict[Topic, tuple[str, str]]:
    dead, waits, last, grown = seen.dead_rows, seen.waits, seen.last_check, seen.growth
    hidden = f"; {seen.transaction.hidden:,} sessions are hidden" if seen.transaction.hidden else ""
    clock = f"{seen.clock.ahead_s:+.2f} s on {plain(seen.clock.host)}" if seen.clock else "nobody to compare"
    chain = "never checked"
    if last is not None:
        whole = "broken" if last.broken else "whole"
        chain = f"{whole}: {last.entries:,} entries, checked {last.checked_at:%d %b %H:%M} UTC"
    return {
        Topic.TRANSACTION: (f"{duration(seen.transaction.age_s)}{hidden}", duration(limits.transaction_s)),
        Topic.DEAD_ROWS: (f"{dead.rows:,} in {plain(dead.table)}", f"{dead_rows_limit(seen, limits):,}"),
        Topic.CLOCKS: (clock, f"{limits.clock_s:g} s"),
        Topic.GROWTH: (
            f"{size(grown.bytes)} in {grown.hours:.0f} h" if grown else "not measured for two hours yet",
            size(limits.growth_mb_max * 1e6),
        ),
        Topic.UNSEALED: (_oldest(waits["unsealed_s"], int(waits["unsealed"])), duration(limits.unsealed_s)),
        Topic.CHAIN: (chain, NO_LIMIT),
        Topic.PRUNED: (
            f"{seen.pruned_at:%d %b %H:%M} UTC" if seen.pruned_at else "never",
            f"{duration(limits.unpruned_s)} over its time",
        ),
    }


def _oldest(seconds: float, n: int) -> str:
    return f"{duration(seconds)}; {n:,} in all" if n else "none waits"


def _counted(n: int, most: int) -> tuple[str, str]:
    return f"{n:,}" if n else "none", f"{most:,}" if most else "none"


def _named(names: Sequence[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(map(plain, names[:NAMED_MAX])) + more


def _endpoints(seen: Seen) -> str:
    unknown = sum(one.unanswered for one in seen.watched)
    off = f"{len(seen.endpoints_off)} off" if seen.endpoints_off else "none"
    return f"{off}, of {unknown} accounts not known" if unknown else off


def _catch_ups(seen: Seen) -> str:
    if seen.catch_ups:
        return "; ".join(map(_catch_up, seen.catch_ups[:NAMED_MAX]))
    return f"none; the last of {_catch_up(seen.caught_up)}" if seen.caught_up else "none"


def _catch_up(one: CatchUp) -> str:
    rows = ", ".join(f"{n:,} {plain(name)}" for name, n in one.counts.items() if n) or "nothing yet"
    return f"{plain(one.source)}: {rows}, {duration(one.saved_s)} ago"


TODO = {
    Topic.CONFIGURATION: "Correct the file as the line says; what runs goes on with what it read before.",
    Topic.HELD: "Make sure the other one is off for good, then release it: an admin here, or nottwice release.",
    Topic.WORKERS: "Start a worker: nottwice work. If one should run, look at its log.",
    Topic.RECEIVERS: "Start a receiver: nottwice receive. If one should run, look at its log.",
    Topic.PENDING: "Look at Stuck work; add workers if they are all busy.",
    Topic.SENDS: "Look for a paused account here, then at the worker's log.",
    Topic.LEASES: "A running worker takes them back by itself. If none does, look at its log.",
    Topic.UNSETTLED: "Decide them in Review.",
    Topic.PROPOSED: "Approve or decline them in Review.",
    Topic.PAUSED: "Mend what the provider says. Then wait, or an admin resumes it: one send tries.",
    Topic.UNSERVED: "Configure a provider with this account in [providers], or decide them in Review.",
    Topic.ALARMS: "Give this ledger keys of its own at the provider. Decide the sends in Review.",
    Topic.ENDPOINTS: "Switch it on at the provider, then run nottwice catch-up.",
    Topic.CATCH_UPS: "",
    Topic.REFUSED: "Compare the secrets and limits of this source with the sender's.",
    Topic.RUNS: "Agree under Reprocess, or do not: it lapses by itself, and has to be asked for anew.",
    Topic.FAILED: "Look at Stuck work; mend the cause, then try them again.",
    Topic.UNHANDLED: "Start a worker with a handler for them, or list the type as ignored.",
    Topic.CONFLICTS: "Compare the two contents in Events, and mark the conflict as seen.",
    Topic.QUARANTINED: "Look at the reasons in Events.",
    Topic.TRANSACTION: "End that session, or have its program commit sooner; vacuum waits for it.",
    Topic.DEAD_ROWS: "End the oldest transaction; if there is none, is autovacuum off?",
    Topic.CLOCKS: "Let that host keep time by NTP: signed times are judged by its clock.",
    Topic.GROWTH: "Compare [retention] with what you need; look at the charts below.",
    Topic.UNSEALED: "A running worker seals them. If one runs, look at its log.",
    Topic.CHAIN: "Change nothing. Keep a copy of the database and find out who wrote to it.",
    Topic.PRUNED: "A running worker removes it. By hand: nottwice prune.",
}
