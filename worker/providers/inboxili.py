"""Inboxili through its published package (inboxili 0.1.0). It has no idempotency key and no look-up.

Traps of the package, each answered below: `InboxiliError` also stands for 408 and 5xx; `InboxiliConnectionError`
for a refused connection and for a lost answer alike; four further exceptions escape both; an empty 200 reads as
success without an id; redirects are followed as GET.
"""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from inboxili import Inboxili as Client
from inboxili.errors import InboxiliConnectionError, InboxiliError

from ledger.records import Accepted, ClaimedAction, NotSent, Outcome, Refused, Unknown
from worker.providers.protocol import (
    DeadlineOver,
    Rule,
    classify,
    message_id_of,
    one_line,
    request_of,
    within,
)

PUBLIC = "https://api.inboxili.com/api/v1"

# 408, 3xx and 5xx have no row. `send_failed` reads as "not sent" but nobody says so: permanent, never repeated.
TABLE = (
    Rule(400, Refused),
    Rule(404, Refused),
    Rule(413, Refused),
    Rule(422, Refused),
    Rule(401, NotSent, pauses=True),
    Rule(403, NotSent, pauses=True),
    Rule(429, NotSent, pauses=True),
)


class Inboxili:
    """One Inboxili account: one recipient, no cc, bcc or attachments."""

    def __init__(self, name: str, base_url: str, key: str, timeout_s: float) -> None:
        self.name = name
        self._client = Client(key, base_url=base_url or PUBLIC, timeout=timeout_s, max_retries=0)
        _refuse_redirects()

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        content = request_of(action)
        if len(content.get("to", ())) != 1 or content.get("cc") or content.get("bcc"):
            return Refused("Inboxili takes exactly one recipient, without cc and bcc")
        try:
            answer = within(deadline_s, lambda: self._call(content))
        except InboxiliError as error:
            code, words = one_line(str(error.code))[:100], one_line(str(error.message))[:300]
            return classify(TABLE, error.status, code, words, _retry_after(error))
        except InboxiliConnectionError as error:
            return _lost_or_refused(error)
        except DeadlineOver as error:
            return Unknown(str(error))
        except Exception as error:  # noqa: BLE001 - a cut body, a junk status line, HTML: it may have been sent
            return Unknown(f"no clear answer: {type(error).__name__}")
        message_id = message_id_of(answer.message_id)
        if answer.status != "sent" or message_id is None:
            return Unknown("success without a message id")
        return Accepted(message_id)

    def _call(self, content: Mapping[str, Any]) -> Any:
        text = str(content.get("text", ""))
        return self._client.emails.send(
            to=content["to"][0],
            from_email=str(content.get("sender", "")),
            subject=one_line(str(content.get("subject", ""))),
            text_body=text,
            html_body=content.get("html") or _as_html(text),
        )


def _as_html(text: str) -> str:
    """Inboxili wants an HTML part; plain text becomes one without gaining markup."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "<p>" + escaped.replace("\n", "<br>\n") + "</p>"


def _lost_or_refused(error: InboxiliConnectionError) -> Outcome:
    reason = getattr(error.__cause__, "reason", None)
    if isinstance(reason, ConnectionRefusedError | socket.gaierror):
        return NotSent(f"no connection: {type(reason).__name__}", pauses=True)
    return Unknown(f"no answer: {type(reason or error.__cause__).__name__}")


def _retry_after(error: InboxiliError) -> str | None:
    answer = error.__context__  # the package drops the headers, Python keeps the error they came with
    return answer.headers.get("Retry-After") if isinstance(answer, urllib.error.HTTPError) else None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Requests of the package are not redirected; everybody else's in this process are, as before."""

    def redirect_request(self, req: urllib.request.Request, *rest: Any) -> urllib.request.Request | None:
        if (req.get_header("User-agent") or "").startswith("inboxili-python"):
            return None
        return super().redirect_request(req, *rest)


def _refuse_redirects() -> None:
    urllib.request.install_opener(urllib.request.build_opener(_NoRedirect))
