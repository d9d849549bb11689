"""A failed attempt: whose failure it was, and where the event goes then. What only the surroundings did is nobody's."""

from __future__ import annotations

import random
from uuid import UUID

from ledger import work
from ledger.database import Transaction, sqlstate
from ledger.errors import Unavailable
from ledger.figures import counters
from ledger.records import ClaimedEvent
from ledger.states import EventState
from worker.handlers import RetryLater, SetAside
from worker.in_hand import Ending, InHand, Stage
from worker.words import in_words

# 25P03, 25P04: the server ended a transaction that idled or lasted too long, so the apply part was at fault.
ENDED_BY_THE_SERVER = frozenset({"25P03", "25P04"})
CUTS_MAX = 3


def is_the_handlers(one: InHand, error: BaseException) -> bool:
    """Whether an error came of the apply part; not when the database went away, unless it went because of it.

    Counts the connections that broke while it was applied.
    """
    if one.stage is not Stage.APPLYING:
        return False
    if not isinstance(error, Unavailable):
        return True
    one.cuts += 1
    return one.cuts >= CUTS_MAX or sqlstate(error.__cause__ or error) in ENDED_BY_THE_SERVER


def record(
    tx: Transaction, claimed: ClaimedEvent, error: BaseException, *, writer: UUID, base_s: float
) -> Ending:
    """End the claim as its handler asked, or retry it after a wait that begins with `base_s`; count it. Raises LeaseLost."""
    ending, state = _put_where_it_belongs(tx, claimed, error, base_s)
    if state is not EventState.PENDING:  # asked for or not: no attempt is left, or it waited for too long
        ending = Ending.SET_ASIDE
    if ending is not Ending.UNAVAILABLE:
        counters.bump(tx, writer, claimed.event.namespace, ending.value)
    return ending


def _put_where_it_belongs(
    tx: Transaction, claimed: ClaimedEvent, error: BaseException, base_s: float
) -> tuple[Ending, EventState]:
    """What the handler asked for, or its failure; and the state that came of it."""
    lease, words = claimed.lease, in_words(_cause(error))
    if isinstance(error, RetryLater):
        state = work.retry_later(tx, lease, delay_s=error.delay_s, error=words, counted=False)
        return Ending.UNAVAILABLE, state
    if isinstance(error, SetAside):
        work.set_aside(tx, lease, error=words)
        return Ending.SET_ASIDE, EventState.FAILED
    return Ending.RETRIED, work.fail(tx, claimed, error=words, base_s=base_s, chance=random.random())


def _cause(error: BaseException) -> BaseException:
    """What the server said, when that is why the database seemed away."""
    return error.__cause__ if isinstance(error, Unavailable) and error.__cause__ else error
