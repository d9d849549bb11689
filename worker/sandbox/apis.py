"""The providers' APIs as their packages call them, and Mailera's as we assume it: how a request is read and an answer is spelled.

AgentMail: agentmail 2.0.18 and docs.agentmail.to (idempotency, errors). Inboxili: inboxili 0.1.0. Only what the
packages send and read; a request that the real ones would refuse is refused here too where that is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

KEY_FORM = re.compile(r"[A-Za-z0-9\-._~]{1,256}")  # AgentMail's documentation: idempotency


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


def mailera_message(body: bytes, mailbox: str) -> dict[str, Any]:
    """What a Mailera send asks for, spelled as our configuration assumes. Raises Invalid."""
    content = _object(body, 400)
    recipients = [one for name in ("to", "cc", "bcc") for one in _texts(content.get(name))]
    if not recipients:
        raise Invalid(400, "validation_error", "A message needs a recipient.")
    metadata = content.get("metadata")
    mark = metadata.get("reference") if isinstance(metadata, dict) else None
    read = {"recipients": recipients, "subject": content.get("subject"), "labels": _texts(mark)}
    return read | {"sender": unquote(mailbox), "in_reply_to": content.get("in_reply_to")}


# What says that a key is under way, and that it belongs to another request. Mailera's are not published: these are ours.
CONFLICTS = {"mailera": ("key_in_use", "key_reused")}


def conflict(provider: str, *, other: bool) -> str:
    """The code of a 409."""
    return CONFLICTS.get(provider, ("conflict", "conflict"))[other]


def problem(provider: str, code: str, words: str) -> dict[str, Any]:
    """An error as the provider spells it."""
    if provider in ("inboxili", "mailera"):
        return {"error": {"code": code, "message": words}}
    return {
        "name": "".join(part.title() for part in code.split("_")) + "Error",
        "code": code,
        "message": words,
    }


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
