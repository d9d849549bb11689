"""The messages of an AgentMail inbox since a time, and each of them whole (agentmail 2.0.18, `inboxes.messages`).

Facts from docs.agentmail.to and the package: the list is filtered by `after` and `before`, ascending when asked for,
in pages by `next_page_token`; an item has no text, `get` has. `received` and `sent` are AgentMail's own labels; spam,
blocked and unauthenticated mail is not listed unless asked for, and in the trash it is not listed at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from ledger.records import Unanswered
from worker.providers.agentmail_line import Account
from worker.providers.agentmail_search import not_looked
from worker.providers.content import Unsendable
from worker.providers.httpx_line import part
from worker.providers.outcomes import message_id_of
from worker.providers.wire import Line, within

T = TypeVar("T")
PAGE = 100
GONE = 404
# What an inbox has never received, and what is no `message.received` at the front door either.
NOT_MAIL = frozenset(("sent", "draft", "spam", "blocked", "unauthenticated"))


@dataclass(frozen=True, slots=True)
class Mail:
    """An incoming message as it is listed."""

    inbox_id: str
    message_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Page:
    """`others` are no incoming mail; `unreadable` have no id or no time. Of both their times, where they have one."""

    mail: tuple[Mail, ...]
    others: tuple[datetime | None, ...]
    unreadable: tuple[datetime | None, ...]
    token: str


@dataclass(frozen=True, slots=True)
class NotGiven:
    """No answer. `final`: asked again it would be the same. `gone`: there is no such thing."""

    why: Unanswered
    final: bool = False
    gone: bool = False


class Mailbox:
    """One account's inboxes, read only."""

    def __init__(self, name: str, base_url: str, key: str) -> None:
        self._account = Account(name, base_url, key)

    def page(
        self, inbox: str, after: datetime, before: datetime | None, token: str, deadline_s: float
    ) -> Page | NotGiven:
        """One page, oldest first; `token` is the page before's, "" for the first."""
        query: dict[str, Any] = {"after": after, "before": before, "page_token": token or None}

        def ask(messages: Any, options: dict[str, Any], line: Line) -> Page:
            return _page(
                messages.list(inbox_id=part(inbox), limit=PAGE, ascending=True, **query, **options), inbox
            )

        return self._asked(ask, deadline_s)

    def message(self, inbox: str, message_id: str, deadline_s: float) -> bytes | NotGiven | None:
        """The message as AgentMail writes it, its bytes kept; None when it is not there any more."""

        def ask(messages: Any, options: dict[str, Any], line: Line) -> bytes:
            line.keeps_body = True
            found = messages.get(inbox_id=part(inbox), message_id=part(message_id), **options)
            if found.message_id != message_id or not line.body:
                raise ValueError("It is another message.")
            line.body.decode()
            return line.body

        answer = self._asked(ask, deadline_s)
        return None if isinstance(answer, NotGiven) and answer.gone else answer

    def _asked(self, ask: Callable[[Any, dict[str, Any], Line], T], deadline_s: float) -> T | NotGiven:
        too_slow = NotGiven(Unanswered(f"AgentMail gave no whole answer within {deadline_s:g} s."))

        def call(line: Line) -> T | NotGiven:
            try:
                with self._account.messages(line, deadline_s) as (messages, options):
                    return ask(messages, options, line)
            except Unsendable as error:
                return NotGiven(Unanswered(str(error)), final=True)
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing was read
                return NotGiven(not_looked(line, error), _is_final(line.status), line.status == GONE)

        return within(deadline_s, call, lambda _: too_slow)


def _is_final(status: int | None) -> bool:
    return status is not None and 400 <= status < 500 and status not in (408, 409, 425, 429)


def _page(found: Any, inbox: str) -> Page:
    """The package lets any type through: what is no message with an id and a time is counted, and said."""
    mail, others, unreadable = [], list[datetime | None](), list[datetime | None]()
    for item in found.messages:
        labels = {str(label).lower() for label in getattr(item, "labels", None) or ()}
        message_id, at = message_id_of(getattr(item, "message_id", None)), _time_of(item)
        if "received" not in labels or labels & NOT_MAIL:
            others.append(at)
        elif message_id is None or at is None:
            unreadable.append(at)
        else:
            mail.append(Mail(_inbox_id(item, inbox), message_id, at))
    token = found.next_page_token
    return Page(tuple(mail), tuple(others), tuple(unreadable), token if isinstance(token, str) else "")


def _inbox_id(item: Any, asked: str) -> str:
    given = getattr(item, "inbox_id", None)
    return given if isinstance(given, str) and given else asked


def _time_of(item: Any) -> datetime | None:
    at = getattr(item, "timestamp", None)
    if not isinstance(at, datetime):
        return None
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
