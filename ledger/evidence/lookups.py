"""Look-ups: an uncertain send asked about at its provider, before a person is asked and whenever one asks again.

plan ▸ claim (committed) ▸ the question, outside any transaction ▸ record. A look-up sends nothing and changes nothing
by itself: what it saw is evidence, kept once a distinct finding, and the whole history is judged as always.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never
from uuid import uuid4

import sqlalchemy as sa

from ledger import audit
from ledger.actions import answers
from ledger.database import Transaction
from ledger.decisions.deciding import held
from ledger.errors import LeaseLost, NotNow
from ledger.evidence.message_ids import meeting_key
from ledger.judging import lock
from ledger.records import (
    Act,
    Answered,
    CannotBeAsked,
    Evidence,
    Looked,
    LookedKind,
    LookUp,
    PointsTo,
    Sighting,
    Unanswered,
    Worker,
)
from ledger.states import ActionState

ASK = "look again"  # the act's name in the audit
MAY_BE_ASKED = (ActionState.NEEDS_REVIEW, ActionState.CLOSED)
NOT_ITS_OWN = "; that message is known as another send's"

IS_DUE = """
SELECT EXISTS (SELECT FROM nottwice.lookups l WHERE l.done_at IS NULL AND l.account = ANY(CAST(:accounts AS text[])))
    OR EXISTS (SELECT FROM nottwice.sends_in_doubt a WHERE a.account = ANY(CAST(:accounts AS text[]))) AS due
"""

# The n-th of a doubt is due n waits after it began; then every last wait, until evidence is no longer waited for (or
# the try that may make a second copy is due). One look comes in any case, however late a worker was there.
PLAN = """
INSERT INTO nottwice.lookups (action_id, account, due_at)
SELECT a.id, a.account, next.due_at
FROM nottwice.sends_in_doubt a
CROSS JOIN CAST(:waits_s AS float8[]) AS waits_s
CROSS JOIN LATERAL (
    SELECT coalesce(a.review_since, max(coalesce(t.answered_at, t.abandoned_at))) AS since
    FROM nottwice.action_attempts t WHERE t.action_id = a.id) AS doubt
CROSS JOIN LATERAL (
    SELECT CAST(count(*) AS integer) AS looks, max(l.done_at) AS last_at
    FROM nottwice.lookups l WHERE l.action_id = a.id AND l.done_at >= doubt.since) AS before
CROSS JOIN LATERAL (
    SELECT CASE WHEN before.looks < cardinality(waits_s) THEN doubt.since + make_interval(secs => waits_s[before.looks + 1])
                ELSE before.last_at + make_interval(secs => waits_s[cardinality(waits_s)]) END AS due_at) AS next
WHERE a.account = ANY(CAST(:accounts AS text[]))
  AND (a.until > now() OR NOT EXISTS (SELECT FROM nottwice.lookups l WHERE l.action_id = a.id))
  AND (before.looks = 0 OR a.until > greatest(now(), next.due_at))
  AND NOT EXISTS (SELECT FROM nottwice.lookups l
                  WHERE l.action_id = a.id AND (l.done_at IS NULL OR l.outcome = 'cannot_be_asked'))
LIMIT :most
ON CONFLICT (action_id) WHERE done_at IS NULL DO NOTHING
"""

FORGET = """
DELETE FROM nottwice.lookups l
WHERE l.done_at IS NULL AND l.asked_by IS NULL AND l.token IS NULL AND l.account = ANY(CAST(:accounts AS text[]))
  AND NOT EXISTS (SELECT FROM nottwice.sends_in_doubt a WHERE a.id = l.action_id)
