"""`nottwice check`: what somebody should look at, one line a finding, by the limits of `[alerts]`.

A warning is late or unusual; critical is what stops the house, or is many times over its limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ledger import accounts, endpoints, pauses, refusals, restored
from ledger.audit import memory as audit_memory
from ledger.awake import as_viewer, visit
from ledger.database import Transaction
from ledger.embedded import Cluster
from ledger.errors import Misconfigured, Unavailable
from ledger.processes import receiver
from ledger.refusals import Refusal
from ledger.rehearsal import mistakes
from ledger.retention import walk as retention_walk
from ledger.settings import AlertSettings, Settings
from ledger.status import status
from ledger.terminal import plain
from ledger.verdict import IN_FLIGHT_MAX

SILENT_NAMED_S = 600.0  # a worker that is silent for longer is history


class Level(IntEnum):
    """The exit code of the worst finding is that of the command."""

    HEALTHY = 0
    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    what: str


def look(settings: Settings) -> list[Finding]:
    """Everything found, the worst first. Never raises for what it is there to find; starts no server."""
    return sorted([*_refused_at_a_start(settings), *_standing(settings)], key=lambda finding: -finding.level)


def _refused_at_a_start(settings: Settings) -> Iterator[Finding]:
    """By the sources as the file has them now. A receiver is asked, in a process of its own: it knows their kinds."""
    if not settings.sources:
        return
    try:
        found = mistakes([receiver(settings)], within_s=settings.supervisor.ready_within_s)
    except Unavailable as error:
        yield Finding(Level.WARNING, plain(str(error)))
        return
    for what in found:
        yield _critical(
            f"The configuration cannot be used: {plain(what, 1000)} A receiver that runs goes on with what it "
            "read before; the next one that starts refuses it."
        )


def _standing(settings: Settings) -> list[Finding]:
    if not settings.database_url and (state := Cluster(settings.home).status) != "running":
        return [_critical(f"The PostgreSQL of {settings.home} is {state}, so nothing is accepted or worked.")]
    try:
        with visit(settings) as database:
            return database.run(
                lambda tx: [
                    *findings(tx, settings.alerts, receives=bool(settings.sources)),
                    *_unserved(tx, settings),
                    *_unpruned(tx, settings),
                ]
            )
    except (Misconfigured, Unavailable) as error:
        return [_critical(" ".join(str(error).split()))]


def findings(tx: Transaction, limits: AlertSettings, *, receives: bool = False) -> list[Finding]:
    """What is late, missing or unusual at this moment. `receives`: there are sources, so a receiver must be alive."""
    as_viewer(tx)
    counts = status(tx, worker_silent_s=limits.worker_silent_s)
    waits = tx.one(WAITS, lease_over_s=limits.lease_over_s)._asdict()
    found = [
        *_held(tx),
        *_alarms(tx),
        *_processes(tx, limits),
        *_waiting(counts, waits, limits),
        *_pauses(tx, limits),
    ]
    if receives and not counts["receivers"]:
        found.append(_critical("No receiver is alive: no webhook is accepted. Start one: nottwice receive."))
    return [*found, *_endpoints(tx, limits), *_too_many(counts, limits), *_refused(tx, limits), *_record(tx)]


# Live rows alone, each over its partial index.
WAITS = """
WITH over AS (
    SELECT lease_until FROM nottwice.events WHERE state = 'processing' AND lease_until < now() - make_interval(secs => :lease_over_s)
    UNION ALL
    SELECT lease_until FROM nottwice.actions WHERE state = 'sending' AND lease_until < now() - make_interval(secs => :lease_over_s))
SELECT (SELECT count(*) FROM over) AS leases, nottwice.seconds_since((SELECT min(lease_until) FROM over)) AS lease_s,
       nottwice.seconds_since((SELECT min(due_at) FROM nottwice.actions WHERE state = 'approved')) AS send_s,
       nottwice.seconds_since((SELECT min(review_since) FROM nottwice.actions WHERE state = 'needs_review')) AS review_s,
       nottwice.seconds_since((SELECT min(created_at) FROM nottwice.actions WHERE state = 'proposed')) AS proposed_s,
       nottwice.seconds_since((SELECT min(since) FROM nottwice.audit_unsealed)) AS unsealed_s
