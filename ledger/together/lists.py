"""A list of sends that a person decides about, alone or, above a number within an hour, with a second person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from ledger import audit
from ledger.database import Transaction
from ledger.decisions import WORDS
from ledger.decisions.deciding import first, may_decide, must_be_complete, must_be_somebody_else
from ledger.errors import Declined, NotNow, Stale
from ledger.records import Act, Decision, Person, Seen
from ledger.records.together import Listed, ListState, Shared, Terms
from ledger.together.deciding import LIST_MAX, Judged, carry_out, judged, nothing_can_be_done

INSERT = """
INSERT INTO nottwice.together (decision, cause, state, row_count, why, looked_at, requested_by, needs_second, expires_at)
VALUES (:decision, :cause, :state, :rows, :why, CAST(:looked_at AS text[]), :person, :second,
        CASE WHEN :second THEN now() + make_interval(secs => :expires_s) END)
RETURNING id, requested_at
"""
INSERT_ROWS = """
INSERT INTO nottwice.together_rows (together_id, action_id, seen_version, content_digest, result, reason)
SELECT :list, r.* FROM unnest(CAST(:ids AS bigint[]), CAST(:versions AS bigint[]), CAST(:digests AS bytea[]),
                              CAST(:results AS text[]), CAST(:reasons AS text[])) AS r
