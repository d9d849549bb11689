"""`outage`: a provider with keys that is away for a while and then takes twenty a second, and what waits meanwhile.

What is measured is how evenly the tries come back: the share of all of them in the fullest second after the first
round, against the five in a hundred that it may be. It stops with an error when a send is lost or goes out twice.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import uvicorn

from ledger import actions
from ledger.database import Database
from ledger.records import Email, KindRules, Proposal
from tests.benchmarks.drain import EMPTY, HANDLERS
from tests.benchmarks.report import say
from tests.benchmarks.stage import CONFIGURATION, Stage, wait_until
from tests.ports import free_ports
from worker.sandbox.faults import Fault, Faults
from worker.sandbox.server import create
from worker.sandbox.store import Store

SENDS, AWAY_S, PER_S = 500, 60.0, 20
LIMIT = 5.0  # in a hundred, of the tries after the first round
KEY = "am-key"
PROVIDER = """
[providers.post]
kind = "agentmail"
base_url = "http://127.0.0.1:{port}"
key = "post-key"
"""


@dataclass
class Outage(Faults):
    """503 for `away_s` from the first request on, then 429 for what comes faster than `per_s` in a second."""

    away_s: float
    per_s: int
    retry_after: str = "1"
    tries: list[tuple[str, float, int]] = field(default_factory=list)  # whose, when, and how it was answered

    def __post_init__(self) -> None:
        super().__init__()
        self._taken: deque[float] = deque()

    def take(self, provider: str, path: str, body: bytes, *, reads: bool = False) -> Fault | None:
        now = time.monotonic()
        status = self._status(now)
        self.tries.append((body.decode(), now, status))
        return (
            None
            if status == 200
            else Fault(status=status, retry_after=self.retry_after if status == 429 else "")
        )

    def _status(self, now: float) -> int:
        if now < (self.tries[0][1] if self.tries else now) + self.away_s:
            return 503
        while self._taken and self._taken[0] <= now - 1.0:
            self._taken.popleft()
        if len(self._taken) >= self.per_s:
            return 429
        self._taken.append(now)
        return 200

    @property
    def fullest_s(self) -> tuple[int, int]:
        """Tries in the fullest second, and all of them: those of the third and later rounds of each send."""
        seen: Counter[str] = Counter()
        seconds: Counter[int] = Counter()
        for whose, at, _ in self.tries:
            seen[whose] += 1
            if seen[whose] > 2:
                seconds[int(at)] += 1
        return max(seconds.values(), default=0), seconds.total()


@contextmanager
def provider(faults: Faults, port: int) -> Iterator[Store]:
    """A sandbox in this process, on that port."""
    store = Store()
    app = create(store, {"agentmail": KEY}, faults)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield store
    finally:
        server.should_exit = True
        thread.join(10)


def outage(stage: Stage) -> dict[str, object]:
    os.environ["NOTTWICE_SECRET_POST_KEY"] = KEY
    faults, port = Outage(AWAY_S, PER_S), free_ports(1)[0]
    configuration = CONFIGURATION + PROVIDER.format(port=port)
    with (
        stage.database() as name,
        stage.ledger(name, "nottwice_worker") as ledger,
        provider(faults, port) as store,
    ):
        propose(ledger, SENDS)
        began = time.perf_counter()
        with stage.worker(name, HANDLERS.format(body=EMPTY), configuration), stage.connect(name) as watch:
            took_s = _until_settled(watch) - began
            (sent,) = watch.execute(
                b"SELECT count(*) FROM nottwice.actions WHERE state = 'sent'"
            ).fetchone() or (0,)
    if not sent == len(store.mails) == len({mail.idempotency_key for mail in store.mails}) == SENDS:
        raise RuntimeError(f"{sent} of {SENDS} are sent, and {len(store.mails)} e-mails went out")
    return _line(faults, took_s)


def _line(faults: Outage, took_s: float) -> dict[str, object]:
    most, tries = faults.fullest_s
    share, answers = 100.0 * most / tries, Counter(status for _, _, status in faults.tries)
    found: dict[str, object] = {
        "bench": "outage",
        "ours": round(share, 2),
        "unit": "% of the later tries in one second",
    }
    found |= {"baseline": LIMIT, "ratio": round(share / LIMIT, 3), "sends": SENDS, "sent_once": SENDS}
    found |= {"tries": len(faults.tries), "fullest_s": most, "answers": dict(sorted(answers.items()))}
    return found | {"took_s": round(took_s, 1), "load": round(os.getloadavg()[0], 2)}


def _until_settled(watch: Any) -> float:
    def is_settled() -> bool:
        (left,) = watch.execute(b"SELECT count(*) FROM nottwice.actions WHERE settled_at IS NULL").fetchone()
        if left and int(time.monotonic()) % 30 == 0:
            say(f"outage: {left} wait")
        return not left

    return wait_until(is_settled, pause_s=1.0)


def propose(ledger: Database, number: int) -> list[int]:
    """That many receipts of the account `post`, each to somebody else."""
    rules = KindRules("receipt", "post", "post", key_window_s=86_400.0)
    ids = []
    for n in range(number):
        email = Email((f"p{n}@example.com",), "Receipt", "Paid.", inbox="in-1", sender="in-1")
        proposal = Proposal("acme", f"receipt:{uuid4().hex}", rules, email.content(), email.to)
        ids.append(ledger.run(lambda tx, proposal=proposal: actions.propose(tx, proposal)).action_id)
    return ids