"""


def _waiting(
    counts: Mapping[str, Any], waits: Mapping[str, float], limits: AlertSettings
) -> Iterator[Finding]:
    reviews = counts["actions"]["needs_review"]
    for waited_s, limit_s, what in (
        (counts["oldest_pending_s"], limits.pending_s, "The oldest due event waits for {}."),
        (waits["send_s"], limits.pending_s, "The oldest due send waits for {}."),
        (waits["lease_s"], limits.lease_over_s, f"{waits['leases']} leases ran out, the first {{}} ago, and were not "
                                                "taken back: does a worker sweep?"),
        (waits["review_s"], limits.unsettled_s, f"Uncertain sends wait for a person, {reviews} in all; the oldest for {{}}."),
        (waits["proposed_s"], limits.unsettled_s, "A send waits for approval for {}."),
        (waits["unsealed_s"], limits.unsealed_s, "The audit is not sealed: its oldest open entry is {} old."),
    ):  # fmt: skip
        if waited_s > limit_s:
            level = Level.CRITICAL if waited_s > limit_s * limits.critical_times else Level.WARNING
            yield Finding(level, what.format(duration(waited_s)))


def _too_many(counts: Mapping[str, Any], limits: AlertSettings) -> Iterator[Finding]:
    for n, most, what in (
        (counts["events"]["failed"], limits.failed_max, "Set aside after their last attempt; see `nottwice retry --all --dry-run`"),
        (counts["unhandled"], limits.unhandled_max, "Waiting events that no worker has a handler for"),
        (counts["conflicts"], limits.conflicts_max, "Open conflicts, where the same key came with other content"),
        (counts["quarantined"], limits.quarantined_max, "Deliveries in quarantine, which have no usable key or shape"),
    ):  # fmt: skip
        if n > most:
            yield Finding(Level.WARNING, f"{what}: {n:,}.")


def _refused(tx: Transaction, limits: AlertSettings) -> Iterator[Finding]:
    """Of configured sources: a stranger who knocks at addresses that are none is no finding."""
    for refused in refusals.lately(tx, minutes=60):
        if refused.source and refused.n > limits.refused_max:
            words = (
                f"{refused.n:,} requests of {plain(refused.source)} in the last hour: {WORDS[refused.reason]}"
            )
            yield Finding(Level.WARNING, f"The front door refused {words}")


WORDS = {
    Refusal.BAD_SIGNATURE: "not signed with a secret of this source. Was a secret changed?",
    Refusal.MALFORMED: "they are no documents.",
    Refusal.CUT_SHORT: "they ended before their end.",
    Refusal.TOO_SLOW: "their bodies came too slowly.",
    Refusal.TOO_LARGE: "larger than [receiver] body_bytes_max.",
    Refusal.CODED: "compressed in a way that this source does not take.",
    Refusal.NO_ROOM: "more bodies at once than [receiver] in_hand_bytes_max.",
    Refusal.NOT_STORED: "the database did not store them in time; the sender tries again.",
}


def _endpoints(tx: Transaction, limits: AlertSettings) -> Iterator[Finding]:
    """Off is what the provider said; what it does not say is not known, and no more than a warning."""
    for off in endpoints.off(tx):
        what = "no longer lists" if off.state == "gone" else "has switched off"
        where = f" ({plain(off.url)})" if off.url else ""
        yield Finding(
            Level.CRITICAL if off.alone else Level.WARNING,
            f"{off.label} {what} our webhook endpoint {plain(off.endpoint_id)}{where}, seen {duration(off.since_s)} ago: "
            "what it would bring is not delivered. Switch it on there, then: nottwice catch-up.",
        )
    for account in endpoints.watched(tx):
        if account.silent_s > limits.endpoints_unknown_s:
            why = f" {plain(account.words)}" if account.words else ""
            yield Finding(
                Level.WARNING,
                f"Whether {account.label} still posts to our webhook endpoints ({plain(account.account)}) is not known "
                f"since {duration(account.silent_s)}.{why}",
            )
        elif account.answered and not account.known:
            yield Finding(
                Level.WARNING,
                f"{account.label} lists no webhook endpoint of account {plain(account.account)} that leads to a source of "
                "ours. Name it in [providers] as endpoints, or set [worker] endpoints_every_s to 0.",
            )


def _record(tx: Transaction) -> Iterator[Finding]:
    """What the last check of the record found; nothing is walked here."""
    last = audit_memory.last_check(tx)
    if last is not None and last.broken is not None:
        yield _critical(f"The record is not whole: {last.broken.words} Do not change anything.")


def _unpruned(tx: Transaction, settings: Settings) -> Iterator[Finding]:
    """Asked last: it makes this transaction read in the order of indexes."""
    late = max(retention_walk.overdue(tx, settings.retention), key=lambda one: one.late_s, default=None)
    if late is not None and late.late_s > settings.alerts.unpruned_s:
        what = f"{late.rule.what} of {plain(late.namespace)} are over their time, the oldest for {duration(late.late_s)}"
        yield Finding(Level.WARNING, f"{what}. Does a worker run? By hand: nottwice prune.")


# One that was started again under its name is not missed, and one that ended in order is not either.
PROCESSES = """
SELECT w.kind, w.name, w.host, nottwice.seconds_since(w.seen_at) AS silent_s FROM nottwice.workers w
WHERE w.kind IN ('worker', 'receiver') AND w.stopped_at IS NULL AND w.seen_at > now() - make_interval(secs => :named_s)
  AND NOT EXISTS (SELECT FROM nottwice.workers n
                  WHERE n.kind = w.kind AND n.name = w.name AND n.host = w.host AND n.started_at > w.started_at)
