"""How a request is turned away: one body for all, a status for each reason, and no word about why."""

from __future__ import annotations

from starlette.exceptions import HTTPException

from ledger.receiver.sources.adapter import Adapter
from ledger.refusals import Refusal

REFUSED = "not accepted\n"
RETRY_AFTER = {"Retry-After": "5"}
STATUS = {
    Refusal.BAD_SIGNATURE: 401,
    Refusal.MALFORMED: 400,
    Refusal.CUT_SHORT: 400,
    Refusal.TOO_SLOW: 408,
    Refusal.TOO_LARGE: 413,
    Refusal.CODED: 415,
    Refusal.NO_ROOM: 503,
    Refusal.NOT_STORED: 503,
}


class Refused(HTTPException):
    """A source's request that is turned away. `because` is for the log, in words of ours."""

    def __init__(self, reason: Refusal, adapter: Adapter, because: str = "") -> None:
        status = STATUS[reason]
        super().__init__(status, headers=RETRY_AFTER if status == 503 else None)
        self.reason, self.source, self.because = reason, adapter.name, because
