"""The stored request as Mailera's API is told it, each part where the configuration says it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ledger.settings.mailera import MaileraSpelling
from worker.providers.content import Unsendable, address, addresses, subject_of


def spelled(content: Mapping[str, Any], spelling: MaileraSpelling, reference: str) -> bytes:
    """The body: the same bytes at every attempt. Raises Unsendable for what this API has no place for."""
    body: dict[str, Any] = {}
    for name, value in _parts(content, reference).items():
        path = getattr(spelling, f"{name}_path")
        if not value:
            continue
        if path:
            _put(body, path.split("."), value)
        elif name not in (
            "reference",
            "in_reply_to",
            "sender",
        ):  # these change neither what is read nor by whom
            raise Unsendable(f"Mailera has no place for {name}, as [providers.NAME.spelling] says.")
    return json.dumps(body, ensure_ascii=False).encode()


def _parts(content: Mapping[str, Any], reference: str) -> dict[str, Any]:
    lists = {name: addresses(content, name) for name in ("to", "cc", "bcc", "reply_to")}
    if not lists["to"]:
        raise Unsendable("It has no recipient.")
    sender = str(content.get("sender") or "")
    texts = {name: str(content.get(name) or "") for name in ("text", "html", "in_reply_to")}
    return {
        "sender": address(sender) if sender else "",
        **lists,
        "subject": subject_of(content),
        **texts,
        "reference": reference,
    }


def _put(body: dict[str, Any], path: list[str], value: Any) -> None:
    *outer, last = path
    for name in outer:
        body = body.setdefault(name, {})
    body[last] = value
