"""Inboxili through its published package (inboxili 0.1.0). It has no idempotency key and no look-up.

Facts from the package's source; that there is no key is said outright by its author. One recipient, no cc, no bcc,
no reply-to, no attachments; a place in a thread (`in_reply_to`) is not passed on.

Traps of the package, each answered below: it repeats after 429; `InboxiliError` also stands for 408 and 5xx;
`InboxiliConnectionError` for a refused connection and for a lost answer alike; further exceptions escape both; it
drops the headers; an empty 200 reads as success without an id; `urllib` follows redirects as GET and hands them our
API key; its timeouts are per read.
"""

from __future__ import annotations

import html
import urllib.error
from types import SimpleNamespace
from typing import Any

import inboxili.client
from inboxili import Inboxili as Client
from inboxili import InboxiliConnectionError, InboxiliError

from ledger.provider_facts import FACTS
from ledger.records import (
    Accepted,
    CannotBeAsked,
    ClaimedAction,
    Looked,
    LookUp,
    NotSent,
    Outcome,
    Refused,
    Unknown,
)
from ledger.sendable import problem
from worker.providers import wire
from worker.providers.content import Unsendable, address, addresses, one_line, request_of, split, subject_of
from worker.providers.outcomes import Answer, Rule, classify, given_up, message_id_of
from worker.providers.urllib_line import NotConnected, names

PUBLIC = FACTS["inboxili"].address

# What an answer means (the package's README and source; 413 and 408: RFC 9110). Whatever has no row is unknown: any
# other 5xx, any 3xx, a lost or broken answer. Without a key, unknown is for a person.
TABLE = (
    Rule(400, Refused, "Inboxili found the request invalid and sent nothing."),
    Rule(413, Refused, "Inboxili found the message too big and sent nothing."),
    Rule(422, Refused, "Inboxili could not use the request and sent nothing."),
    Rule(
        422,
        Refused,
        "Inboxili says that sending failed. It most likely sent nothing, but does not promise it.",
        code="send_failed",  # permanent: nothing sends it again by itself
    ),
    Rule(404, Refused, "Inboxili does not know what was asked for."),
    Rule(404, NotSent, "This is not Inboxili's API. Check base_url.", code="", pauses=True),
    Rule(401, NotSent, "Inboxili does not take our API key. Check it.", pauses=True),
    Rule(403, NotSent, "Inboxili does not let our API key do this. Check its rights.", pauses=True),
    Rule(429, NotSent, "Inboxili's rate limit is reached (120 a minute and key).", pauses=True),
    Rule(408, Unknown, "Inboxili gave up waiting; the message may have been sent."),
    Rule(500, Unknown, "Inboxili failed inside; the message may have been sent."),
    Rule(503, Unknown, "Inboxili is unavailable; the message may have been sent."),
)
NO_CODE = "http_error"  # the package's word for an answer without one

# The package offers no hook for its transport; its one module finds the network under the name `urllib`.
vars(inboxili.client)["urllib"] = SimpleNamespace(**names())


class Inboxili:
    """One Inboxili account."""

    label = "Inboxili"

    def __init__(self, name: str, base_url: str, key: str) -> None:
        self.name = name
        self._url = wire.checked(base_url or PUBLIC, name)
        self._key = key

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        try:
            request = _request(action.content)
        except (Unsendable, ValueError) as error:
            return Refused(f"Nothing was sent: {error}", "unsendable")
        client = Client(self._key, base_url=self._url, timeout=deadline_s, max_retries=0)
        return wire.within(deadline_s, lambda line: _outcome(client, request), given_up(deadline_s))

    def look_up(self, lookup: LookUp, deadline_s: float) -> Looked:
        """Its API has nothing to ask: no list, no status, and its message id is known only after an answer."""
        return CannotBeAsked("Inboxili cannot be asked about a send. Its own log is for people.")


def _outcome(client: Client, request: dict[str, Any]) -> Outcome:
    try:
        answer = client.emails.send(**request)
    except InboxiliConnectionError as error:
        return _lost(error)
    except Exception as error:  # noqa: BLE001 - whatever escapes the package: it may have been sent
        return _refusal(error)
    message_id = message_id_of(answer.message_id)
    if answer.status != "sent" or message_id is None:
        return Unknown("Inboxili's answer names no message; it may have been sent.", "no_message_id")
    return Accepted(message_id)


def _refusal(error: Exception) -> Outcome:
    """By the error the answer was read from, which Python keeps beside the package's own; it has the headers."""
    received = error.__context__
    if not isinstance(received, urllib.error.HTTPError):
        return Unknown(f"No clear answer came ({type(error).__name__}); it may have been sent.", "broken")
    code, words = "", "(its body cannot be read)"
    if isinstance(error, InboxiliError):
        code = one_line(str(error.code)) if error.code != NO_CODE else ""
        words = str(error.message)
    received.close()
    return classify(TABLE, Answer(received.code, code, words, received.headers.get("Retry-After")))


def _lost(error: InboxiliConnectionError) -> Outcome:
    cause = getattr(error.__cause__, "reason", error.__cause__)
    if isinstance(cause, NotConnected):
        return NotSent(f"Inboxili could not be reached ({cause}).", "connect", pauses=True)
    return Unknown(f"The answer was lost ({type(cause).__name__}); it may have been sent.", "lost")


def _request(content: bytes) -> dict[str, Any]:
    """The arguments of the package's call. Raises Unsendable for what Inboxili cannot do."""
    request = request_of(content)
    to = addresses(request, "to")
    if reason := problem(request, "inboxili"):
        raise Unsendable(reason)
    if not subject_of(request):
        raise Unsendable("Inboxili wants a subject.")
    name, sender = split(str(request["sender"]))
    text = str(request.get("text") or "")
    return {
        "to": address(to[0]),
        "from_email": sender,
        "from_name": name or None,
        "subject": subject_of(request),
        "text_body": text or None,
        "html_body": str(request.get("html") or "") or _as_html(text),
    }


def _as_html(text: str) -> str:
    """Inboxili wants an HTML part; plain text becomes one without gaining markup."""
    return "<p>" + html.escape(text).replace("\n", "<br>\n") + "</p>"