"""
RESULTS = """
UPDATE nottwice.together_rows w SET result = r.result, reason = r.reason
FROM unnest(CAST(:ids AS bigint[]), CAST(:results AS text[]), CAST(:reasons AS text[])) AS r(id, result, reason)
WHERE w.together_id = :list AND w.action_id = r.id
"""
ANSWER = """
UPDATE nottwice.together SET state = :state, decided_by = :person, decided_at = now(), version = version + 1
WHERE id = :id AND version = :version AND state = 'waiting' RETURNING decided_at
"""
LAST_HOUR = """
SELECT coalesce(sum(row_count), 0) AS n FROM nottwice.together
WHERE requested_by = :person AND requested_at > now() - interval '1 hour' AND NOT needs_second
"""


def decide(tx: Transaction, listed: Sequence[Listed], decision: Decision, act: Act, terms: Terms) -> Shared:
    """Decide all that still are as they were seen, or ask a second person to.

    Raises NotAllowed, AlreadyDecided, Incomplete, and NotNow or Stale when none of them can be decided like this.
    """
    may_decide(act)
    audit.refuse_second_use(tx, act)
    must_be_complete(act)
    _must_be_a_list(listed, decision)
    all_of_it = judged(tx, listed, decision, terms.wait_s)
    going = [one for one in all_of_it if not one.refusal]
    if not going:
        raise nothing_can_be_done(tx, all_of_it)
    # Held against a second list of the same person at the same moment: together they may be over the number.
    tx.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(:person, 39))", person=f"together {act.person.id}"
    )
    because = needs_second(tx, act.person, len(going), terms.second_person_above)
    state = ListState.WAITING if because else ListState.DONE
    row = tx.one(INSERT, **_list(decision, act, state, len(going), terms))
    what = f"{'asked a second person: ' if because else ''}{WORDS[decision]}, together"
    detail = f"{len(going)} of {len(listed)} sends: {terms.cause}"
    audit_id = audit.done(
        tx, act, what, "together", row.id, version=1, before=None, after=state.value, detail=detail
    )
    if not because:
        carry_out(tx, going, decision, act, terms.wait_s, _basis(row.id, len(going)))
    tx.execute(INSERT_ROWS, list=row.id, **_rows(all_of_it if not because else going, waits=bool(because)))
    left = len(listed) - len(going)
    return Shared(row.id, state, audit_id, len(going), left, row.requested_at, because)


def agree(tx: Transaction, list_id: int, act: Act, *, wait_s: float = 15.0) -> Shared:
    """The second person's word: what still is as it was asked about is decided, in this person's name and on both's record.

    Raises NotAllowed for who asked, AlreadyDecided, NotNow when it ran out or nothing of it stands as it was, Incomplete.
    """
    found = _open(tx, list_id, act)
    must_be_somebody_else(tx, found.requested_by, act)
    must_be_complete(act)
    decision = Decision(found.decision)
    all_of_it = judged(tx, _listed(tx, list_id), decision, wait_s, list_id)
    going = [one for one in all_of_it if not one.refusal]
    if not going:
        raise _nothing_stands(tx, all_of_it, found.name)
    audit_id = _answer(tx, found, act, f"agreed: {WORDS[decision]}, together", ListState.DONE, len(going))
    basis = f"{_basis(list_id, len(going))}, asked for by {found.name}: {found.why}"
    carry_out(tx, going, decision, act, wait_s, basis)
    rows = _rows(all_of_it, waits=False)
    tx.execute(RESULTS, list=list_id, **{name: rows[name] for name in ("ids", "results", "reasons")})
    left = len(all_of_it) - len(going)
    return Shared(list_id, ListState.DONE, audit_id, len(going), left, found.now)


def disagree(tx: Transaction, list_id: int, act: Act) -> int:
    """The request ends and nothing was decided. Who asked withdraws by this. Returns the audit entry."""
    found = _open(tx, list_id, act)
    own = found.requested_by == act.person.id
    state = ListState.WITHDRAWN if own else ListState.DECLINED
    what = f"{'withdrawn' if own else 'disagreed'}: {WORDS[Decision(found.decision)]}, together"
    return _answer(tx, found, act, what, state, 0)


# ── Steps ─────────────────────────────────────────────────────────────────────────────────────────────


def _nothing_stands(tx: Transaction, all_of_it: Sequence[Judged], asked_by: str) -> Declined:
    """A page that was opened just now is not what is stale: no look at it mends what was asked."""
    error = nothing_can_be_done(tx, all_of_it)
    if not isinstance(error, Stale):
        return error
    return NotNow(f"All of them changed since this was asked. Do not agree; {asked_by} must ask again.")


def _must_be_a_list(listed: Sequence[Listed], decision: Decision) -> None:
    if decision is Decision.RESEND_NEW_KEY:
        raise NotNow("A new key is never given to many at once: each may be a second copy. Nothing was done.")
    if not listed:
        raise NotNow("There is nothing on this list. Nothing was done.")
    if len(listed) > LIST_MAX:
        raise NotNow(f"A list holds {LIST_MAX} sends at most. Nothing was done.")


def needs_second(tx: Transaction, person: Person, n: int, above: int) -> str:
    """Why `n` more sends take a second person, after what this one decided in the last hour; empty: they do not."""
    before = tx.one(LAST_HOUR, person=person.id).n
    if before + n <= above:
        return ""
    earlier = f", and {before:,} within the last hour" if before else ""
    return f"these are {n:,} sends{earlier}: together more than {above:,}"


def _list(decision: Decision, act: Act, state: ListState, rows: int, terms: Terms) -> dict[str, Any]:
    return {
        "decision": decision.value,
        "cause": terms.cause,
        "state": state.value,
        "rows": rows,
        "why": act.reason,
        "looked_at": list(act.looked_at),
        "person": act.person.id,
        "second": state is ListState.WAITING,
        "expires_s": terms.expires_s,
    }


def _basis(list_id: int, n: int) -> str:
    return f"one of {n} decided together (list {list_id})"


def _rows(all_of_it: Sequence[Judged], *, waits: bool) -> dict[str, list[Any]]:
    return {
        "ids": [one.listed.action_id for one in all_of_it],
        "versions": [one.listed.seen.version for one in all_of_it],
        "digests": [one.listed.seen.content_digest for one in all_of_it],
        "results": ["waiting" if waits else "left" if one.refusal else "done" for one in all_of_it],
        "reasons": [one.refusal for one in all_of_it],
    }


def _listed(tx: Transaction, list_id: int) -> list[Listed]:
    rows = tx.all(
        """SELECT action_id, seen_version, content_digest FROM nottwice.together_rows
           WHERE together_id = :id AND result = 'waiting' ORDER BY action_id""",
        id=list_id,
    )
    return [Listed(row.action_id, Seen(row.seen_version, bytes(row.content_digest))) for row in rows]


def _open(tx: Transaction, list_id: int, act: Act) -> sa.Row[Any]:
    may_decide(act)
    audit.refuse_second_use(tx, act)
    row = tx.first(
        """SELECT t.*, t.expires_at <= now() AS expired, now() AS now, p.name, d.name AS decided_by_name
           FROM nottwice.together t JOIN nottwice.people p ON p.id = t.requested_by
           LEFT JOIN nottwice.people d ON d.id = t.decided_by WHERE t.id = :id FOR NO KEY UPDATE OF t""",
        id=list_id,
    )
    if row is None:
        raise NotNow("There is nothing here, or you may not see it.")
    if row.decided_by is not None:
        raise first(row.decided_by_name, row.state, row.decided_at)
    if row.state != ListState.WAITING or row.expired:
        raise NotNow("This request has run out. The sends are on the desk.")
    return row


def _answer(tx: Transaction, found: sa.Row[Any], act: Act, what: str, state: ListState, going: int) -> int:
    detail = f"{going} of {found.row_count} sends: {found.cause}" if going else found.cause
    audit_id = audit.done(
        tx,
        act,
        what,
        "together",
        found.id,
        version=found.version + 1,
        before=found.state,
        after=state.value,
        detail=detail,
    )
    tx.one(ANSWER, id=found.id, version=found.version, state=state.value, person=act.person.id)
    return audit_id
