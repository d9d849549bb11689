"""WRK-11, five hundred failures at the same second: how the tries spread, and what a real sender makes of an outage.

Whole (60 s away, 500 sends, real processes) it is `make bench ONLY=outage`.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable

import pytest

from ledger.retry import action_delay_s
from tests.benchmarks.outage import provider
from tests.fix_sender import LEASE_S, POST, Senders, pump_until
from tests.fix_worker import Workshop
from tests.ports import free_ports
from worker import providers
from worker.sandbox.faults import Fault, Faults

SENDS, AWAY_S = 500, 60.0


def seconds_of_tries(chance: Callable[[], float]) -> Counter[int]:
    """All fail in the first second, and for a minute; in which second each tries again, from its second time on."""
    queue = [(chance(), 0) for _ in range(SENDS)]
    heapq.heapify(queue)
    seconds: Counter[int] = Counter()
    while queue:
        at, failures = heapq.heappop(queue)
        seconds[int(at)] += failures > 1
        if at < AWAY_S:
            heapq.heappush(queue, (at + action_delay_s(failures + 1, chance()), failures + 1))
    return seconds


@pytest.mark.parametrize("seed", range(5))
def test_wrk_11_no_second_holds_many_of_the_later_tries(seed: int) -> None:
    seconds = seconds_of_tries(random.Random(seed).random)
    assert seconds.total() > 4 * SENDS
    assert max(seconds.values()) <= 0.05 * seconds.total()


def test_wrk_11_without_the_spread_they_would_come_together() -> None:
    """What is measured above can be told from its opposite."""
    seconds = seconds_of_tries(lambda: 0.0)
    assert max(seconds.values()) >= 0.2 * seconds.total()


class InTurn(Faults):
    """Away for so many requests, however long they take; then every fourth is one too many."""

    away = 30

    def __init__(self) -> None:
        super().__init__()
        self.answered: list[int] = []

    def take(self, provider: str, path: str, body: bytes, *, reads: bool = False) -> Fault | None:
        n = len(self.answered)
        status = 503 if n < self.away else 429 if n % 4 == 0 else 200
        self.answered.append(status)
        return None if status == 200 else Fault(status=status)


def test_wrk_11_all_are_sent_once_after_an_outage_and_under_a_limit(
    workshop: Workshop, senders: Senders, propose_one: Callable[..., int]
) -> None:
    """One e-mail a key, every answer on its attempt, and none given up for what the provider said of its own load."""
    for n in range(12):
        propose_one(f"receipt:{n}")
    (port,), faults = free_ports(1), InTurn()
    paces = "send_retry_base_s = 0.05\npause_s = 0.05\nsend_slots = 4"
    table = POST.format(url=f"http://127.0.0.1:{port}", timeout_s=15.0)
    settings = workshop.settings(more=table + "sends_at_once = 3", worker=paces, lease_s=LEASE_S)
    with provider(faults, port) as store:
        sender = senders(send_slots=4)
        sender.use(settings, providers.build_all(settings))
        pump_until(sender, lambda: workshop.value("SELECT bool_and(state = 'sent') FROM nottwice.actions"))
    assert len(store.mails) == len({mail.idempotency_key for mail in store.mails}) == 12
    answers = Counter(faults.answered)
    assert answers[429] >= 3 and answers[200] == 12
    tries = workshop.rows("SELECT outcome, count(*) AS n FROM nottwice.action_attempts GROUP BY outcome")
    assert {row.outcome: row.n for row in tries} == {"unknown": 30, "not_sent": answers[429], "accepted": 12}
