"""Invented events, as their providers' documents show them: for `simulate`, and for the demo."""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime
from typing import Any

from ledger.settings import SourceSettings

TYPE = "invoice.paid"  # what the demo's shop sends, and its handler knows


def invoice_paid(number: str, customer: str, amount: str) -> dict[str, Any]:
    """What an invented shop reports when an invoice was paid."""
    invoice = {"number": number, "customer": customer, "amount": amount, "currency": "EUR"}
    return shop_event(TYPE, invoice=invoice)


def shop_event(type_: str, **parts: Any) -> dict[str, Any]:
    """What else it reports, in the same envelope."""
    return {"id": f"evt_{secrets.token_hex(8)}", "type": type_, "created": _now(), **parts}


def message_received(sender: str, subject: str, text: str, inbox: str = "support@acme.example") -> bytes:
    """An AgentMail `message.received` as its documentation shows it (docs.agentmail.to: events)."""
    message = {
        "inbox_id": inbox,
        "thread_id": f"thd_{secrets.token_hex(8)}",
        "message_id": f"<{secrets.token_hex(10)}@example.com>",
        "labels": ["received", "unread"],
        "timestamp": _now(),
        "from": sender,
        "to": [inbox],
        "subject": subject,
        "preview": text[:80],
        "text": text,
        "size": len(text.encode()),
    }
    event = {"type": "event", "event_type": "message.received", "event_id": f"evt_{secrets.token_hex(10)}"}
    return json.dumps(event | {"message": message}, ensure_ascii=False).encode()


def inboxili_notice(
    source: SourceSettings, type_: str, message_id: str, recipient: str, *, at: datetime | None = None
) -> bytes:
    """What became of a message, as we assume that Inboxili says it: the parts stand where the source looks for them."""
    document: dict[str, Any] = {}
    time_ = at.isoformat(timespec="milliseconds") if at else _now()
    parts = {"key": f"evt_{secrets.token_hex(10)}", "type": type_, "time": time_}
    for name, value in (parts | {"message": message_id, "recipient": recipient}).items():
        place(document, source.path(f"{name}_path"), value)
    return json.dumps(document).encode()


def place(document: dict[str, Any], path: str, value: Any) -> None:
    """Put a value at a dotted path: `data.id` is `{"data": {"id": …}}`. An empty path is none."""
    *outer, last = path.split(".")
    for name in outer:
        if not isinstance(document.get(name), dict):
            document[name] = {}
        document = document[name]
    if last:
        document[last] = value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
