"""Mailera over plain HTTP, for it publishes no package: a stored request out, an outcome back; a question in, its word out.

Facts from its article (mailera.app, email-webhook-deduplication): `POST /mailboxes/{id}/send` with `Idempotency-Key`,
which is kept for 24 h, and `GET /sends/{id}`. How its API spells the rest is assumed, and configurable:
`ledger/settings/mailera.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from ledger.records import ClaimedAction, Looked, LookUp, NotSent, Outcome, Refused, Unanswered, Unknown
from ledger.settings.mailera import MaileraSpelling
from worker.providers import httpx_line
from worker.providers.content import Unsendable, inbox_of, request_of
from worker.providers.httpx_line import NEVER_LEFT, part
from worker.providers.mailera_answers import Reader
from worker.providers.mailera_request import spelled
from worker.providers.outcomes import given_up
from worker.providers.wire import Line, checked, within

Ask = Callable[[Line], httpx.Response]
NO_ID = (
    "No answer named this send, so there is nothing to ask by. Another try with the same key would tell, while "
    "Mailera keeps it."
)


class Mailera:
    """One Mailera account. It goes out from the mailbox that the content names as its `inbox`, else its sender."""

    label = "Mailera"

    def __init__(self, name: str, base_url: str, key: str, spelling: MaileraSpelling) -> None:
        self.name = name
        self._url = checked(base_url, name)
        self._ours = {spelling.auth_header: spelling.auth_prefix + key}
        self._spelling, self._reader = spelling, Reader(spelling)
        self._tls = httpx_line.trusted()

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        try:
            content = request_of(action.content)
            path = f"/mailboxes/{part(inbox_of(content))}/send"
            body = spelled(content, self._spelling, action.reference)
        except (Unsendable, ValueError) as error:
            return Refused(f"Nothing was sent: {error}", "unsendable")
        headers = {"Idempotency-Key": action.provider_key or "", "Content-Type": "application/json"}
        ask = self._asking(deadline_s, "POST", path, headers, content=body)
        return within(deadline_s, lambda line: self._outcome(line, ask), given_up(deadline_s))

    def look_up(self, lookup: LookUp, deadline_s: float) -> Looked:
        """`GET /sends/{id}`, by what names the send. Without such an id there is nothing to ask."""
        named = lookup.provider_key if self._spelling.look_up_by == "key" else lookup.sent_as
        try:
            path = f"/sends/{part(named or '.')}"
        except Unsendable:
            return Unanswered(NO_ID)
        asked, ask = named or "", self._asking(deadline_s, "GET", path, {})
        too_slow = Unanswered(f"Mailera gave no whole answer within {deadline_s:g} s.")
        return within(deadline_s, lambda line: self._looked(line, ask, asked), lambda _: too_slow)

    def _asking(self, deadline_s: float, method: str, path: str, headers: dict[str, str], **more: Any) -> Ask:
        """A call that returns the whole answer, or raises what httpx raises."""

        def ask(line: Line) -> httpx.Response:
            with httpx_line.connected(self._url, self._tls, line, deadline_s) as http:
                return http.request(method, self._url + path, headers=self._ours | headers, **more)

        return ask

    def _outcome(self, line: Line, ask: Ask) -> Outcome:
        try:
            return self._reader.outcome(ask(line))
        except NEVER_LEFT as error:
            return NotSent(f"Mailera could not be reached ({type(error).__name__}).", "connect", pauses=True)
        except Exception as error:  # noqa: BLE001 - a cut line, a broken answer: it may have been sent
            if line.status is not None and line.status >= 300:
                return self._reader.by_status(line.status, line.retry_after)
            return Unknown(f"No clear answer came ({type(error).__name__}); it may have been sent.", "broken")

    def _looked(self, line: Line, ask: Ask, asked: str) -> Looked:
        try:
            return self._reader.looked(ask(line), asked)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing was seen
            return Unanswered(f"Mailera gave no whole answer ({type(error).__name__}).")
