"""A receiver, its database, and as many requests as wanted; what each answer must be, and what must be there in the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from random import Random

from ledger.database import Database
from ledger.payload import Malformed
from ledger.receiver.sources import adapters
from ledger.receiver.sources.adapter import Arrival
from ledger.settings import Settings
from tests import fix_receiver as fix
from tests.fix_receiver import Receiver
from tests.fuzz.deliveries import Deliveries, Kind, Request
from tests.fuzz.looks import Stored
from tests.fuzz.wire import CLOSED, Lines

CONNECTIONS, CHUNK = 32, 2_000
RSS_BYTES_MAX = 200_000_000
AGAIN = 4  # times, one at a time, before a 503 is the content's fault and not the moment's
REFUSED = {400, 401, 413, 415}
FAULTS = (
    "adapter failed",
    "writer failed",
    "refused by the database",
    "log",
)  # lines that only a fault of ours writes


class Broken(AssertionError):
    """What was sent, and what came of it, enough to send it again."""


class Campaign:
    """`seed` makes every request of it again."""

    def __init__(self, receiver: Receiver, settings: Settings, database: Database, seed: int) -> None:
        self._receiver, self._adapters = receiver, adapters(settings)
        self._deliveries = Deliveries(settings, Random(seed))
        self._stored = Stored(database)
        self._items, self._retried = 0, 0
        self.answers: Counter[tuple[Kind, int]] = Counter()
        self.counts: dict[str, int] = {}
        self.peak_bytes = 0

    def run(self, inputs: int, tell: Callable[[int], None] = lambda _: None) -> None:
        """Raises Broken."""
        # Beside the caller's thread: a browser's tests leave a loop in theirs.
        with ThreadPoolExecutor(1) as beside:
            beside.submit(lambda: asyncio.run(self._run(inputs, tell))).result()

    async def _run(self, inputs: int, tell: Callable[[int], None]) -> None:
        lines, sent = Lines(self._receiver.port, CONNECTIONS), 0
        try:
            while sent < inputs:
                chunk = [self._deliveries.one() for _ in range(min(CHUNK, inputs - sent))]
                with fix.growth(self._receiver) as grown:
                    resident = fix.resident_bytes(self._receiver)
                    statuses = await lines.statuses(chunk)
                self.peak_bytes = max(self.peak_bytes, resident + grown.bytes)
                for request, status in zip(chunk, statuses, strict=True):
                    await self._judge(request, status, lines)
                self._look()
                tell(sent := sent + len(chunk))
        finally:
            await lines.close()

    async def _judge(self, request: Request, status: int, lines: Lines) -> None:
        for _ in range(AGAIN):
            if status != 503 or "readyz" in request.path:
                break
            self._retried += 1
            (status,) = await lines.statuses([request])
        self.answers[request.kind, status] += 1
        if not self._is_right(request, status):
            raise Broken(f"{status} to {request!r:.3000}")
        if 200 <= status < 300 and request.method == "POST":
            self._items += self._events(request)

    def _is_right(self, request: Request, status: int) -> bool:
        if request.kind is Kind.WILD:
            return status == CLOSED or 200 <= status < 500
        if request.kind is Kind.FORGED and status in REFUSED:
            return True
        if max(len(request.body), len(request.plain)) > fix.LIMIT:
            return status in (413, CLOSED)  # it may hang up while there is more to come
        if request.kind is Kind.FORGED:
            return False
        try:
            self._events(request)
        except Malformed:
            return status == 400 or not self._is_signed(request)
        return status == request.success or not self._is_signed(request)

    def _is_signed(self, request: Request) -> bool:
        """Where the proof stands in the body, what was done to the body may have been done to it."""
        return not self._adapters[request.source].facts.signature.startswith("none")

    def _events(self, request: Request) -> int:
        """As many as the adapter finds, here and now. Raises Malformed, and nothing else."""
        adapter = self._adapters[request.source]
        headers = {name.lower(): value.strip() for name, value in request.headers.items()}
        _, _, query = request.path.partition("?")
        target = f"/webhooks/{request.source}" + (f"?{query}" if query else "")
        arrival = Arrival(headers, request.plain, datetime.now(UTC), target)
        return 0 if adapter.handshake(arrival) is not None else len(adapter.events(arrival))

    def _look(self) -> None:
        """At the process, its log, and what it stored."""
        if self._receiver.process.poll() is not None:
            raise Broken(f"The receiver ended: {self._receiver.said[-2000:]}")
        if faults := [note for fault in FAULTS for note in self._receiver.notes(fault)]:
            raise Broken(f"The receiver noted {faults[0]}")
        if self.peak_bytes > RSS_BYTES_MAX:
            raise Broken(f"The receiver held {self.peak_bytes} bytes.")
        self._receiver.begin()
        self._stored.look()
        self._count()

    def _count(self) -> None:
        """A request that was answered 503 may have been stored all the same: then there is one more."""
        self.counts = self._stored.counts()
        found = sum(self.counts[name] for name in ("events", "duplicates", "quarantined"))
        if not self._items <= found <= self._items + self._retried * 5:
            raise Broken(f"{self._items} were acknowledged, {found} are there: {self.counts}")


def shown(answers: Counter[tuple[Kind, int]]) -> Sequence[str]:
    """A line a kind: `honest 200 × 1,203, 400 × 88`."""
    by_kind = {
        kind: ", ".join(
            f"{s or 'closed'} × {n:,}" for (k, s), n in sorted(answers.items(), key=str) if k is kind
        )
        for kind in Kind
    }
    return [f"{kind.value:>7}  {words}" for kind, words in by_kind.items()]
