"""Events worked one at a time, by the code that works them in a worker: same claim, same commit, same failures."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from ledger import work
from ledger.database import Database, outside_transactions
from ledger.records import ClaimedEvent, Event, Worker
from ledger.settings import Settings
from worker.commits import Commits
from worker.handlers import Handlers
from worker.in_hand import Ending, InHand, Stage


@dataclass(frozen=True, slots=True)
class Worked:
    """One claim of an event, and how it ended: `completed`, `retried`, `retry later` or `set_aside`."""

    event: Event
    ending: Ending
    error: BaseException | None


class Working:
    """Claims what is due and works it."""

    def __init__(self, database: Database, settings: Settings, handlers: Handlers) -> None:
        self._database, self._handlers, self._limits = database, handlers, settings.worker
        self._worker = Worker(uuid4(), "trial", handlers.kinds)
        self._commits = Commits(database, settings, self._ended)
        self._done: list[Worked] = []

    def all_due(self, at_most: int = 1_000) -> list[Worked]:
        """Until nothing is due any more; what was worked, in this order. At most so many: one may be due again at once."""
        self._done = []
        while len(self._done) < at_most and (claimed := self._claim()):
            self._work(claimed)
        return self._done

    def _claim(self) -> ClaimedEvent | None:
        limits = self._limits
        claim = partial(work.claim, lease_s=limits.lease_s, attempts_max=limits.attempts_max)
        found = self._database.run(lambda tx: claim(tx, self._worker, limit=1, idle=True))
        return found[0] if found else None

    def _work(self, claimed: ClaimedEvent) -> None:
        one = InHand(claimed, self._handlers.find(claimed.event), Stage.READY)
        if one.handler.slow:
            one.begin(Stage.SLOW, self._limits.run_s_max)
            with ThreadPoolExecutor(1) as thread:  # of its own, as in a worker: it may run an event loop
                thread.submit(_prepare, one).result()
        if one.error or not self._commits.together([one]):
            self._commits.settle(one)

    def _ended(self, ended: Sequence[InHand], ending: Ending) -> None:
        self._done += [Worked(one.claimed.event, ending, one.error) for one in ended]


def _prepare(one: InHand) -> None:
    try:
        one.prepared = outside_transactions(one.handler.prepare, one.claimed.event)
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its own failure
        one.error = error
