"""How the providers spell what became of a message. AgentMail: agentmail 2.0.18, events/types. Inboxili does not publish
it: the parts stand where the source looks for them.
"""

from __future__ import annotations

import json
import secrets
from datetime import datetime
from typing import Any

from ledger.evidence.message_ids import mailbox
from ledger.settings import SourceSettings
from ledger.simulated import examples
from worker.sandbox.store import Mail

NESTED = {"sent": "send", "delivered": "delivery", "bounced": "bounce", "complained": "complaint"}
BOUNCE = {"type": "Permanent", "sub_type": "NoEmail"}
COMPLAINT = {"type": "abuse", "sub_type": ""}


def spelled(source: SourceSettings, mail: Mail, what: str, at: datetime, *, echo: bool = False) -> bytes:
    """The body of the webhook that tells it. `echo` sends our labels along."""
    if source.kind == "inboxili":
        type_ = next((t for t, means in source.notice_types.items() if means == what), what)
        return examples.inboxili_notice(source, type_, mail.message_id, mailbox(mail.recipients[0]), at=at)
    return _agentmail(mail, what, at, {"labels": [*mail.labels, "sent"]} if echo else {})


def _agentmail(mail: Mail, what: str, at: datetime, more: dict[str, Any]) -> bytes:
    recipients: list[Any] = [mailbox(recipient) for recipient in mail.recipients]
    inner = {
        "inbox_id": mail.sender,
        "thread_id": mail.thread_id,
        "message_id": mail.message_id,
        "timestamp": at.isoformat(timespec="milliseconds"),
    }
    if what == "bounced":
        more = more | BOUNCE
        recipients = [{"address": address, "status": "5.1.1"} for address in recipients]
    if what == "complained":
        more = more | COMPLAINT
    event = {"type": "event", "event_type": f"message.{what}", "event_id": f"evt_{secrets.token_hex(10)}"}
    return json.dumps(event | {NESTED[what]: inner | {"recipients": recipients} | more}).encode()
