"""The published package agentmail 2.0.18 on one connection: what every call to AgentMail has in common.

Traps of the package that are answered here: it retries 408, 409, 429 and 5xx by itself, and its last answer hides the
first; it follows redirects, so that a moved address looks like an answer; it pastes ids into the URL unescaped; its
timeouts are per read; an error's body has any shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# Else the package imports these at their first use: 0.2 s of processor time, within the deadline of a call.
import agentmail.inboxes.client
import agentmail.inboxes.messages.client
import agentmail.webhooks.client  # noqa: F401
from agentmail import AgentMail as Client
from agentmail.core.api_error import ApiError
from agentmail.environment import AgentMailEnvironment

from ledger.provider_facts import FACTS
from worker.providers.content import one_line
from worker.providers.httpx_line import connected, trusted
from worker.providers.outcomes import Answer
from worker.providers.wire import Line, checked

PUBLIC = FACTS["agentmail"].address


class Account:
    """One API key at one address. Raises Misconfigured for what is no address."""

    def __init__(self, name: str, base_url: str, key: str) -> None:
        self._url = checked(base_url or PUBLIC, name)
        self._key = key
        self._tls = trusted()

    @contextmanager
    def messages(self, line: Line, deadline_s: float) -> Iterator[tuple[Any, dict[str, Any]]]:
        """The package's `inboxes.messages`, and the options of each call."""
        with self.client(line, deadline_s) as (client, options):
            yield client.inboxes.messages, options

    @contextmanager
    def client(self, line: Line, deadline_s: float) -> Iterator[tuple[Client, dict[str, Any]]]:
        """The package's client, and the options of each call."""
        with connected(self._url, self._tls, line, deadline_s) as http:
            environment = AgentMailEnvironment(http=self._url, websockets="")
            client = Client(environment=environment, api_key=self._key, httpx_client=http)
            yield client, {"request_options": {"max_retries": 0, "timeout_in_seconds": http.timeout}}


def answer(line: Line, error: ApiError) -> Answer:
    """The package gives a dict, a text, or one of its error models, whose members may have any type."""
    body = error.body
    members = body if isinstance(body, Mapping) else getattr(body, "__dict__", {})
    code = next((c for c in (members.get("code"), members.get("name")) if isinstance(c, str)), "")
    words = members.get("message") or members.get("errors") or ""
    return Answer(error.status_code or 0, one_line(code), str(words), line.retry_after)
