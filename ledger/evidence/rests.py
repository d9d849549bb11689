"""What a common word about an uncertain send rests on: the messages that may be it, and who else may be the same one.

A notice names no subject. Of several sends to one recipient each has each message as a hint, and fewer may have gone out
than there are hints. So "It was sent" is said in common only of a send with a message that is this one's alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

import sqlalchemy as sa

from ledger import judging
from ledger.database import Transaction
from ledger.states import ActionState
from ledger.verdict import Finding

# How a hint ends that was there too early, by the provider's clock, which may be behind ours (ledger/evidence/hints.py).
EARLY = ", before our request left: likely another one, unless the provider's clock is slow"
KNOWN_CHARACTERS_MAX = 2000  # of what an entry of the record says was known

# What was taken back since points nowhere.
POINTING = """
SELECT e.action_id, e.points_to = 'sent' AS sent, e.proof, e.found, e.message_id, nottwice.meeting_key(e.message_id) AS key,
       nottwice.known_as_other(a.id, a.account, e.message_id) IS NOT NULL AS is_elsewhere,
       ARRAY(SELECT nottwice.rivals_for(a.id, a.account, e.message_id)) AS rivals
FROM nottwice.evidence e JOIN nottwice.actions a ON a.id = e.action_id
WHERE e.action_id = ANY(CAST(:ids AS bigint[])) AND e.points_to <> 'neither'
  AND (e.proof OR NOT EXISTS (
       SELECT FROM nottwice.evidence w WHERE w.action_id = e.action_id AND w.points_to = 'neither' AND w.id > e.id
       AND nottwice.meeting_key(w.message_id) = nottwice.meeting_key(e.message_id)))
ORDER BY e.id
"""


@dataclass(slots=True)
class Rest:
    """What was found of one send, and not taken back since.

    `hints` counts what points to its having gone out without proving it. `messages`: those that may be it, by the spelling
    under which they meet, and that no other send is known by; `rivals`: the other sends that may be one of them. `early`:
    all that points to one was there before our request left.
    """

    hints: int = 0
    is_proven: bool = False
    points_to_sent: bool = False
    points_to_not_sent: bool = False
    early: bool = True
    messages: dict[str, str] = field(default_factory=dict)
    rivals: set[int] = field(default_factory=set)

    @property
    def message_id(self) -> str | None:
        """The number of the one message that is this send's alone."""
        return next(iter(self.messages.values())) if len(self.messages) == 1 and not self.rivals else None


def of_each(tx: Transaction, ids: Sequence[int]) -> dict[int, Rest]:
    """What a common word about each of these would rest on, as it is now."""
    found = {id_: Rest() for id_ in ids}
    for row in tx.all(POINTING, ids=list(ids)):
        _add(found[row.action_id], row)
    return found


def _add(rest: Rest, row: sa.Row[Any]) -> None:
    if not row.sent:
        rest.points_to_not_sent = True
        return
    rest.points_to_sent = True
    rest.is_proven |= row.proof
    rest.hints += not row.proof
    if row.message_id is None or row.is_elsewhere:
        return
    rest.messages.setdefault(row.key, row.message_id)
    rest.rivals.update(row.rivals)
    rest.early &= is_early(row.found)


def is_early(found: str) -> bool:
    """Whether the message that a hint found was there before our request left."""
    return found.endswith(EARLY)


def against_sent(rest: Rest) -> str:
    """Why "It was sent" is not said of it together with others; empty where it may be."""
    if not rest.points_to_sent:
        return "Nothing that was found points to its having gone out."
    if rest.points_to_not_sent:
        return "Something points to its not having gone out as well. Look at it by itself."
    if rest.is_proven:
        return ""
    if rest.rivals:
        n = len(rest.rivals)
        others = "another send" if n == 1 else f"{n} other sends"
        return f"What points to it may be the message of {others} as well. Decide it by itself."
    if not rest.messages:
        return "What points to it names no message that may be its own. Look at it by itself."
    if len(rest.messages) > 1:
        return f"{len(rest.messages)} messages may be it, and one is. Decide it by itself."
    return "The message was there before our request left. Look at it by itself." if rest.early else ""


# ── For the record ────────────────────────────────────────────────────────────────────────────────────


def known(found: Finding, rest: Rest, state: str) -> str:
    """What was known of a send, for the entry of a decision: the verdict with its reasons, the hints, and their rivals.

    Without anybody's address or subject: the record is kept longer than those.
    """
    told = f"{found.in_words} {_in_words(rest, state)}".rstrip()
    return told[:KNOWN_CHARACTERS_MAX]


def known_of(tx: Transaction, row: sa.Row[Any], found: Finding) -> str:
    """As `known`, of a row as `judging.lock` reads it."""
    return known(found, of_each(tx, [row.id])[row.id], row.state)


def _in_words(rest: Rest, state: str) -> str:
    if not rest.hints:
        return "No hint named a message." if state == ActionState.NEEDS_REVIEW else ""
    hints = "1 hint" if rest.hints == 1 else f"{rest.hints} hints"
    messages = "1 message" if len(rest.messages) == 1 else f"{len(rest.messages)} messages"
    told = f"{hints} of {messages} that may be it."
    if not rest.rivals:
        return f"{told} No other send may be the same."
    others = "1 other send" if len(rest.rivals) == 1 else f"{len(rest.rivals)} other sends"
    return f"{told} The same may be that of {others}."


LAST_FOUND = """
SELECT source, points_to, observed_at FROM nottwice.evidence WHERE action_id = :id ORDER BY id DESC LIMIT 1
"""


def known_now(tx: Transaction, action_id: int) -> str:
    """What is known of a send, and what was found of it last: for the entry of a try that was refused; "" of none."""
    if tx.first("SELECT FROM nottwice.actions WHERE id = :id", id=action_id) is None:
        return ""
    row = judging.lock(tx, action_id)
    told, last = known_of(tx, row, judging.finding(tx, row)), tx.first(LAST_FOUND, id=action_id)
    if last is None:
        return told
    source, where = last.source[:100], last.points_to.replace("_", " ")
    last_found = (
        f" Found last, at {last.observed_at.astimezone(UTC):%H:%M:%S} UTC: {source}, which points to {where}."
    )
    return told[: KNOWN_CHARACTERS_MAX - len(last_found)] + last_found
