"""The short way from a visit to its answer: read at once, stored with others, answered when that has committed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache

from starlette.responses import Response

from ledger.errors import LedgerError
from ledger.payload import Malformed
from ledger.receiver.accepted import OK, proof
from ledger.receiver.arriving import as_refusal, time_for
from ledger.receiver.body import Hand, Hands, TooMuch
from ledger.receiver.log import note_decisions
from ledger.receiver.refused import Refused, Refuser, not_stored
from ledger.receiver.sources.adapter import Adapter, Arrival, Forged, Item
from ledger.receiver.store import Store
from ledger.receiver.visit import Visit
from ledger.receiver.waiting import Outcome, Patience, Waiting
from ledger.refusals import Refusal


class Reception:
    """Every visit is answered once, whatever happens; nothing is acknowledged before its commit."""

    def __init__(
        self, find: Callable[[str], Adapter], hands: Hands, store: Store, refuser: Refuser, within_s: float
    ) -> None:
        """`find` raises HTTPException for a source that there is not."""
        self._find, self._hands, self._store, self._refuser = find, hands, store, refuser
        self._within_s = within_s
        self._patience = cache(Patience)  # one for each length of time

    def welcome(self, visit: Visit) -> None:
        """Answers the visit: at once, or as soon as it is stored."""
        hand = Hand(self._hands)
        try:
            self._take_in(visit, hand)
        except Exception as error:  # noqa: BLE001 - every visit is answered
            self._hands.release(hand)
            visit.answer(self._refuser.answer(error))

    def _take_in(self, visit: Visit, hand: Hand) -> None:
        adapter = self._find(visit.source)
        try:
            hand.hold(len(visit.body))
        except TooMuch as error:
            raise Refused(error.reason, adapter) from None
        arrival = Arrival(visit.headers, visit.body, datetime.now(UTC), visit.target)
        if (token := adapter.handshake(arrival)) is not None:
            self._hands.release(hand)
            visit.answer(proof(token))
            return
        try:
            items = adapter.read(*arrival)
        except (Forged, Malformed) as error:
            raise as_refusal(adapter, error) from None
        self._queue(adapter, visit, hand, items)

    def _queue(self, adapter: Adapter, visit: Visit, hand: Hand, items: list[Item]) -> None:
        patience = self._patience(time_for(adapter, self._within_s))

        def told(outcome: Outcome) -> None:
            patience.end(waiting)
            self._hands.release(hand)
            visit.answer(self._response(adapter, items, outcome))

        waiting = Waiting(items, told)
        try:
            self._store.put(waiting)
        except LedgerError as error:
            raise not_stored(adapter, error) from None
        if not waiting.is_over:
            patience.begin(waiting)

    def _response(self, adapter: Adapter, items: list[Item], outcome: Outcome) -> Response:
        """Whatever kept it from being stored, the sender shall try again."""
        if isinstance(outcome, list):
            note_decisions(items, outcome)
            return OK[adapter.success_status]
        if isinstance(outcome, TimeoutError):
            return self._refuser.answer(Refused(Refusal.NOT_STORED, adapter, "not in time"))
        return self._refuser.answer(not_stored(adapter, outcome))
