"""Takes in bodies: each within its limit, and all that are in hand at one time within another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from starlette.requests import Request

from ledger.figures.refusals import Refusal
from ledger.settings import ReceiverSettings

SMALL_BYTES_MAX = (
    65_536  # a quarter of the room is for these alone: half-sent large ones cannot shut them out
)


class TooMuch(Exception):
    """One body is too large, or there is no room for it now. Known before it was read, or inflated."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason)
        self.reason = reason


class Hands:
    """Counts the bytes in hand, so that many large bodies at once cannot take the process's memory."""

    def __init__(self, settings: ReceiverSettings) -> None:
        self._settings = settings
        self._held = 0
        self._lock = Lock()  # large bodies are inflated in a thread

    @contextmanager
    def free(self) -> Iterator[Hand]:
        """What the hand took is in hand until the block ends: read, stored, answered."""
        hand = Hand(self)
        try:
            yield hand
        finally:
            self.release(hand)

    def release(self, hand: Hand) -> None:
        """What the hand took is out of hand; it takes no more."""
        with self._lock:
            self._held -= hand.size
            hand.size, hand.is_open = 0, False

    def hold(self, hand: Hand, size: int) -> None:
        """Raises TooMuch; of a request that was given up too."""
        with self._lock:
            self.require_room(hand, size)
            self._held += size
            hand.size += size

    def require_room(self, hand: Hand, size: int) -> None:
        """Raises TooMuch when so many more are too many."""
        if hand.taken + size > self._settings.body_bytes_max:
            raise TooMuch(Refusal.TOO_LARGE)
        room = self._settings.in_hand_bytes_max
        room = room if hand.size + size <= SMALL_BYTES_MAX else room * 3 // 4
        if self._held + size > room or not hand.is_open:
            raise TooMuch(Refusal.NO_ROOM)


class Hand:
    """One request's. `size` is all it holds: the body as it came, and inflated, each within the same limit."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self.size, self.is_open = 0, True
        self._form_began_at = 0

    @property
    def taken(self) -> int:
        """Of the form that is being taken in."""
        return self.size - self._form_began_at

    async def take(self, request: Request) -> bytes:
        """The exact bytes, however they were framed. Raises TooMuch, and ClientDisconnect for a body cut short."""
        announced = request.headers.get("content-length", "")
        if announced.isdecimal():  # zeros ahead may be thousands, of which int() would make an error
            self.require_room(int(announced.lstrip("0") or "0"))
        parts = []
        async for part in request.stream():
            self.hold(len(part))
            parts.append(part)
        return b"".join(parts)

    def hold(self, size: int) -> None:
        """So many more bytes. Raises TooMuch."""
        self._hands.hold(self, size)

    def require_room(self, size: int) -> None:
        """Raises TooMuch when so many more are too many."""
        self._hands.require_room(self, size)

    def begin_another_form(self) -> None:
        """What is held from here on is measured anew: the body inflated."""
        self._form_began_at = self.size
