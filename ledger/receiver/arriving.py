"""What a request is, from its fields to its events, before anything is stored."""

from __future__ import annotations

from ledger.figures.refusals import Refusal
from ledger.payload import Malformed
from ledger.receiver.refused import Refused
from ledger.receiver.sources.adapter import Adapter, Forged, Headers
from ledger.receiver.visit import Fields

FIELDS_JOINED = ", "
SHARE_OF_WAIT = 0.8  # of what a sender waits; the rest is for the way there and back


def headers_of(fields: Fields) -> Headers:
    """By lower-case name; a field that was sent several times as one, as RFC 9110 (5.3) reads it."""
    found: dict[str, str] = {}
    for raw_name, raw_value in fields:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        found[name] = found[name] + FIELDS_JOINED + value if name in found else value
    return found


def time_for(adapter: Adapter, answer_within_s: float) -> float:
    """Seconds until this sender must be answered."""
    return min(answer_within_s, adapter.ack_s * SHARE_OF_WAIT)


def as_refusal(adapter: Adapter, error: Forged | Malformed) -> Refused:
    """To raise: what reading found wrong, as the refusal it is."""
    if isinstance(error, Forged):
        return Refused(Refusal.BAD_SIGNATURE, adapter)
    return Refused(Refusal.MALFORMED, adapter, str(error))
