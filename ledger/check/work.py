"""Findings about work: what waits too long, who gives no sign, and how much of something there is."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.check.found import Finding, Level, Topic, critical, duration, late, warning
from ledger.check.seen import Process, Seen
from ledger.settings import AlertSettings
from ledger.terminal import plain


def processes(seen: Seen, limits: AlertSettings) -> Iterator[Finding]:
    silent = [one for one in seen.processes if one.silent_s > limits.worker_silent_s]
    if all(one.kind != "worker" or one in silent for one in seen.processes):
        yield critical(
            Topic.WORKERS,
            "No worker is alive: nothing is worked and nothing is sent. Start one: nottwice work.",
        )
    for one in silent:
        topic = Topic.WORKERS if one.kind == "worker" else Topic.RECEIVERS
        yield warning(topic, f"{_named(one)} gave no sign for {duration(one.silent_s)}.")


def refusing(seen: Seen) -> Iterator[Finding]:
    """Also when the file is right by now: what was changed does not hold there before it is read."""
    for one in seen.processes:
        if one.refused_s is not None:
            yield warning(
                Topic.CONFIGURATION,
                f"{_named(one)} refused its configuration {duration(one.refused_s)} ago and goes on with what it read "
                "before. Its log names the line. Correct the file there, then send it SIGHUP.",
            )


def _named(one: Process) -> str:
    return f"{one.kind.capitalize()} {plain(one.name)} on {plain(one.host)}"


def receivers(seen: Seen) -> Iterator[Finding]:
    """Where there are sources."""
    if not seen.counts["receivers"]:
        what = "No receiver is alive: no webhook is accepted. Start one: nottwice receive."
        yield critical(Topic.RECEIVERS, what)


def waiting(seen: Seen, limits: AlertSettings) -> Iterator[Finding]:
    waits, reviews = seen.waits, seen.counts["actions"]["needs_review"]
    for topic, waited_s, limit_s, what in (
        (Topic.PENDING, seen.counts["oldest_pending_s"], limits.pending_s, "The oldest due event waits for {}."),
        (Topic.SENDS, waits["send_s"], limits.pending_s, "The oldest due send waits for {}."),
        (Topic.LEASES, waits["lease_s"], limits.lease_over_s, f"{waits['leases']} leases ran out, the first {{}} ago, and were "
                                                              "not taken back: does a worker sweep?"),
        (Topic.UNSETTLED, waits["review_s"], limits.unsettled_s, f"Uncertain sends wait for a person, {reviews} in all; the "
                                                                 "oldest for {}."),
        (Topic.PROPOSED, waits["proposed_s"], limits.unsettled_s, "A send waits for approval for {}."),
        (Topic.RUNS, waits["runs_s"], limits.unsettled_s, f"Runs wait for a second person, {int(waits['runs'])} in all; the oldest "
                                                          "for {}. Look: nottwice reprocess list."),
        (Topic.UNSEALED, waits["unsealed_s"], limits.unsealed_s, "The audit is not sealed: its oldest open entry is {} old."),
    ):  # fmt: skip
        words = what.format(duration(waited_s))
        if found := late(topic, words, waited_s, limit_s, limits.critical_times):
            yield found


def too_many(seen: Seen, limits: AlertSettings) -> Iterator[Finding]:
    counts = seen.counts
    for topic, n, most, what in (
        (Topic.FAILED, counts["events"]["failed"], limits.failed_max,
         "Events that were set aside after their last attempt"),
        (Topic.UNHANDLED, counts["unhandled"], limits.unhandled_max, "Waiting events that no worker has a handler for"),
        (Topic.CONFLICTS, counts["conflicts"], limits.conflicts_max,
         "Open conflicts, where the same key came with other content"),
        (Topic.QUARANTINED, counts["quarantined"], limits.quarantined_max,
         "Deliveries in quarantine, which have no usable key or shape"),
    ):  # fmt: skip
        if n > most:
            yield Finding(Level.WARNING, f"{what}: {n:,}.", topic)
