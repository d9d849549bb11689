"""How a request is turned away: one body for all, a status for each reason, and no word about why."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from ledger.errors import LedgerError
from ledger.figures.refusals import Refusal
from ledger.receiver.log import note
from ledger.receiver.pulse import Tally
from ledger.receiver.sources.adapter import Adapter

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

log = logging.getLogger(__name__)


class Refused(HTTPException):
    """A source's request that is turned away. `because` is for the log, in words of ours."""

    def __init__(self, reason: Refusal, adapter: Adapter, because: str = "") -> None:
        status = STATUS[reason]
        super().__init__(status, headers=RETRY_AFTER if status == 503 else None)
        self.reason, self.source, self.because = reason, adapter.name, because


def not_stored(adapter: Adapter, error: BaseException) -> Refused:
    """To raise: whatever kept it from being stored, the sender shall try again."""
    reason = str(error) if isinstance(error, LedgerError) else type(error).__name__
    return Refused(Refusal.NOT_STORED, adapter, reason)


class Refuser:
    """Says no, and counts it. The sender learns the status alone; reasons are noted, and quote nothing received."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def answer(self, error: Exception) -> Response:
        """An error that nobody foresaw is a fault of ours; it cannot be known to be the content's: 503."""
        if isinstance(error, Refused):
            self._tally.add(error.reason, error.source)
            _note(error)
        elif isinstance(error, HTTPException):
            self._tally.add(Refusal.WRONG_METHOD if error.status_code == 405 else Refusal.UNKNOWN_SOURCE)
        else:
            log.error("a request failed", exc_info=error)
            self._tally.add(Refusal.NOT_STORED)
            return PlainTextResponse(REFUSED, 503, RETRY_AFTER)
        return PlainTextResponse(REFUSED, error.status_code, error.headers)


def _note(error: Refused) -> None:
    because = {"because": error.because} if error.because else {}
    note("refused", source=error.source, status=error.status_code, reason=error.reason.value, **because)
