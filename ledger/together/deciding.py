"""Each send of a list: whether it may be decided like the others, and the decision itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ledger import audit, judging
from ledger.database import Transaction
from ledger.decisions import TARGETS, WORDS, must_be_harmless
from ledger.decisions.deciding import change, changed, may_decide, must_be_in_time
from ledger.errors import Declined, NotNow
from ledger.evidence import rests
from ledger.evidence.rests import Rest, against_sent
from ledger.records import Act, Decision
from ledger.records.together import Listed
from ledger.states import ActionState
from ledger.verdict import Finding

LIST_MAX = 500  # sends on one list: what one transaction decides within a second or two
PACE_S = 0.5  # between two sends of one list: two a second

ASKED = """
SELECT q.action_id, p.name FROM nottwice.requests q JOIN nottwice.people p ON p.id = q.requested_by
WHERE q.action_id = ANY(CAST(:ids AS bigint[])) AND q.decision IS NULL AND q.expires_at > now()
UNION ALL
SELECT w.action_id, p.name FROM nottwice.together_rows w JOIN nottwice.together t ON t.id = w.together_id
JOIN nottwice.people p ON p.id = t.requested_by
WHERE w.action_id = ANY(CAST(:ids AS bigint[])) AND w.result = 'waiting' AND t.state = 'waiting' AND t.expires_at > now()
  AND t.id <> :except_for
"""


@dataclass(frozen=True, slots=True)
class Judged:
    """One send of a list with its locked row and what is known of it; `refusal` says why it is left alone."""

    listed: Listed
    row: sa.Row[Any] | None
    found: Finding | None
    rest: Rest
    refusal: str = ""
    message_id: str | None = None


def judged(
    tx: Transaction, listed: Sequence[Listed], decision: Decision, wait_s: float, list_id: int = 0
) -> list[Judged]:
    """All of a list in its order, every row locked until this transaction ends; `list_id` once it has been asked for.

    A send that goes out later than the others needs a key that holds for longer. A number that another list gives away at
    the same moment is refused by the database (sql/0047): the transaction is begun again, and finds it taken.
    """
    ids = [one.action_id for one in listed]
    rows, histories = judging.lock_many(tx, ids), judging.histories(tx, ids)
    asked = {row.action_id: row.name for row in tx.all(ASKED, ids=ids, except_for=list_id)}
    found_of_each = rests.of_each(tx, ids)  # behind the locks, so that it is what was told last
    made: list[Judged] = []
    goes_s = wait_s
    for one in listed:
        row, rest = rows.get(one.action_id), found_of_each[one.action_id]
        found = None if row is None else judging.finding_of(row, *histories[one.action_id])
        refusal = _refusal(tx, one, row, found, rest, decision, goes_s, asked.get(one.action_id, ""))
        number = rest.message_id if decision is Decision.WAS_SENT and not refusal else None
        made.append(Judged(one, row, found, rest, refusal, number))
        goes_s += 0.0 if refusal else PACE_S
    return made


def _refusal(
    tx: Transaction,
    one: Listed,
    row: sa.Row[Any] | None,
    found: Finding | None,
    rest: Rest,
    decision: Decision,
    goes_s: float,
    asked_by: str,
) -> str:
    if row is None or found is None:
        return "There is nothing here, or you may not see it."
    if row.state != ActionState.NEEDS_REVIEW:
        return f"It changed meanwhile: it is {row.state.replace('_', ' ')} now."
    if row.version != one.seen.version or bytes(row.content_digest) != one.seen.content_digest:
        return "It changed since it was listed. Look at it by itself."
    if asked_by:
        return f"{asked_by} asks a second person about it."
    return _against(tx, row, found, rest, decision, goes_s)


def _against(
    tx: Transaction,
    row: sa.Row[Any],
    found: Finding,
    rest: Rest,
    decision: Decision,
    goes_s: float,
) -> str:
    if decision is Decision.WAS_SENT:
        return against_sent(rest)
    if rest.points_to_sent:
        return "Something points to its having gone out. Look at it by itself."
    if decision is Decision.RESEND_SAME_KEY:
        try:
            must_be_in_time(row)
            must_be_harmless(tx, row, found, goes_s)
        except NotNow as error:
            return str(error)
    return ""


def nothing_can_be_done(tx: Transaction, all_of_it: Sequence[Judged]) -> Declined:
    """Who was first, where somebody was; else why the first one of the list is left alone."""
    for one in all_of_it:
        if one.row is not None and one.row.version != one.listed.seen.version:
            return changed(tx, one.listed.action_id, one.listed.seen)
    return NotNow(f"None of them can be decided like this. {all_of_it[0].refusal}")


def carry_out(
    tx: Transaction, going: Sequence[Judged], decision: Decision, act: Act, wait_s: float, basis: str
) -> None:
    """Decide each, in the order of the list; what is sent goes at `PACE_S` between two."""
    there = [(one, one.row, one.found) for one in going if one.row is not None and one.found is not None]
    for place, (one, row, found) in enumerate(there):
        change(
            tx,
            row,
            act,
            WORDS[decision],
            TARGETS[decision],
            found,
            message_id=one.message_id,
            basis=basis,
            wait_s=wait_s + place * PACE_S,
            known=rests.known(found, one.rest, row.state),
            further=True,
        )


WAITING_TO_GO = """
SELECT r.action_id, r.seen_version FROM nottwice.together_rows r JOIN nottwice.actions a ON a.id = r.action_id
WHERE r.together_id = :id AND r.result = 'done' AND a.state = 'approved' AND a.decided_send AND a.version = r.seen_version + 1
"""


def take_back(tx: Transaction, list_id: int, act: Act) -> int:
    """Stop those of a list that have not gone yet: they are back on the desk. Returns how many.

    Raises NotNow when all have gone; and as every decision.
    """
    may_decide(act)
    audit.refuse_second_use(tx, act)
    seen = {row.action_id: row.seen_version + 1 for row in tx.all(WAITING_TO_GO, id=list_id)}
    rows = judging.lock_many(tx, list(seen))
    held = [row for row in rows.values() if row.version == seen[row.id]]
    if not held:
        raise NotNow("They have gone; none can be taken back.")
    detail = f"{len(held)} sends of list {list_id}"
    audit.done(tx, act, "taken back, together", "together", list_id, version=None, before=None, after=None, detail=detail)  # fmt: skip
    for row in held:
        found = judging.finding(tx, row)
        change(tx, row, act, "taken back", ActionState.NEEDS_REVIEW, found, basis=f"with list {list_id}", further=True)  # fmt: skip
    return len(held)
