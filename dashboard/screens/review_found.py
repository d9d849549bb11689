"""What we found about a send, in words: its tries, its evidence, and what nobody has told us. No Streamlit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from dashboard.words import clock, clock_s, many, provider, span
from ledger.provider_facts import FACTS
from ledger.records import Attempt, OutcomeKind
from ledger.verdict import VerdictWord
from ledger.views.review import Send

FOUND = {
    OutcomeKind.ACCEPTED: "Accepted, with a message number",
    OutcomeKind.REFUSED: "Refused",
    OutcomeKind.NOT_SENT: "Certainly not sent",
    OutcomeKind.IN_FLIGHT: "The provider said that this key is busy",
    OutcomeKind.UNKNOWN: "The request left; no clear answer came",
}
TOLD = FOUND | {
    OutcomeKind.IN_FLIGHT: "The key is busy",
    OutcomeKind.UNKNOWN: "The request left",
}
POINTS = {OutcomeKind.ACCEPTED: "sent", OutcomeKind.REFUSED: "not_sent", OutcomeKind.NOT_SENT: "not_sent"}
# Our own codes for a try that no answer of the provider ended (worker/providers, worker/sender.py).
NO_ANSWER = frozenset({"broken", "connect", "deadline", "lease", "lost", "no_message_id"})
TRIES_SHOWN = 3
NOTICE = "Notice from "  # how ledger/evidence/notices.py names where a webhook came from
LOG_LATE_MIN = 5  # how late a provider's own log may be
AROUND = timedelta(minutes=1)


def lead(send: Send) -> str:
    """One sentence of what happened."""
    name = provider(send.provider)
    match send.state:
        case "proposed":
            return "It waits for a person to approve exactly this text. Nothing has gone out."
        case "approved":
            return f"It is ready to go to {name}." if not send.attempts else f"It goes to {name} once more."
        case "sending":
            return f"It is on its way to {name}."
        case "needs_review":
            return _uncertain(send, name)
        case "sent" if send.finding.verdict is not VerdictWord.WAS_SENT:
            return f"A person closed it as sent. {name} has not confirmed it."
        case "sent":
            return f"It went out through {name}."
        case "refused":
            return f"{name} refused it. It did not go out."
        case "failed":
            return f"{name} could not be reached in time. It did not go out."
        case _:
            return "Nothing more goes out under this key."


def was_answered(one: Attempt) -> bool:
    """Whether the provider's own word ended this try. A mail server's codes name the step first: "dot lost"."""
    return bool(one.code) and one.code.rsplit(" ", 1)[-1] not in NO_ANSWER


def _uncertain(send: Send, name: str) -> str:
    open_ends = [
        a for a in send.attempts if a.abandoned or a.outcome in (OutcomeKind.UNKNOWN, OutcomeKind.IN_FLIGHT)
    ]
    if not open_ends:
        return "It waits for a person. It may have gone out, or not."
    last, at = open_ends[-1], clock(open_ends[-1].started_at, send.now)
    if last.outcome is None:
        return f"The worker was stopped while it was sending this e-mail at {at} UTC, before it could write down the answer."
    if last.outcome is OutcomeKind.IN_FLIGHT:
        return f"{name} said at {at} UTC that a request with this key was under way. It may have gone out, or not."
    if was_answered(last):
        return f"{name} answered with an error after we sent this e-mail at {at} UTC. It may have gone out, or not."
    return (
        f"We gave this e-mail to {name} at {at} UTC and no clear answer came. It may have gone out, or not."
    )


def rows(send: Send, kind: str) -> list[tuple[str, str, str, str]]:
    """What we looked at, what we found, where it points, when. The first two may hold text from outside."""
    return [*_tries(send), *_evidence(send), *_silence(send, kind)]


def new_since(send: Send, seen_at: datetime, found_then: int) -> list[tuple[str, str, str, str]]:
    """Of `rows`, what came in after somebody looked at this send, when it had so many findings."""
    answers = [a for a in send.attempts if a.answered_at is not None and a.answered_at > seen_at]
    return [
        *(_try(a, f"Try {a.number}", send) for a in answers),
        *list(_evidence(send))[found_then:],
    ]


def can_be_asked(kind: str) -> bool:
    """Whether a provider of this kind has a look-up, so that to look again can bring something."""
    return kind not in FACTS or FACTS[kind].can_be_asked


def _tries(send: Send) -> Iterator[tuple[str, str, str, str]]:
    total = len(send.attempts)
    if total > TRIES_SHOWN:
        yield f"{total - TRIES_SHOWN} earlier tries", "See Tries below", "neither", "–"
    for attempt in send.attempts[-TRIES_SHOWN:]:
        name = "First and only try" if total == 1 else f"Try {attempt.number}"
        yield _try(attempt, name if attempt.number else "Since the restore or the copy", send)


def _try(attempt: Attempt, name: str, send: Send) -> tuple[str, str, str, str]:
    points = POINTS.get(attempt.outcome, "neither") if attempt.outcome else "neither"
    return name, tried(attempt), points, clock(attempt.answered_at or attempt.started_at, send.now)


def tried(attempt: Attempt) -> str:
    """What came of one try; the provider's own words stand in it. A code is for programs, so it stands in alone."""
    if not attempt.number:  # supposed by a release: ledger/accounts/restored.py
        return "Nothing is written down; it may have gone out"
    if attempt.outcome is None:
        return "Its worker was stopped before the answer" if attempt.abandoned else "Under way"
    told = attempt.reason or attempt.code
    return f"{TOLD[attempt.outcome]}. {told[:1].upper()}{told[1:]}" if told else FOUND[attempt.outcome]


