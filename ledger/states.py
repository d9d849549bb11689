"""The states of events and actions, and the two transition tables as data.

Every change of state in `ledger/` names the transition it performs; a test walks these tables and the
CHECK constraints of `sql/` and fails when they disagree.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class EventState(StrEnum):
    """Where the work of an accepted event stands."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


class ActionState(StrEnum):
    """Where an external action stands. Only `sending` has a claim; the last five are final."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    SENDING = "sending"
    NEEDS_REVIEW = "needs_review"
    SENT = "sent"
    REFUSED = "refused"
    FAILED = "failed"
    DECLINED = "declined"
    CLOSED = "closed"


FINAL_ACTIONS = frozenset(
    {ActionState.SENT, ActionState.REFUSED, ActionState.FAILED, ActionState.DECLINED, ActionState.CLOSED}
)


class Transition(NamedTuple):
    """One allowed step: `by` is the name of the ledger function (or of the verdict) that performs it."""

    source: str
    by: str
    target: str


EVENT_TRANSITIONS: tuple[Transition, ...] = (
    Transition("pending", "claim", "processing"),
    Transition("processing", "complete", "completed"),
    Transition("processing", "retry_later", "pending"),
    Transition("processing", "hand_back", "pending"),
    Transition("processing", "rescue", "pending"),
    Transition("processing", "rescue", "failed"),
    Transition("processing", "set_aside", "failed"),
    Transition("failed", "requeue", "pending"),
    Transition("pending", "put_aside", "failed"),  # by a person, as is requeue
    Transition("processing", "put_aside", "failed"),
    Transition("completed", "recompute", "pending"),
    Transition("processing", "set_aside", "completed"),  # of a recompute that failed: it stands as before
    Transition("processing", "retry_later", "completed"),
    Transition("processing", "rescue", "completed"),
)

ACTION_TRANSITIONS: tuple[Transition, ...] = (
    Transition("proposed", "approve", "approved"),
    Transition("proposed", "decline", "declined"),
    Transition(
        "proposed", "propose", "closed"
    ),  # too late when it was proposed, or over its recipient's rate
    Transition("approved", "propose", "closed"),
    Transition("proposed", "verdict", "closed"),  # too late: nobody approved it in time
    Transition("approved", "claim", "sending"),
    Transition("sending", "hand_back", "approved"),
    Transition(
        "sending", "stop", "needs_review"
    ),  # it was written for an account that the configuration lacks
    Transition("sending", "verdict", "approved"),
    Transition("sending", "verdict", "sent"),
    Transition("sending", "verdict", "refused"),
    Transition("sending", "verdict", "failed"),
    Transition("sending", "verdict", "needs_review"),
    Transition("sending", "verdict", "closed"),
    Transition("approved", "claim", "needs_review"),  # the stored content is not what was rendered
    Transition("approved", "verdict", "sent"),
    Transition("approved", "verdict", "needs_review"),
    Transition("approved", "verdict", "refused"),
    Transition("approved", "verdict", "failed"),
    Transition("approved", "verdict", "closed"),
    Transition("needs_review", "verdict", "sent"),
    Transition("needs_review", "verdict", "refused"),
    Transition("refused", "verdict", "sent"),  # proof wins over what was thought final
    Transition("failed", "verdict", "sent"),
    Transition("needs_review", "settle", "sent"),
    Transition("needs_review", "settle", "approved"),
    Transition("needs_review", "settle", "closed"),
    Transition("needs_review", "agree", "closed"),
    Transition("approved", "take_back", "needs_review"),
    Transition("approved", "take_back", "proposed"),
    Transition("approved", "take_back", "failed"),
    Transition("sent", "reopen", "needs_review"),
    Transition("closed", "reopen", "needs_review"),
    Transition("failed", "requeue", "approved"),
    Transition("failed", "give_up", "closed"),
)
