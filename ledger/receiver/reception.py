"""The short way from a visit to its answer: read and stored with others, answered when that has committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

from starlette.responses import Response

from ledger.errors import LedgerError
from ledger.figures.refusals import Refusal
from ledger.receiver.accepted import OK, proof
from ledger.receiver.arriving import as_refusal, time_for
from ledger.receiver.body import Hand, Hands, TooMuch
from ledger.receiver.log import note_decisions
from ledger.receiver.refused import Refused, Refuser, not_stored
from ledger.receiver.sources.adapter import Adapter, Arrival, Item
from ledger.receiver.sources.together import Found, read_together
from ledger.receiver.store import Store
from ledger.receiver.visit import Visit
from ledger.receiver.waiting import Outcome, Patience, Waiting

TOGETHER_MAX = 32  # so many are a batch: it sets out before more are read
log = logging.getLogger(__name__)


class Guest(NamedTuple):
    """A visit that was let in, and what it holds."""

    visit: Visit
    hand: Hand
    adapter: Adapter
    arrival: Arrival


class Reception:
    """Every visit is answered once, whatever happens; nothing is acknowledged before its commit."""

    def __init__(
        self, find: Callable[[str], Adapter], hands: Hands, store: Store, refuser: Refuser, within_s: float
    ) -> None:
        """`find` raises HTTPException for a source that there is not."""
        self._find, self._hands, self._store, self._refuser = find, hands, store, refuser
        self._within_s = within_s
        self._patience = cache(Patience)  # one for each length of time
        self._came: list[Visit] = []

    def welcome(self, visit: Visit) -> None:
        """Answers the visit as soon as it is stored, or read in vain; those of one turn of the loop are read together."""
        if not self._came:
            asyncio.get_running_loop().call_soon(self._take_in)
        self._came.append(visit)

    def _take_in(self) -> None:
        visits, self._came = self._came[:TOGETHER_MAX], self._came[TOGETHER_MAX:]
        if self._came:
            asyncio.get_running_loop().call_soon(self._take_in)
        guests = [guest for visit in visits if (guest := self._let_in(visit))]
        for guest, found in zip(guests, _read(guests), strict=True):
            try:
                self._queue(guest, _taken(guest, found))
            except Exception as error:  # noqa: BLE001 - every visit is answered
                self._refuse(guest.visit, guest.hand, error)

    def _let_in(self, visit: Visit) -> Guest | None:
        """None for one that has its answer already."""
        hand = Hand(self._hands)
        try:
            adapter = self._find(visit.source)
            _hold(hand, visit, adapter)
            arrival = Arrival(visit.headers, visit.body, datetime.now(UTC), visit.target)
            token = adapter.handshake(arrival)
        except Exception as error:  # noqa: BLE001 - every visit is answered
            self._refuse(visit, hand, error)
            return None
        if token is None:
            return Guest(visit, hand, adapter, arrival)
        self._see_off(visit, hand, proof(token))
        return None

    def _refuse(self, visit: Visit, hand: Hand, error: Exception) -> None:
        self._see_off(visit, hand, self._refuser.answer(error))

    def _see_off(self, visit: Visit, hand: Hand, answer: Response) -> None:
        self._hands.release(hand)
        try:
            visit.answer(answer)
        except Exception:
            log.exception("a request could not be answered")  # those that came with it shall be

    def _queue(self, guest: Guest, items: list[Item]) -> None:
        adapter = guest.adapter
        patience = self._patience(time_for(adapter, self._within_s))

        def told(outcome: Outcome) -> None:
            patience.end(waiting)
            self._hands.release(guest.hand)
            guest.visit.answer(self._response(adapter, items, outcome))

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


def _hold(hand: Hand, visit: Visit, adapter: Adapter) -> None:
    try:
        hand.hold(len(visit.body))
    except TooMuch as error:
        raise Refused(error.reason, adapter) from None


def _read(guests: Sequence[Guest]) -> list[Found]:
    """What each of them brings, in their order; those of one source are read together."""
    places: dict[Adapter, list[int]] = {}
    for place, guest in enumerate(guests):
        places.setdefault(guest.adapter, []).append(place)
    found: dict[int, Found] = {}
    for adapter, alike in places.items():
        found.update(zip(alike, read_together(adapter, [guests[n].arrival for n in alike]), strict=True))
    return [found[place] for place in range(len(guests))]


def _taken(guest: Guest, found: Found) -> list[Item]:
    if isinstance(found, Exception):
        raise as_refusal(guest.adapter, found)
    return found
