"""AgentMail through its published package (agentmail 2.0.18).

Facts from docs.agentmail.to (idempotency, errors, knowledge base: API 403) and from the package's source: keys are
organisation-wide and kept 24 h after completion; the same key with the same request gives the first answer, with
another request, or while the first is under way, 409. There is no look-up of a send; our label is on the message.

Traps of the package, each answered below: it retries 408, 409, 429 and 5xx by itself, and its last answer hides the
first; it follows redirects, so that a moved address looks like a sent mail; it pastes ids into the URL unescaped;
its timeouts are per read; it takes any type for a message id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

import httpx
from agentmail import AgentMail as Client
from agentmail.core.api_error import ApiError
from agentmail.environment import AgentMailEnvironment

from ledger.records import Accepted, ClaimedAction, InFlight, NotSent, Outcome, Refused, Unknown
from worker.providers.content import Unsendable, addresses, one_line, request_of, split, subject_of
from worker.providers.outcomes import Answer, Rule, classify, given_up, message_id_of
from worker.providers.wire import Line, checked, connect_s, is_loopback, within

PUBLIC = "https://api.agentmail.to"

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
# The connection never stood (TLS included), or the proxy did not open it: the request cannot have left.
NEVER_LEFT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)


class AgentMail:
    """One AgentMail account. A content with `in_reply_to` is a reply in its `inbox`, any other a new message."""

    def __init__(self, name: str, base_url: str, key: str) -> None:
        self.name = name
        self._url = checked(base_url or PUBLIC, name)
        self._key = key
        self._tls = httpx.create_ssl_context()

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        try:
            request = _request(action)
        except (Unsendable, ValueError) as error:
            return Refused(f"Nothing was sent: {error}", "unsendable")
        return within(deadline_s, lambda line: self._outcome(line, request, deadline_s), given_up(deadline_s))

    def _outcome(self, line: Line, request: dict[str, Any], deadline_s: float) -> Outcome:
        try:
            answer = self._call(line, request, deadline_s)
        except NEVER_LEFT as error:
            return NotSent(
                f"AgentMail could not be reached ({type(error).__name__}).", "connect", pauses=True
            )
        except ApiError as error:
            return classify(TABLE, _answer(line, error))
        except Exception as error:  # noqa: BLE001 - a cut line, a broken answer: it may have been sent
            return _broken(line, error)
        message_id = message_id_of(getattr(answer, "message_id", None))
        if message_id is None:
            return Unknown("AgentMail's answer names no message; it may have been sent.", "no_message_id")
        return Accepted(message_id, message_id_of(getattr(answer, "thread_id", None)))

    def _call(self, line: Line, request: dict[str, Any], deadline_s: float) -> object:
        """One POST on a connection of its own: a kept one that the server just closed makes a send uncertain."""
        with self._http(line, deadline_s) as http:
            environment = AgentMailEnvironment(http=self._url, websockets="")
            client = Client(environment=environment, api_key=self._key, httpx_client=http)
            messages = client.inboxes.messages
            options: Any = {"max_retries": 0, "timeout_in_seconds": http.timeout}
            call = messages.reply if "message_id" in request else messages.send
            return cast(object, call(**request, request_options=options))

    def _http(self, line: Line, deadline_s: float) -> httpx.Client:
        def watch(request: httpx.Request) -> None:
            request.extensions["trace"] = lambda step, facts: _hold(line, step, facts)

        def begun(response: httpx.Response) -> None:
            line.status, line.retry_after = response.status_code, response.headers.get("retry-after")

        return httpx.Client(
            timeout=httpx.Timeout(deadline_s, connect=connect_s(deadline_s)),
            follow_redirects=False,
            verify=self._tls,
            trust_env=not is_loopback(self._url),
            event_hooks={"request": [watch], "response": [begun]},
        )


def _request(action: ClaimedAction) -> dict[str, Any]:
    """The arguments of the package's call. Recipients are always named: a reply goes to nobody but them."""
    content = request_of(action.content)
    inbox = content.get("inbox") or split(str(content.get("sender") or ""))[1]
    request = {"inbox_id": _part(str(inbox)), "to": addresses(content, "to")}
    if not request["to"]:
        raise Unsendable("It has no recipient.")
    if content.get("in_reply_to"):
        request["message_id"] = _part(str(content["in_reply_to"]))
    else:
        request["subject"] = subject_of(content)
    request |= {
        member: found for member in ("cc", "bcc", "reply_to") if (found := addresses(content, member))
    }
    request |= {member: str(content[member]) for member in ("text", "html") if content.get(member)}
    return request | {"labels": [action.reference], "idempotency_key": action.provider_key}


def _part(given: str) -> str:
    """An id as one part of the path. Quoting leaves dots alone, and two of them climb out of the inbox."""
    if given in (".", ".."):
        raise Unsendable(f"{given!r} is no id.")
    return quote(given, safe="")


def _hold(line: Line, step: str, facts: Mapping[str, Any]) -> None:
    """httpcore's steps, by its documented `trace` extension."""
    if step.endswith(("connect_tcp.complete", "start_tls.complete")):
        line.hold(facts["return_value"].get_extra_info("socket"))


def _answer(line: Line, error: ApiError) -> Answer:
    """The package gives a dict, a text, or one of its error models, whose members may have any type."""
    body = error.body
    members = body if isinstance(body, Mapping) else getattr(body, "__dict__", {})
    code = next((c for c in (members.get("code"), members.get("name")) if isinstance(c, str)), "")
    words = members.get("message") or members.get("errors") or ""
    return Answer(error.status_code or 0, one_line(code), str(words), line.retry_after)


def _broken(line: Line, error: Exception) -> Outcome:
    """An error's status line is enough to know it by; a success needs its whole body."""
    if line.status is not None and line.status >= 300:
        return classify(TABLE, Answer(line.status, "", "(its body cannot be read)", line.retry_after))
    return Unknown(f"No clear answer came ({type(error).__name__}); it may have been sent.", "broken")
