"""DBX-01: PostgreSQL is restarted under load, in an orderly way, by a crash, and after a while of being away."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from ledger import schema
from ledger.embedded import Cluster
from tests.failures.ends import mails_of
from tests.failures.ground import Ground, body
from tests.failures.house import until

EVERY_S = 0.05  # 20 requests a second
REFUSED_MIN = 20  # answers of 503 that make it a while


@pytest.fixture
def server() -> Iterator[Cluster]:
    """A server of its own, that nobody else misses. No crash of the machine is meant: it keeps what it has written."""
    folder = Path(tempfile.mkdtemp(prefix="nottwice-", dir="/tmp"))
    folder.chmod(0o711)  # started by root, the server's own user must be able to pass
    made = Cluster(folder, settings={"fsync": "off", "full_page_writes": "off"})
    made.ensure()
    schema.migrate(made.url())
    yield made
    made.stop()
    shutil.rmtree(folder)


class Load:
    """Posts one event after the other, each again until it is acknowledged, as a provider does."""

    def __init__(self, post: Callable[[int], int]) -> None:
        self.answers: list[tuple[float, int]] = []
        self.acknowledged: list[int] = []
        self._post, self._over = post, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        for n in count(1):
            while not self._over.wait(EVERY_S):
                answer = self._post(n)
                self.answers.append((time.monotonic(), answer))
                if answer == 200:
                    self.acknowledged.append(n)
                    break
            if self._over.is_set():
                return

    def taken_since(self, moment: float) -> float | None:
        """When the first one was acknowledged after a moment."""
        return next((at for at, answer in list(self.answers) if at > moment and answer == 200), None)

    def refused_since(self, moment: float) -> int:
        return sum(at > moment and answer == 503 for at, answer in list(self.answers))


def test_dbx_01_the_database_is_restarted_under_load(server: Cluster, tmp_path: Path) -> None:
    logins = {life: server.url(f"nottwice_{life}") for life in ("worker", "receiver")}
    ground = Ground(tmp_path, server.url(), logins)
    try:
        workers = [ground.works(1) for _ in range(2)]
        with Load(lambda n: ground.post(ground.door, body(1, "keyed", id_=f"k{n}"))) as load:
            until(lambda: len(load.acknowledged) >= 5)
            for mode, away in (("fast", 0), ("immediate", 0), ("fast", REFUSED_MIN)):
                restarted(server, mode, load, away)
        everything_was_done_once(ground, load)
        assert {answer for _, answer in load.answers} == {200, 503}
        assert not any(worker.ended.is_set() for worker in workers), "a worker was lost on the way"
    finally:
        ground.close()


def restarted(server: Cluster, mode: str, load: Load, away: int) -> None:
    """Down until so many were refused, and back: requests are taken again by the same processes.

    How soon, benchmarks/recovery.py measures.
    """
    server._programs.run("pg_ctl", "stop", "-w", "-m", mode)
    down_at = time.monotonic()
    until(lambda: load.refused_since(down_at) >= away)
    server.ensure()
    back_at = time.monotonic()
    until(lambda: load.taken_since(back_at))


LEFT = """
SELECT FROM nottwice.events WHERE state <> 'completed' AND type = 'order.1'
UNION ALL SELECT FROM nottwice.actions WHERE state <> 'sent'
"""


def everything_was_done_once(ground: Ground, load: Load) -> None:
    """What was acknowledged, and what was stored without anybody hearing of it."""
    until(lambda: not ground.rows(LEFT))
    effects = [row.event_key for row in ground.rows("SELECT event_key FROM public.effects")]
    assert len(effects) == len(set(effects))
    assert {f"k{n}" for n in load.acknowledged} <= set(effects)
    mails = mails_of(ground)
    assert {f"k{n}" for n in mails} == set(effects)
    assert all(len(same) == 1 for same in mails.values())