ORDER BY w.kind, w.seen_at
"""


def _processes(tx: Transaction, limits: AlertSettings) -> Iterator[Finding]:
    known = tx.all(PROCESSES, named_s=max(SILENT_NAMED_S, 10 * limits.worker_silent_s))
    silent = [one for one in known if one.silent_s > limits.worker_silent_s]
    if all(one.kind != "worker" or one in silent for one in known):
        yield _critical(
            "No worker is alive: nothing is worked and nothing is sent. Start one: nottwice work."
        )
    for one in silent:
        who = f"{one.kind.capitalize()} {plain(one.name)} on {plain(one.host)}"
        yield Finding(Level.WARNING, f"{who} gave no sign for {duration(one.silent_s)}.")


def _pauses(tx: Transaction, limits: AlertSettings) -> Iterator[Finding]:
    for pause in pauses.standing(tx):
        level = Level.CRITICAL if pause.since_s > limits.unsettled_s else Level.WARNING
        until = f"{pause.paused_until:%H:%M:%S} UTC"
        yield Finding(
            level,
            f"Nothing is sent by account {plain(pause.account)} until {until}, since {duration(pause.since_s)}: "
            f"{plain(pause.reason)}",
        )


def _held(tx: Transaction) -> Iterator[Finding]:
    if (held := restored.held(tx)) is not None:
        yield _critical(
            f"Nothing is sent: {held.why} {held.keyed + held.keyless:,} sends wait. Once the other one is off for good: nottwice "
            "release --as EMAIL --reason TEXT."
        )


# Of what waits for people, so of no great number.
ALARMS = """
SELECT count(*) AS n, min(a.provider) AS provider FROM nottwice.actions a
WHERE a.state = 'needs_review' AND EXISTS (
    SELECT FROM nottwice.action_attempts t WHERE t.action_id = a.id AND t.outcome = 'in_flight'
    HAVING count(*) >= :most OR bool_or(t.other_content))
"""


def _alarms(tx: Transaction) -> Iterator[Finding]:
    """The same key with other content: it cannot come from here."""
    found = tx.one(ALARMS, most=IN_FLIGHT_MAX)
    if found.n:
        yield _critical(
            f"{plain(found.provider)} says of {found.n:,} uncertain sends that their key is busy, again and again, or came with "
            "other content. Does somebody else use the account's keys? They wait on the review desk and are not tried."
        )


def _unserved(tx: Transaction, settings: Settings) -> Iterator[Finding]:
    """By the configuration of whoever asks: workers with another one may serve them."""
    for one in accounts.unserved(tx, [settings.account_of(name) for name in settings.providers]):
        if one.oldest_s > settings.alerts.pending_s:
            n = f"{one.sends:,}" if one.sends < accounts.COUNTED_MAX else f"{one.sends:,} or more"
            yield Finding(
                Level.WARNING,
                f"Sends that wait for account {plain(one.account)} of provider {plain(one.provider)}: {n}, the oldest for "
                f"{duration(one.oldest_s)}. No [providers] here has that account, so nothing sends them.",
            )


def duration(seconds: float) -> str:
    """`90 s`, `12 min`, `5 h`, `3 days`: as precise as it matters."""
    for unit, length_s in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"


def _critical(what: str) -> Finding:
    return Finding(Level.CRITICAL, what)
