"""AgentMail's lists as its package asks for them (agentmail 2.0.18): messages, threads, webhook endpoints.

What is listed is a view: no text, and the labels of this moment. What came in has AgentMail's label `received`, what
went out `sent`. Bounds are not part of what they bound; a page's token is an offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from worker.sandbox.apis import Invalid
from worker.sandbox.store import Mail

PAGE = 100
WHOLE = (
    "text",
    "html",
    "extracted_text",
    "extracted_html",
    "reply_to",
)  # of one message alone, never in a list
SINCE = "2026-01-01T00:00:00.000Z"

Message = Mapping[str, Any]


def messages(items: Iterable[Message], query: Mapping[str, str]) -> dict[str, Any]:
    """`GET messages` of an inbox: by label and time, newest first unless `ascending`, in pages."""
    wanted, after, before = _labels(query.get("labels", "")), _time(query, "after"), _time(query, "before")
    fits = [
        m
        for m in items
        if wanted <= {*m["labels"]} and after < datetime.fromisoformat(m["timestamp"]) < before
    ]
    fits.sort(key=lambda m: datetime.fromisoformat(m["timestamp"]), reverse=query.get("ascending") != "true")
    return _page("messages", [_listed(m) for m in fits], query)


def endpoints(urls: Mapping[str, str], *, enabled: bool, query: Mapping[str, str]) -> dict[str, Any]:
    """`GET webhooks` of the account, by source. AgentMail tells each one's secret too."""
    facts = {"secret": "whsec_bm90aGluZyBpcyBzaWduZWQgYnkgdGhpcw==", "enabled": enabled}
    found = [
        {"webhook_id": f"ep_{name}", "url": url, "created_at": SINCE, "updated_at": SINCE, **facts}
        for name, url in urls.items()
    ]
    return _page("webhooks", found, query)


def _page(name: str, found: Sequence[Message], query: Mapping[str, str]) -> dict[str, Any]:
    limit, start = query.get("limit", ""), query.get("page_token", "")
    most = min(int(limit), PAGE) if limit.isdecimal() else PAGE
    first = int(start) if start.isdecimal() else 0
    page = found[first : first + most]
    rest = {"next_page_token": str(first + len(page))} if first + len(page) < len(found) else {}
    return {"count": len(page), "limit": most, name: page} | rest


def _listed(message: Message) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name not in WHOLE}


def thread(mails: Iterable[Mail], thread_id: str) -> dict[str, Any] | None:
    """`GET threads/{id}`: what we sent into it, oldest first."""
    items = [sent(m) for m in mails if m.thread_id == thread_id]
    if not items:
        return None
    last = items[-1]
    shared = {
        name: last[name] for name in ("inbox_id", "thread_id", "labels", "timestamp", "subject", "size")
    }
    counts = {"message_count": len(items), "count": len(items), "last_message_id": last["message_id"]}
    people = {"senders": [last["from"]], "recipients": last["to"]}
    return (
        shared
        | counts
        | people
        | {"created_at": items[0]["timestamp"], "updated_at": last["timestamp"], "messages": items}
    )


def sent(mail: Mail) -> dict[str, Any]:
    """What went out, as a message."""
    return {
        "inbox_id": mail.sender,
        "thread_id": mail.thread_id,
        "message_id": mail.message_id,
        "labels": [*mail.labels, "sent"],
        "timestamp": mail.time,
        "from": mail.sender,
        "to": mail.recipients,
        "subject": mail.subject,
        "in_reply_to": mail.in_reply_to,
        "size": 0,
        "created_at": mail.time,
        "updated_at": mail.time,
    }


EVER = {"after": datetime.min.replace(tzinfo=UTC), "before": datetime.max.replace(tzinfo=UTC)}


def _time(query: Mapping[str, str], name: str) -> datetime:
    """A bound of a list; without one, none. The package writes them as ISO 8601 with a zone."""
    try:
        return datetime.fromisoformat(query[name]).astimezone(UTC) if query.get(name) else EVER[name]
    except ValueError:
        raise Invalid(400, "validation_error", f"{name} cannot be read.") from None


def _labels(text: str) -> set[str]:
    """The package writes them as a JSON list; a person in a browser, with commas."""
    try:
        given = json.loads(text) if text.startswith("[") else text.split(",")
    except ValueError:
        raise Invalid(400, "validation_error", "The labels cannot be read.") from None
    return {str(label) for label in given if label}
