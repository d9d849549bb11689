"""The webhook endpoints of an AgentMail account, and whether each is enabled (agentmail 2.0.18, `webhooks.list`).

AgentMail sets `enabled` to false after five days of nothing but failures, and tells nobody. The list holds each
endpoint's secret too: it is left where it is.

A trap of the package that is answered here: it makes a flag of anything (of 1, of "perhaps"), so the flag is read from
the answer itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ledger import payload
from ledger.accounts.endpoints import Endpoint
from worker.providers.content import one_line
from worker.providers.wire import Line

PAGE, PAGES_MAX = 100, 10


def listed(client: Any, options: dict[str, Any], line: Line) -> list[Endpoint]:
    """All of them. Raises what the package raises, and others' errors for what cannot be known whole."""
    return [_read(item) for item in _items(client, options, line)]


def _items(client: Any, options: dict[str, Any], line: Line) -> Iterator[Any]:
    line.keeps_body, token = True, dict[str, str]()
    for _ in range(PAGES_MAX):
        page = client.webhooks.list(limit=PAGE, **token, **options)
        yield from payload.parse(line.body)["webhooks"]
        following = page.next_page_token
        if not isinstance(following, str) or not following:
            return
        token = {"page_token": following}
    raise ValueError("Its pages do not come to an end.")


def _read(item: Any) -> Endpoint:
    """A flag of another type must not pass for one: it would be an alarm, or hide one."""
    endpoint_id, url, enabled = (item.get(name) for name in ("webhook_id", "url", "enabled"))
    if not isinstance(endpoint_id, str) or not endpoint_id or not isinstance(enabled, bool):
        raise ValueError("An endpoint without an id or a flag.")
    return Endpoint(endpoint_id[:200], one_line(str(url or ""))[:500], "enabled" if enabled else "disabled")