def _evidence(send: Send) -> Iterator[tuple[str, str, str, str]]:
    taken_back = {
        seen.message_id for seen in send.evidence if seen.points_to == "neither" and seen.message_id
    }
    for seen in send.evidence:
        if seen.message_id in taken_back and not seen.proof and seen.points_to != "neither":
            yield seen.source, f"{seen.found} (another send's)", "neither", clock(seen.observed_at, send.now)
            continue
        weight = "" if seen.points_to == "neither" else " (proof)" if seen.proof else " (a hint, not a proof)"
        points = seen.points_to.value if seen.proof or not weight else f"hint_{seen.points_to.value}"
        yield seen.source, seen.found + weight, points, clock(seen.observed_at, send.now)


def _silence(send: Send, kind: str) -> Iterator[tuple[str, str, str, str]]:
    if send.state != "needs_review":
        return
    if not any(seen.source.startswith(NOTICE) for seen in send.evidence):
        yield "Delivered or bounced notice", "None so far", "neither", clock(send.now)
    if not can_be_asked(kind):
        name = provider(send.provider)
        yield f"{name} look-up", f"{name} cannot be asked about a send", "neither", "–"


def how_to_find_out(send: Send) -> str:
    """Markdown of our own words: where to look, for when, and what a find or a miss means."""
    name, (first, last) = provider(send.provider), minutes(send)
    between = f"**between {clock(first, send.now)} and {clock(last)} UTC**"
    where = _where_to_look(name, between, " and with the subject" if send.subject else "")
    if any(attempt.outcome is OutcomeKind.IN_FLIGHT for attempt in send.attempts):
        return _whose_key(name) + where
    return where


def searched_recipient(send: Send) -> str:
    """For whom a log is searched; nothing where a role does not see it whole."""
    first = send.recipients[0] if send.recipients else ""
    return "" if "•" in first else first


def _whose_key(name: str) -> str:
    """Our content never changes: what else may have used the key."""
    return (
        f"{name} said that our key is under way, or came with other content. Does another installation, or a script, send by "
        "this account with our keys? What went out under the key may be theirs.\n\n"
    )


def _where_to_look(name: str, between: str, subject: str) -> str:
    return (
        f"1. In {name}'s own log, look for mail to the address{subject} below, {between}.\n"
        "2. Or ask the customer whether it came.\n\n"
        "Found: choose **It was sent** and give its number. Not there: likely not sent, but their log can be "
        f"up to {LOG_LATE_MIN} min late. A miss is a hint, not a proof."
    )


def minutes(send: Send) -> tuple[datetime, datetime]:
    """When it may have gone out: from the first to the last try, with a minute around."""
    ends = [a.answered_at or a.started_at for a in send.attempts]
    return min(a.started_at for a in send.attempts) - AROUND, max(ends) + AROUND


def looking_for_evidence(send: Send) -> bool:
    return send.evidence_until is not None and send.now < send.evidence_until


def looking_words(send: Send) -> str:
    until = send.evidence_until or send.now
    left = span((until - send.now).total_seconds())
    return f"We are still looking for evidence until {clock_s(until)} UTC, {left} more. Sending again is off until then."


def tries_label(send: Send) -> str:
    return f"Tries · {len(send.attempts)}"


def size_of_text(send: Send) -> str:
    """How long the text is, of our own numbers."""
    text, page = send.head.get("text_characters"), send.head.get("html_characters")
    parts = [many(int(text), "character")] if text is not None else []
    parts += [f"an HTML part of {many(int(page), 'character')}"] if page else []
    return ", ".join([*parts, "no attachment"])
