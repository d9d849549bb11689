"""`python -m worker.catch_up`: asks a provider for messages that an outage kept from us. It sends and stores nothing.

It is asked by `nottwice catch-up` over standard input (`ledger.catch_up.talk`): "page" for what an inbox lists,
"message" for one of them whole.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ledger.catch_up.talk import Question, serve
from ledger.errors import Misconfigured
from ledger.settings import Settings, load
from worker import providers
from worker.providers.agentmail_listing import Mailbox, NotGiven, Page


class Lister:
    """One source's provider account, for as long as one command runs."""

    def __init__(self) -> None:
        self._mailbox: Mailbox
        self._deadline_s = 0.0

    def answer(self, question: Question, _: list[bytes]) -> dict[str, Any]:
        what = question["ask"]
        if what == "begin":
            return self._begin(load(), question["source"])
        return self._page(question) if what == "page" else self._message(question)

    def _begin(self, settings: Settings, source: str) -> dict[str, Any]:
        name = _provider_of(settings, source)
        self._mailbox = providers.mailbox(settings, name)
        self._deadline_s = settings.providers[name].timeout_s
        return {}

    def _page(self, question: Question) -> dict[str, Any]:
        before = datetime.fromisoformat(question["before"]) if question["before"] else None
        after = datetime.fromisoformat(question["after"])
        page = self._mailbox.page(question["inbox"], after, before, question["token"], self._deadline_s)
        return _refusal(page) if isinstance(page, NotGiven) else _told(page)

    def _message(self, question: Question) -> dict[str, Any]:
        found = self._mailbox.message(question["inbox"], question["message_id"], self._deadline_s)
        if isinstance(found, NotGiven):
            return _refusal(found)
        return {"message": found.decode() if found is not None else None}


def _told(page: Page) -> dict[str, Any]:
    mail = [
        {"inbox_id": one.inbox_id, "message_id": one.message_id, "timestamp": one.at.isoformat()}
        for one in page.mail
    ]
    beside = {"others": _times(page.others), "unreadable": _times(page.unreadable)}
    return {"mail": mail, **beside, "token": page.token}


def _times(times: Iterable[datetime | None]) -> list[str | None]:
    return [at.isoformat() if at else None for at in times]


def _refusal(given: NotGiven) -> dict[str, Any]:
    return {"unanswered": given.why.reason, "retry_after_s": given.why.retry_after_s, "final": given.final}


def _provider_of(settings: Settings, source: str) -> str:
    """The configured account whose messages the source speaks of. Raises Misconfigured when that is not clear."""
    table = settings.sources[source]
    of_kind = [name for name, provider in settings.providers.items() if provider.kind == table.kind]
    if table.provider:
        return table.provider
    if not of_kind:
        raise Misconfigured(
            f"There is no [providers.NAME] of kind {table.kind}, which could list the messages of [sources.{source}]. "
            "Write one, with its key; or hand in a file: --file FILE."
        )
    if len(of_kind) > 1:
        raise Misconfigured(
            f'[sources.{source}] has {len(of_kind)} providers of its kind; name its own: provider = "NAME".'
        )
    return of_kind[0]


if __name__ == "__main__":
    serve(Lister().answer)
    sys.exit(0)
