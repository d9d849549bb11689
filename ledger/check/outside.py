"""Findings about what goes out and comes in: held, paused, off, refused, and keys that somebody else uses."""

from __future__ import annotations

from collections.abc import Iterator

from ledger import accounts
from ledger.accounts import endpoints
from ledger.check.found import Finding, Level, Topic, critical, duration, warning
from ledger.check.seen import Seen
from ledger.figures.refusals import Refusal
from ledger.settings import AlertSettings
from ledger.terminal import plain


def held(seen: Seen) -> Iterator[Finding]:
    if (now := seen.held) is not None:
        yield critical(
            Topic.HELD,
            f"Nothing is sent: {now.why} {now.keyed + now.keyless:,} sends wait. Once the other one is off for good: nottwice "
            "release --as EMAIL --reason TEXT.",
        )


def alarms(seen: Seen) -> Iterator[Finding]:
    """The same key with other content: it cannot come from here."""
    if seen.busy_keys:
        yield critical(
            Topic.ALARMS,
            f"{plain(seen.busy_provider)} says of {seen.busy_keys:,} uncertain sends that their key is busy, again and again, or "
            "came with other content. Does somebody else use the account's keys? They wait on the review desk and are not tried.",
        )


def paused(seen: Seen, limits: AlertSettings) -> Iterator[Finding]:
    for pause in seen.pauses:
        level = Level.CRITICAL if pause.since_s > limits.unsettled_s else Level.WARNING
        until = f"{pause.paused_until:%H:%M:%S} UTC"
        yield Finding(
            level,
            f"Nothing is sent by account {plain(pause.account)} until {until}, since {duration(pause.since_s)}: "
            f"{plain(pause.reason)}",
            Topic.PAUSED,
        )


def unserved(seen: Seen, limits: AlertSettings) -> Iterator[Finding]:
    for one in seen.unserved:
        if one.oldest_s > limits.pending_s:
            n = f"{one.sends:,}" if one.sends < accounts.COUNTED_MAX else f"{one.sends:,} or more"
            yield warning(
                Topic.UNSERVED,
                f"Sends that wait for account {plain(one.account)} of provider {plain(one.provider)}: {n}, the oldest for "
                f"{duration(one.oldest_s)}. No [providers] here has that account, so nothing sends them.",
            )


def refused(seen: Seen, limits: AlertSettings) -> Iterator[Finding]:
    """Of configured sources: a stranger who knocks at addresses that are none is no finding."""
    for one in seen.refused:
        if one.n > limits.refused_max:
            words = f"{one.n:,} requests of {plain(one.source)} in the last hour: {WORDS[one.reason]}"
            yield warning(Topic.REFUSED, f"The front door refused {words}")


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


def endpoints_off(seen: Seen) -> Iterator[Finding]:
    """Off is what the provider said."""
    for off in seen.endpoints_off:
        what = "no longer lists" if off.state == "gone" else "has switched off"
        where = f" ({plain(off.url)})" if off.url else ""
        yield Finding(
            Level.CRITICAL if off.alone else Level.WARNING,
            f"{off.label} {what} our webhook endpoint {plain(off.endpoint_id)}{where}, seen {duration(off.since_s)} ago: "
            "what it would bring is not delivered. Switch it on there, then: nottwice catch-up.",
            Topic.ENDPOINTS,
        )


def endpoints_unknown(seen: Seen, limits: AlertSettings) -> Iterator[Finding]:
    """What a provider does not say is not known, and no more than a warning."""
    for account in seen.watched:
        if account.silent_s > limits.endpoints_unknown_s:
            yield warning(Topic.ENDPOINTS, _not_known(account))
        elif account.answered and not account.known:
            yield warning(
                Topic.ENDPOINTS,
                f"{account.label} lists no webhook endpoint of account {plain(account.account)} that leads to a source of "
                "ours. Name it in [providers] as endpoints, or set [worker] endpoints_every_s to 0.",
            )


def _not_known(account: endpoints.Watched) -> str:
    why = f" {plain(account.words)}" if account.words else ""
    return (
        f"Whether {account.label} still posts to our webhook endpoints ({plain(account.account)}) is not known "
        f"since {duration(account.silent_s)}.{why}"
    )
