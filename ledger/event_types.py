"""Which types of events a source can send, where that is known; among them what the ledger itself tells. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

TYPE_BYTES_MAX = 200  # a type stands in an index, whose entries are limited to some 2,700 bytes
OURS = "nottwice"  # the source of what the ledger tells; no source of a user's may have the name
ACTION_SENT = "action.sent"  # sql/0024_applications.sql makes it, for kinds with `tell_when_sent`

KNOWN: Mapping[str, frozenset[str]] = {
    OURS: frozenset({ACTION_SENT}),
    # agentmail 2.0.18, events/types/event_type.py; a test compares the two.
    "agentmail": frozenset(
        {
            "message.received",
            "message.received.spam",
            "message.received.blocked",
            "message.received.unauthenticated",
            "message.security.completed",
            "message.security.review",
            "message.security.override",
            "message.sent",
            "message.delivered",
            "message.bounced",
            "message.complained",
            "message.rejected",
            "message.opened",
            "domain.verified",
            "calendar.event.created",
            "calendar.event.updated",
            "calendar.event.deleted",
            "calendar.event.responded",
            "calendar.event.starting",
            "calendar.event.ending",
        }
    ),
}


def doubt(kind: str, type_: str) -> str:
    """Why a source of this kind may never send such an event, in words; "" where nothing speaks against it."""
    known = KNOWN.get(kind)
    if known is None or type_ in known:
        return ""
    close = get_close_matches(type_, known, n=1, cutoff=0.7)
    return f"{kind} is not known to send {type_}" + (f"; did you mean {close[0]}?" if close else "")
