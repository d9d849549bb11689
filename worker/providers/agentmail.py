"""AgentMail through its published package (agentmail 2.0.18; docs.agentmail.to: idempotency, errors).

Keys: `Idempotency-Key`, organisation-wide, kept 24 h; the same key with the same request gives the first answer.
Traps of the package, each answered below: it retries 408, 409, 429 and 5xx by itself; it follows redirects, so that
a moved address looks like a sent mail; it pastes ids into the URL unescaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
from agentmail import AgentMail as Client
from agentmail.core.api_error import ApiError
from agentmail.environment import AgentMailEnvironment

from ledger.records import Accepted, ClaimedAction, InFlight, NotSent, Outcome, Refused, Unknown
from worker.providers.protocol import (
    DeadlineOver,
    Rule,
    classify,
    message_id_of,
    one_line,
    request_of,
    within,
)

KEY_WINDOW_S = 86_400.0
PUBLIC = "https://api.agentmail.to"

# 408 and 5xx have no row: nobody promises that nothing was sent.
TABLE = (
    Rule(400, Refused),
    Rule(404, Refused),
    Rule(413, Refused),
    Rule(422, Refused),
    Rule(401, NotSent, pauses=True),
    Rule(403, NotSent, pauses=True),  # the gateway's bare "Forbidden": the key is not taken
    Rule(403, Refused, code="message_rejected"),
    Rule(403, Refused, code="domain_not_verified"),
    Rule(409, InFlight),  # under way, or used with other content: the same code for both
    Rule(429, NotSent, pauses=True),
)


class AgentMail:
    """One AgentMail account. A content with `in_reply_to` is a reply, any other a new message."""

    def __init__(self, name: str, base_url: str, key: str, timeout_s: float) -> None:
        self.name = name
        url = base_url or PUBLIC
        self._client = Client(
            environment=AgentMailEnvironment(http=url, websockets=url.replace("http", "ws", 1)),
            api_key=key,
            timeout=timeout_s,
            httpx_client=httpx.Client(timeout=timeout_s, follow_redirects=False),
        )

    def send(self, action: ClaimedAction, deadline_s: float) -> Outcome:
        try:
            answer = within(deadline_s, lambda: self._call(action, request_of(action)))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return NotSent(f"no connection: {type(error).__name__}", pauses=True)
        except ApiError as error:
            return _refusal(error)
        except DeadlineOver as error:
            return Unknown(str(error))
        except Exception as error:  # noqa: BLE001 - a cut line, a broken answer: it may have been sent
            return Unknown(f"no clear answer: {type(error).__name__}")
        message_id = message_id_of(getattr(answer, "message_id", None))
        if message_id is None:
            return Unknown("success without a message id")
        return Accepted(message_id, message_id_of(getattr(answer, "thread_id", None)))

    def _call(self, action: ClaimedAction, content: Mapping[str, Any]) -> object:
        inbox = quote(str(content.get("inbox", "")), safe="")
        messages = self._client.inboxes.messages
        common: dict[str, Any] = {
            "to": list(content.get("to", [])),
            "text": content.get("text"),
            "labels": [action.reference],
            "idempotency_key": action.provider_key,
            "request_options": {"max_retries": 0},
        }
        for name in ("cc", "bcc", "reply_to", "html"):
            if content.get(name):
                common[name] = content[name]
        answered = content.get("in_reply_to")
        if answered:
            return messages.reply(inbox, quote(str(answered), safe=""), **common)
        return messages.send(inbox, subject=one_line(str(content.get("subject", ""))), **common)


def _refusal(error: ApiError) -> Outcome:
    status = error.status_code or 0
    code, words = _code_and_words(error.body)
    headers = {key.lower(): value for key, value in (error.headers or {}).items()}
    return classify(TABLE, status, code, words, headers.get("retry-after"))


def _code_and_words(body: Any) -> tuple[str, str]:
    """From a dict, or from one of the package's error models."""
    members = body if isinstance(body, Mapping) else getattr(body, "__dict__", {})
    code = members.get("code") or members.get("name") or ""
    return one_line(str(code))[:100], one_line(str(members.get("message") or ""))[:300]