"""


def plan(tx: Transaction, accounts: Sequence[str], waits_s: Sequence[float], *, most: int = 200) -> bool:
    """Write down what is to be looked up when, and forget what was settled meanwhile; whether anything is open.

    `waits_s`: how long after a doubt began its first, second … look-up is due; the last one is repeated.
    """
    if not tx.one(IS_DUE, accounts=list(accounts)).due:
        return False
    tx.execute(FORGET, accounts=list(accounts))
    tx.execute(PLAN, accounts=list(accounts), waits_s=list(waits_s), most=most)
    return True


# People who wait first. A pause is respected; a look-up never begins, lengthens or ends one.
CLAIM = """
WITH next AS MATERIALIZED (
    SELECT l.id FROM nottwice.lookups l
    WHERE l.done_at IS NULL AND l.due_at <= now() AND l.account = ANY(CAST(:accounts AS text[]))
      AND (l.lease_until IS NULL OR l.lease_until < now())
      AND NOT EXISTS (SELECT FROM nottwice.provider_pauses p WHERE p.account = l.account AND p.paused_until > now())
    ORDER BY l.asked_at NULLS LAST, l.due_at, l.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
UPDATE nottwice.lookups l SET token = :token, claimed_by = :worker, claimed_at = now(),
    lease_until = now() + make_interval(secs => :lease_s)
FROM next, nottwice.actions a, nottwice.action_contents c,
     LATERAL (SELECT min(t.started_at) AS first_at, max(coalesce(t.answered_at, t.abandoned_at, t.started_at)) AS last_at,
                     (array_agg(t.sent_as ORDER BY t.number DESC) FILTER (WHERE t.sent_as IS NOT NULL))[1] AS sent_as,
                     (array_agg(t.place ORDER BY t.number DESC))[1] AS place
              FROM nottwice.action_attempts t WHERE t.action_id = a.id) AS tries
WHERE l.id = next.id AND a.id = l.action_id AND c.action_id = a.id
RETURNING l.id, l.action_id, l.token, a.provider, a.account, a.reference, c.content,
          tries.first_at AS first_try_at, tries.last_at AS last_try_at, a.provider_key, tries.sent_as, coalesce(tries.place, '') AS place
"""


def claim(tx: Transaction, worker: Worker, accounts: Sequence[str], *, lease_s: float) -> LookUp | None:
    """Take the look-up that is due longest, a person's before ours. `lease_s` covers the question; it is not renewed."""
    row = tx.first(CLAIM, accounts=list(accounts), token=uuid4(), worker=worker.id, lease_s=lease_s)
    return None if row is None else LookUp(**(row._asdict() | {"content": bytes(row.content)}))


def record(tx: Transaction, lookup: LookUp, looked: Looked, source: str) -> ActionState:
    """Write down what a look-up saw, and judge the action; returns where it is.

    `source` names whom we asked. Each distinct finding is kept once, however often it is seen. Raises LeaseLost when
    the claim is not ours any more: nothing was written, and whoever has it now sees for themselves.
    """
    sightings = looked.sightings if isinstance(looked, Answered) else ()
    own = [_owned(tx, lookup, s) for s in sightings]  # messages are locked before actions, as by all who do
    row = lock(tx, lookup.action_id)
    _end(tx, lookup, looked)
    state = ActionState(row.state)
    for sighting in own:
        state = _observe(tx, row, sighting, source) or state
    if isinstance(looked, Answered) and not sightings:
        nothing = Sighting(looked.words, PointsTo.NEITHER, False, None)
        state = _observe(tx, row, nothing, source) or state
    return state


TRIED = "SELECT FROM nottwice.action_attempts WHERE action_id = :id LIMIT 1"


def ask(tx: Transaction, action_id: int, act: Act) -> int:
    """A person asks for a look-up; the worker carries it out, and nothing is sent. Returns the look-up's id.

    One that is open already answers both. Raises NotAllowed, AlreadyDecided (this very press), NotNow.
    """
    row, found = held(tx, action_id, act)
    if row.state not in MAY_BE_ASKED or tx.first(TRIED, id=action_id) is None:
        raise NotNow(f"This send is {row.state.replace('_', ' ')}: there is nothing to look up.")
    audit_id = audit.done(
        tx,
        act,
        ASK,
        "action",
        action_id,
        version=None,
        before=row.state,
        after=row.state,
        known=found.in_words,
    )
    return int(tx.one("SELECT nottwice.ask_lookup(:audit_id) AS id", audit_id=audit_id).id)


# ── What was seen ─────────────────────────────────────────────────────────────────────────────────────


def _owned(tx: Transaction, lookup: LookUp, sighting: Sighting) -> Sighting:
    """A message that another send is known by says nothing about this one."""
    if sighting.message_id is None:
        return sighting
    key = meeting_key(sighting.message_id)
    if sighting.proof and sighting.points_to is PointsTo.SENT:
        owner = answers.meet(tx, lookup.account, key, lookup.action_id)
    else:
        owner = _owner(tx, lookup.account, key)
    if owner in (None, lookup.action_id):
        return sighting
    return Sighting(f"{sighting.found}{NOT_ITS_OWN}", PointsTo.NEITHER, False, sighting.message_id)


def _owner(tx: Transaction, account: str, key: str) -> int | None:
    sql = "SELECT action_id FROM nottwice.messages WHERE account = :account AND message_id = :key"
    row = tx.first(sql, account=account, key=key)
    return None if row is None else row.action_id


KNOWN = """
SELECT FROM nottwice.evidence
WHERE action_id = :action_id AND source = :source AND found = :found AND points_to = :points_to AND proof = :proof
  AND message_id IS NOT DISTINCT FROM :message_id
"""


def _observe(tx: Transaction, row: sa.Row[Any], sighting: Sighting, source: str) -> ActionState | None:
    """Keep a sighting unless it is known; the action is locked. None: known before."""
    known = tx.first(
        KNOWN,
        action_id=row.id,
        source=source,
        found=sighting.found,
        points_to=sighting.points_to.value,
        proof=sighting.proof,
        message_id=sighting.message_id,
    )
    if known is not None:
        return None
    seen = Evidence(source, sighting.found, sighting.points_to, sighting.proof, row.now, sighting.message_id)
    return answers.add_evidence(tx, row.id, seen)


def _end(tx: Transaction, lookup: LookUp, looked: Looked) -> None:
    kind, words = _told(looked)
    ended = tx.execute(
        """UPDATE nottwice.lookups SET done_at = clock_timestamp(), outcome = :outcome, words = :words
           WHERE id = :id AND token = :token AND done_at IS NULL""",
        id=lookup.id,
        token=lookup.token,
        outcome=kind.value,
        words=words[:500],
    )
    if ended.rowcount != 1:
        raise LeaseLost(f"Look-up {lookup.id} is in other hands, or done.")


def _told(looked: Looked) -> tuple[LookedKind, str]:
    match looked:
        case Answered():
            return LookedKind.ANSWERED, looked.words
        case Unanswered():
            return LookedKind.UNANSWERED, looked.reason
        case CannotBeAsked():
            return LookedKind.CANNOT_BE_ASKED, looked.reason
        case _:
            assert_never(looked)
