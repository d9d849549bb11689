"""Whether a send went out, by the messages that AgentMail lists (agentmail 2.0.18, `inboxes.messages.list`).

Facts from docs.agentmail.to: labels given to a send are on the message, stored in lower case; `sent`, `received`,
`delivered`, `bounced`, `rejected` … are AgentMail's own and cannot be set by others; a filter by recipient is served
by its search, which may lag, so we list by time and compare ourselves. Messages in the trash are not listed.

Our label is proof, for nobody else writes it. The same recipient near in time is a hint. No find is no proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from agentmail.core.api_error import ApiError

from ledger.records import Answered, LookUp, PointsTo, Sighting, Unanswered
from worker.providers.agentmail_line import answer
from worker.providers.content import Unsendable, addresses, inbox_of, one_line, request_of, split, subject_of
from worker.providers.httpx_line import NEVER_LEFT, part
from worker.providers.outcomes import message_id_of, retry_after_s
from worker.providers.wire import Line

PAGE, PAGES_MAX, HINTS_MAX = 100, 5, 5
BEFORE, AFTER = timedelta(minutes=1), timedelta(minutes=10)  # clocks that run apart; a queue of theirs
OURS = "nt-"  # how each reference of ours begins
NOT_FOUND = (
    "No message with our mark, and none to the same recipient near in time; not found does not mean not sent"
)
CANNOT = {
    401: "AgentMail does not take our API key.",
    403: "AgentMail does not let our API key list messages.",
    404: "AgentMail knows no such inbox, or our key may not see it.",
    429: "AgentMail's rate limit is reached.",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a look-up looks for, read from the stored request."""

    inbox: str
    reference: str
    recipients: frozenset[str]
    subject: str
    in_reply_to: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Listed:
    """A message as AgentMail lists it, as far as its members are what they should be."""

    message_id: str
    labels: frozenset[str]
    recipients: frozenset[str]
    subject: str
    in_reply_to: str
    at: datetime | None


def wanted_of(lookup: LookUp) -> Wanted:
    """Raises Unsendable or ValueError for a content that cannot have been sent."""
    content = request_of(lookup.content)
    to = [one for member in ("to", "cc", "bcc") for one in addresses(content, member)]
    return Wanted(
        inbox=part(inbox_of(content)),
        reference=lookup.reference.lower(),
        recipients=_mailboxes(to),
        subject=subject_of(content),
        in_reply_to=str(content.get("in_reply_to") or ""),
        since=lookup.first_try_at - BEFORE,
        until=lookup.last_try_at + AFTER,
    )


def search(messages: Any, options: dict[str, Any], wanted: Wanted) -> Answered:
    """Look by our label, and only where it is nowhere by recipient and time. Raises what the package raises."""

    def listed(**query: Any) -> Any:
        return messages.list(inbox_id=wanted.inbox, limit=PAGE, **query, **options)

    marked = [m for m in _pages(listed, labels=[wanted.reference]) if wanted.reference in m.labels]
    seen = [_proof(m) for m in marked if "received" not in m.labels]
    if not seen:
        near = _pages(listed, after=wanted.since, before=wanted.until, ascending=True)
        seen = [_hint(m, wanted) for m in _nearest(near, wanted)]
    return Answered(tuple(seen), seen[0].found if seen else NOT_FOUND)


def not_looked(line: Line, error: Exception) -> Unanswered:
    """Why nothing was seen, in words; AgentMail's own among them, as one line."""
    if isinstance(error, NEVER_LEFT):
        return Unanswered(f"AgentMail could not be reached ({type(error).__name__}).")
    if isinstance(error, httpx.TransportError):
        return Unanswered(f"AgentMail's answer was lost ({type(error).__name__}).")
    if not isinstance(error, ApiError) or not error.status_code or error.status_code < 300:
        return Unanswered(f"AgentMail's answer makes no sense ({type(error).__name__}).")
    said = answer(line, error)
    words = one_line(f"{said.status} {said.code} {said.words}")[:200]
    why = CANNOT.get(said.status, "AgentMail could not answer.")
    return Unanswered(f"{why} It said: {words}", retry_after_s(said.retry_after, datetime.now(UTC)))


# ── What is listed ────────────────────────────────────────────────────────────────────────────────────


def _pages(listed: Callable[..., Any], **query: Any) -> Iterator[Listed]:
    token: dict[str, str] = {}
    for _ in range(PAGES_MAX):
        page = listed(**query, **token)
        yield from (found for item in page.messages if (found := _read(item)))
        following = page.next_page_token
        if not isinstance(following, str) or not following:
            return
        token = {"page_token": following}


def _read(item: Any) -> Listed | None:
    """The package lets any type through; what is no message with an id says nothing."""
    message_id = message_id_of(getattr(item, "message_id", None))
    if message_id is None:
        return None
    people = [one for member in ("to", "cc", "bcc") for one in _texts(getattr(item, member, None))]
    at = getattr(item, "timestamp", None)
    return Listed(
        message_id,
        frozenset(label.lower() for label in _texts(getattr(item, "labels", None))),
        _mailboxes(people),
        one_line(str(getattr(item, "subject", None) or "")),
        str(getattr(item, "in_reply_to", None) or ""),
        at.astimezone(UTC) if isinstance(at, datetime) and at.tzinfo else None,
    )


def _nearest(listed: Iterable[Listed], wanted: Wanted) -> list[Listed]:
    """Messages to the same recipient that are nobody else's, the nearest to our last try first."""
    near = [m for m in listed if m.recipients & wanted.recipients and m.at and not _is_known(m)]
    return sorted(near, key=lambda m: abs((m.at or wanted.until) - (wanted.until - AFTER)))[:HINTS_MAX]


def _is_known(message: Listed) -> bool:
    """Received, or another send of ours: it carries that one's mark."""
    return "received" in message.labels or any(label.startswith(OURS) for label in message.labels)


def _proof(message: Listed) -> Sighting:
    if "rejected" in message.labels:  # AgentMail took it; whether anything left is not said
        found = f"AgentMail lists the message with our mark{_clock(message)}, and calls it rejected"
        return Sighting(found, PointsTo.NOT_SENT, False, message.message_id)
    found = f"AgentMail lists a message with our mark{_clock(message)}"
    return Sighting(found, PointsTo.SENT, True, message.message_id)


def _hint(message: Listed, wanted: Wanted) -> Sighting:
    alike = "the same subject" if message.subject == wanted.subject else "another subject"
    if wanted.in_reply_to and message.in_reply_to == wanted.in_reply_to:
        alike += ", in answer to the same message"
    found = f"A message to the same recipient{_clock(message)}, with {alike}, but without our mark"
    return Sighting(found, PointsTo.SENT, False, message.message_id)


def _clock(message: Listed) -> str:
    return f", sent at {message.at:%H:%M:%S} UTC on {message.at.day} {message.at:%b}" if message.at else ""


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _mailboxes(people: Iterable[str]) -> frozenset[str]:
    found = set()
    for one in people:
        try:
            found.add(split(one)[1].casefold())
        except Unsendable:
            continue
    return frozenset(found)
