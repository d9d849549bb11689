"""`claim-flat`: the time of one claim (p50) with ten million completed events, against that with ten thousand.

A claim is what a worker sends: fifty due events at once, in a transaction of its own. Its events are then
completed, so that the table goes on as in earnest. `PAST=1000000` makes the past smaller.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from uuid import uuid4

from ledger import work
from ledger.database import Database, Transaction
from ledger.events.front import Front
from ledger.records import ClaimedEvent, Worker
from tests.benchmarks.past import fill
from tests.benchmarks.report import compare, say
from tests.benchmarks.stage import Stage, accept, percentile

PAST = int(os.environ.get("PAST", "10000000"))
LITTLE = 10_000
CLAIMS, GROUP = 40, 50
LIMIT = 1.2


def claim_flat(stage: Stage) -> dict[str, object]:
    with ExitStack() as stack:
        small, large = (_stacked(stack, stage, number) for number in (LITTLE, PAST))
        found = compare("claim-flat", "ms (p50)", large, {f"{LITTLE:,} completed": small})
    return found | {"limit": LIMIT, "completed": PAST, "claims": CLAIMS, "of": GROUP}


def _stacked(stack: ExitStack, stage: Stage, number: int) -> Callable[[], float]:
    name = stack.enter_context(stage.database())
    with stage.connect(name) as owner:
        fill(owner, number, lambda what: say(f"claim-flat, past: {what}"))
    receiver = stack.enter_context(stage.ledger(name))
    worker = stack.enter_context(stage.ledger(name, login="nottwice_worker"))
    return partial(round_of_claims, receiver, worker)


def round_of_claims(
    receiver: Database, worker: Database, *, claims: int = CLAIMS, group: int = GROUP
) -> float:
    """Milliseconds, the median of so many claims. All it accepted is completed afterwards."""
    accept(receiver, claims * group)
    who = Worker(uuid4(), "bench", (("shop", "sale"),))
    front = Front(who)
    return percentile([_claim(worker, who, front, group) for _ in range(claims)], 0.5) * 1000


def _claim(database: Database, who: Worker, front: Front, group: int) -> float:
    began = time.perf_counter()
    claimed = database.run(lambda tx: work.claim(tx, who, limit=group, lease_s=60.0, front=front))
    took_s = time.perf_counter() - began
    front.move(claimed, group)
    assert len(claimed) == group, f"{len(claimed)} of {group} were claimed"
    database.run(partial(_complete, claimed=claimed))
    return took_s


def _complete(tx: Transaction, claimed: list[ClaimedEvent]) -> None:
    assert len(work.complete(tx, [one.lease for one in claimed], writer=uuid4())) == len(claimed)
