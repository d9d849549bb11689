"""AgentMail through its published package (agentmail 2.0.18): a stored request out, an outcome back.

Facts from docs.agentmail.to (idempotency, errors, knowledge base: API 403) and from the package's source: keys are
organisation-wide and kept 24 h after completion; the same key with the same request gives the first answer, with
another request, or while the first is under way, 409. There is no look-up of a send by its key; our label is on the
message, and messages can be listed (agentmail_search).

A trap of the package that is answered here, the others in agentmail_line: it takes any type for a message id.
"""

from __future__ import annotations

from typing import Any, cast

from agentmail.core.api_error import ApiError

from ledger.accounts.endpoints import Endpoint
from ledger.records import (
    Accepted,
    ClaimedAction,
    InFlight,
    Looked,
    LookUp,
    NotSent,
    Outcome,
    Refused,
    Unanswered,
    Unknown,
)
from worker.providers.agentmail_endpoints import listed
from worker.providers.agentmail_line import Account, answer
from worker.providers.agentmail_search import Wanted, not_looked, search, wanted_of
from worker.providers.content import Unsendable, addresses, inbox_of, request_of, subject_of
from worker.providers.httpx_line import NEVER_LEFT, part
from worker.providers.outcomes import Answer, Rule, classify, given_up, message_id_of
from worker.providers.wire import Line, within

# What an answer means (docs: errors, api-403-error; 413 and 408: RFC 9110). Whatever has no row is unknown: any
# other 5xx, any 3xx, a lost or broken answer.
TABLE = (
    Rule(400, Refused, "AgentMail found the request invalid and sent nothing."),
    Rule(413, Refused, "AgentMail found the message too big and sent nothing."),
    Rule(422, Refused, "AgentMail could not use the request and sent nothing."),
    Rule(404, Refused, "AgentMail knows no such inbox or message, or our key may not see it."),
    Rule(404, NotSent, "This is not AgentMail's API. Check base_url.", code="", pauses=True),
    Rule(401, NotSent, "AgentMail does not take our API key. Check it.", pauses=True),
    Rule(403, NotSent, "AgentMail does not let our API key do this. Check its rights.", pauses=True),
    Rule(403, Refused, "AgentMail rejected this message and did not send it.", code="message_rejected"),
    Rule(403, Unknown, "Something else was changing at AgentMail.", code="race_condition"),
    Rule(403, Unknown, "The inbox is being deleted at AgentMail.", code="resource_deleting"),
    Rule(409, InFlight, "AgentMail has this key under way, or used it with other content."),
    Rule(429, NotSent, "AgentMail's rate or usage limit is reached.", pauses=True),
    Rule(408, Unknown, "AgentMail gave up waiting; the message may have been sent."),
    Rule(500, Unknown, "AgentMail failed inside; the message may have been sent."),
    Rule(503, Unknown, "AgentMail is unavailable; the message may have been sent."),
)


class AgentMail:
    """One AgentMail account. A content with `in_reply_to` is a reply in its `inbox`, any other a new message."""

    label = "AgentMail"

    def __init__(self, name: str, base_url: str, key: str) -> None:
        self.name = name
        self._account = Account(name, base_url, key)

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        try:
            request = _request(action)
        except (Unsendable, ValueError) as error:
            return Refused(f"Nothing was sent: {error}", "unsendable")
        return within(deadline_s, lambda line: self._outcome(line, request, deadline_s), given_up(deadline_s))

    def look_up(self, lookup: LookUp, deadline_s: float) -> Looked:
        """By our label, and by recipient and time for a hint; both lists of the inbox it was sent from."""
        try:
            wanted = wanted_of(lookup)
        except (Unsendable, ValueError) as error:
            return Unanswered(f"There is nothing to look for: {error}")
        too_slow = Unanswered(f"AgentMail gave no whole answer within {deadline_s:g} s.")
        return within(deadline_s, lambda line: self._looked(line, wanted, deadline_s), lambda _: too_slow)

    def endpoints(self, deadline_s: float) -> list[Endpoint] | Unanswered:
        """Every webhook endpoint that our key may see, and whether AgentMail still posts to it."""
        too_slow = Unanswered(f"AgentMail gave no whole answer within {deadline_s:g} s.")
        return within(deadline_s, lambda line: self._listed(line, deadline_s), lambda _: too_slow)

    def _listed(self, line: Line, deadline_s: float) -> list[Endpoint] | Unanswered:
        try:
            with self._account.client(line, deadline_s) as (client, options):
                return listed(client, options, line)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing is known by it
            return not_looked(line, error)

    def _looked(self, line: Line, wanted: Wanted, deadline_s: float) -> Looked:
        try:
            with self._account.messages(line, deadline_s) as (messages, options):
                return search(messages, options, wanted)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing was seen and nothing is known by it
            return not_looked(line, error)

    def _outcome(self, line: Line, request: dict[str, Any], deadline_s: float) -> Outcome:
        try:
            sent = self._call(line, request, deadline_s)
        except NEVER_LEFT as error:
            return NotSent(
                f"AgentMail could not be reached ({type(error).__name__}).", "connect", pauses=True
            )
        except ApiError as error:
            return classify(TABLE, answer(line, error))
        except Exception as error:  # noqa: BLE001 - a cut line, a broken answer: it may have been sent
            return _broken(line, error)
        message_id = message_id_of(getattr(sent, "message_id", None))
        if message_id is None:
            return Unknown("AgentMail's answer names no message; it may have been sent.", "no_message_id")
        return Accepted(message_id, message_id_of(getattr(sent, "thread_id", None)))

    def _call(self, line: Line, request: dict[str, Any], deadline_s: float) -> object:
        with self._account.messages(line, deadline_s) as (messages, options):
            call = messages.reply if "message_id" in request else messages.send
            return cast(object, call(**request, **options))


def _request(action: ClaimedAction) -> dict[str, Any]:
    """The arguments of the package's call. Recipients are always named: a reply goes to nobody but them."""
    content = request_of(action.content)
    request = {"inbox_id": part(inbox_of(content)), "to": addresses(content, "to")}
    if not request["to"]:
        raise Unsendable("It has no recipient.")
    if content.get("in_reply_to"):
        request["message_id"] = part(str(content["in_reply_to"]))
    else:
        request["subject"] = subject_of(content)
    request |= {
        member: found for member in ("cc", "bcc", "reply_to") if (found := addresses(content, member))
    }
    request |= {member: str(content[member]) for member in ("text", "html") if content.get(member)}
    return request | {"labels": [action.reference], "idempotency_key": action.provider_key}


def _broken(line: Line, error: Exception) -> Outcome:
    """An error's status line is enough to know it by; a success needs its whole body."""
    if line.status is not None and line.status >= 300:
        return classify(TABLE, Answer(line.status, "", "(its body cannot be read)", line.retry_after))
    return Unknown(f"No clear answer came ({type(error).__name__}); it may have been sent.", "broken")
