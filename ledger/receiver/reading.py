"""From bytes to events: a body is inflated, checked and parsed, small ones at once, large ones one after another.

What reading a body takes in memory is many times its size, so it is taken once at a time; and beside the event loop,
which goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ledger.receiver.body import Hand
from ledger.receiver.coding import inflated
from ledger.receiver.sources.adapter import Adapter, Arrival, Item

THREAD_FROM_BYTES = 65_536  # a body that takes longer than a millisecond to read


class Reader:
    """Lives in one event loop. The order of checks is the adapter's: authentic first, on the form that was signed."""

    def __init__(self) -> None:
        self._desk = ThreadPoolExecutor(1, thread_name_prefix="reader")

    async def read(self, adapter: Adapter, arrival: Arrival, hand: Hand, *, is_coded: bool) -> list[Item]:
        """Raises Forged, Malformed, TooMuch, and nothing else."""
        if len(arrival.body) < THREAD_FROM_BYTES and not is_coded:
            return adapter.read(*arrival)
        reading = partial(_read, adapter, arrival, hand, is_coded=is_coded)
        return await asyncio.get_running_loop().run_in_executor(self._desk, reading)

    def close(self) -> None:
        self._desk.shutdown(wait=False, cancel_futures=True)


def _read(adapter: Adapter, arrival: Arrival, hand: Hand, *, is_coded: bool) -> list[Item]:
    if not is_coded:
        return adapter.read(*arrival)
    if adapter.coded == "plain":
        return adapter.read(*arrival._replace(body=inflated(arrival.body, hand)))
    adapter.require_authentic(arrival)  # a stranger's bomb is not even opened
    return adapter.events(arrival._replace(body=inflated(arrival.body, hand)))
