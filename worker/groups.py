"""Groups of what is ready, committed by two threads: while one waits for the disk, the other works.

A group that was undone makes the next ones smaller until they succeed again, and for a while there is only one at a time:
two of them may have fought over the user's rows. What a group could not do is settled beside it, one by one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

from ledger.errors import Unavailable
from ledger.settings import Settings
from worker.commits import Commits
from worker.heartbeat import clock
from worker.in_hand import InHand
from worker.observer import note

BESIDE = 4  # how many single members are settled at once
ONE_BY_ONE_S = 30.0


class Groups:
    """`take(least, most)` waits for so many that are ready; `put_back` is told what has to wait for the database."""

    def __init__(
        self,
        commits: Commits,
        settings: Settings,
        take: Callable[[int, int], list[InHand]],
        put_back: Callable[[Sequence[InHand]], None],
    ) -> None:
        self._commits, self.settings, self._take, self._put_back = commits, settings, take, put_back
        self._beside = ThreadPoolExecutor(BESIDE, thread_name_prefix="beside")
        self._size, self._one_by_one, self._one_by_one_until = (
            settings.worker.group_max,
            threading.Lock(),
            0.0,
        )
        self.last_s = float("inf")  # what the last one took

    def start(self) -> None:
        """The second thread takes only whole groups, so that two do not share what one can do."""
        for name, whole in (("commits", False), ("whole groups", True)):
            threading.Thread(target=self._commit, args=(whole,), name=name, daemon=True).start()

    def _commit(self, whole: bool) -> None:
        while True:
            group = self._take(self._size if whole else 1, self._size)
            with self._one_by_one if clock() < self._one_by_one_until else nullcontext():
                self._end(group)

    def _end(self, group: Sequence[InHand]) -> None:
        good, begun_at = [one for one in group if one.error is None], clock()
        try:
            done = not good or self._commits.together(good)
        except Unavailable as error:
            note("database away", error=str(error))
            self._put_back(group)
            return
        for one in group:
            if one.error is not None or not done:
                self._beside.submit(self._commits.settle, one)
        self.last_s = clock() - begun_at
        self._judge(done, len(group))

    def _judge(self, done: bool, size: int) -> None:
        if done:
            self._size = min(2 * self._size, self.settings.worker.group_max)
        else:
            self._size = max(1, size // 2)
            self._one_by_one_until = clock() + ONE_BY_ONE_S
