"""Takes in bodies: each within its limit, and all that are in hand at one time within another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request

from ledger.refusals import Refusal
from ledger.settings import ReceiverSettings


class TooMuch(Exception):
    """One body is too large, or there is no room for it now. Known before it was read."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason)
        self.reason = reason


class Hands:
    """Counts the bytes in hand, so that many large bodies at once cannot take the process's memory."""

    def __init__(self, settings: ReceiverSettings) -> None:
        self._settings = settings
        self._held = 0

    @contextmanager
    def free(self) -> Iterator[Hand]:
        """What the hand took is in hand until the block ends: read, stored, answered."""
        hand = Hand(self)
        try:
            yield hand
        finally:
            self._held -= hand.size

    def hold(self, hand: Hand, size: int) -> None:
        """Raises TooMuch."""
        self.require_room(hand, size)
        self._held += size
        hand.size += size

    def require_room(self, hand: Hand, size: int) -> None:
        """Raises TooMuch when so many more are too many."""
        if hand.size + size > self._settings.body_bytes_max:
            raise TooMuch(Refusal.TOO_LARGE)
        if self._held + size > self._settings.in_hand_bytes_max:
            raise TooMuch(Refusal.NO_ROOM)


class Hand:
    """One request's."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self.size = 0

    async def take(self, request: Request) -> bytes:
        """The exact bytes, however they were framed. Raises TooMuch, and ClientDisconnect for a body cut short."""
        announced = request.headers.get("content-length", "")
        if announced.isdecimal():
            self._hands.require_room(self, int(announced))
        parts = []
        async for part in request.stream():
            self._hands.hold(self, len(part))
            parts.append(part)
        return b"".join(parts)
