"""The two providers' APIs as their published packages call them: how a request is read and an answer is spelled.

AgentMail: agentmail 2.0.18 and docs.agentmail.to (idempotency, errors). Inboxili: inboxili 0.1.0. Only what the
packages send and read; a request that the real ones would refuse is refused here too where that is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from worker.sandbox.store import Mail

KEY_FORM = re.compile(r"[A-Za-z0-9\-._~]{1,256}")  # AgentMail's documentation: idempotency

PAGE = 100


class Invalid(Exception):
    """The provider would refuse this request; `status` and `code` as it would say them."""

    def __init__(self, status: int, code: str, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.code = code


def agentmail_message(body: bytes, inbox: str, replied: str | None, key: str | None) -> dict[str, Any]:
    """What an AgentMail send or reply asks for. Raises Invalid."""
    if key is not None and not KEY_FORM.fullmatch(key):
        raise Invalid(400, "validation_error", "The idempotency key is not well formed.")
    content = _object(body, 400)
    recipients = [one for name in ("to", "cc", "bcc") for one in _texts(content.get(name))]
    if not recipients and replied is None:
        raise Invalid(400, "validation_error", "A message needs a recipient.")
    read = {
        "recipients": recipients,
        "subject": content.get("subject"),
        "labels": _texts(content.get("labels")),
    }
    return read | {"sender": unquote(inbox), "in_reply_to": unquote(replied) if replied is not None else None}


def inboxili_message(body: bytes) -> dict[str, Any]:
    """What an Inboxili send asks for. Raises Invalid."""
    content = _object(body, 422)
    for name in ("to", "from_email", "subject", "html_body"):
        if not isinstance(content.get(name), str) or not content[name]:
            raise Invalid(422, "validation_error", f"{name} is missing.")
    return {"recipients": [content["to"]], "subject": content["subject"], "sender": content["from_email"]}


def problem(provider: str, code: str, words: str) -> dict[str, Any]:
    """An error as the provider spells it."""
    if provider == "inboxili":
        return {"error": {"code": code, "message": words}}
    return {
        "name": "".join(part.title() for part in code.split("_")) + "Error",
        "code": code,
        "message": words,
    }


def agentmail_messages(mails: Iterable[Mail], inbox: str, query: Mapping[str, str]) -> dict[str, Any]:
    """`GET messages` of an inbox: by label and time, newest first unless `ascending`, in pages."""
    wanted, after, before = _labels(query.get("labels", "")), _time(query, "after"), _time(query, "before")
    fits = [
        m
        for m in mails
        if m.sender == inbox
        and wanted <= {*m.labels, "sent"}
        and after < datetime.fromisoformat(m.time) < before
    ]
    if query.get("ascending") != "true":
        fits.reverse()
    limit, start = query.get("limit", ""), query.get("page_token", "")
    first = int(start) if start.isdecimal() else 0
    page = fits[first : first + (int(limit) if limit.isdecimal() else PAGE)]
    rest = {"next_page_token": str(first + len(page))} if first + len(page) < len(fits) else {}
    return {"count": len(page), "messages": [agentmail_item(m) for m in page]} | rest


def agentmail_thread(mails: Iterable[Mail], thread_id: str) -> dict[str, Any] | None:
    """`GET threads/{id}`: what we sent into it, oldest first; the sandbox receives nothing."""
    items = [agentmail_item(m) for m in mails if m.thread_id == thread_id]
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


def agentmail_item(mail: Mail) -> dict[str, Any]:
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


def _object(body: bytes, status: int) -> Mapping[str, Any]:
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise Invalid(status, "validation_error", "The body is not a JSON object.")
    return content


def _texts(value: Any) -> list[str]:
    found = [value] if isinstance(value, str) else value or []
    return [str(one) for one in found] if isinstance(found, list) else []
