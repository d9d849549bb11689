"""Every guard of the action machine is needed: each test here is one that would let through what must not be.

Taken one guard out at a time, these are what noticed. What the row's lock and the CHECKs of sql/0003 already make
impossible (a second look at the version, at the state beside the token) is held twice on purpose.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest
import sqlalchemy as sa

from ledger import actions, workers
from ledger.actions import answers
from ledger.errors import LeaseLost, MayNotStart
from ledger.records import (
    Accepted,
    ActionLease,
    AttemptRef,
    ClaimedAction,
    Evidence,
    KindRules,
    PointsTo,
    Policy,
)
from ledger.states import ActionState
from tests.fix_sends import ACCEPTED, KEYED, KEYLESS, UNKNOWN, Sends

S = ActionState
DROPPED = replace(KEYLESS, policy=Policy.DROP)


def happened(sends: Sends, claimed: ClaimedAction, outcome: str | None, *, ago_s: float = 0.0) -> None:
    """A try that became known between our claim and our start; None: it has no answer and its worker lives."""
    sends.sql(
        """INSERT INTO nottwice.action_attempts (action_id, number, token, worker, account, started_at, answered_at, outcome, message_id)
           SELECT id, 1, gen_random_uuid(), claimed_by, account, now() - make_interval(secs => :ago),
                  CASE WHEN CAST(:outcome AS text) IS NOT NULL THEN now() END, :outcome,
                  CASE WHEN :outcome = 'accepted' THEN '<m>' END
           FROM nottwice.actions WHERE id = :id""",
        id=claimed.lease.action_id,
        outcome=outcome,
        ago=ago_s,
    )


# ── start: the judge ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rules", "outcome", "ago_s", "state"),
    [
        (KEYED, "accepted", 0, S.SENT),
        (KEYLESS, "accepted", 0, S.SENT),
        (KEYED, "refused", 0, S.REFUSED),
        (KEYED, "unknown", 86_400 - 900, S.NEEDS_REVIEW),
        (KEYED, "in_flight", 86_400 - 900, S.NEEDS_REVIEW),
        (KEYLESS, "unknown", 0, S.NEEDS_REVIEW),
        (DROPPED, "unknown", 0, S.CLOSED),
        (KEYED, None, 0, S.SENDING),
    ],
)
def test_no_start_when_the_history_forbids_it(
    sends: Sends, rules: KindRules, outcome: str | None, ago_s: float, state: ActionState
) -> None:
    """Invariant 4: refused when a try is known accepted, and when one is uncertain and no key protects any more."""
    action_id = sends.proposed(rules)
    claimed = sends.claimed()
    happened(sends, claimed, outcome, ago_s=ago_s)
    with pytest.raises(MayNotStart):
        sends.started(claimed)
    assert len(sends.attempts(action_id)) == 1
    assert sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease)) is state


@pytest.mark.parametrize(("outcome", "ago_s"), [("unknown", 86_400 - 960), ("in_flight", 0), ("not_sent", 0)])
def test_a_start_while_the_key_protects(sends: Sends, outcome: str, ago_s: float) -> None:
    """The other side of the same line: one minute before the margin it may go."""
    action_id = sends.proposed(KEYED)
    claimed = sends.claimed()
    happened(sends, claimed, outcome, ago_s=ago_s)
    sends.sql("UPDATE nottwice.actions SET attempts = 1 WHERE id = :id", id=action_id)
    assert sends.started(claimed).action_id == action_id


def test_a_key_is_counted_from_its_first_use(sends: Sends) -> None:
    action_id = sends.proposed()
    sends.tried(action_id, UNKNOWN)
    sends.aged(action_id, 3600)
    first = sends.row(action_id).first_started_at
    sends.tried(action_id, UNKNOWN)
    assert sends.row(action_id).first_started_at == first == sends.attempts(action_id)[0].started_at


def test_no_start_once_the_time_in_which_we_try_is_over(sends: Sends) -> None:
    action_id = sends.proposed()
    claimed = sends.claimed()
    sends.sql("UPDATE nottwice.actions SET retry_until = now() WHERE id = :id", id=action_id)
    with pytest.raises(MayNotStart, match="time in which we try"):
        sends.started(claimed)
    assert sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease)) is S.FAILED


# ── the lease ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_lease_is_as_long_as_asked_and_a_claim_makes_pages_stale(sends: Sends) -> None:
    action_id = sends.proposed()
    before = sends.row(action_id).version
    sends.claimed(lease_s=60)
    row = sends.row(action_id)
    assert (row.lease_until - row.claimed_at).total_seconds() == 60
    assert row.version == before + 1


def test_while_one_worker_tries_an_account_after_its_pause_the_others_do_not(sends: Sends) -> None:
    sends.proposed()
    sends.sql(
        "INSERT INTO nottwice.provider_pauses (account, paused_until, reason) VALUES ('agentmail', now(), 'away')"
    )
    with sends.by_owner.engine.begin() as another:
        another.execute(sa.text("SELECT FROM nottwice.provider_pauses FOR NO KEY UPDATE"))
        assert sends.claim_or_none() is None
    assert sends.claimed()


def test_a_strangers_lease_does_nothing(sends: Sends) -> None:
    action_id = sends.proposed()
    claimed, foreign = sends.claimed(), ActionLease(action_id, uuid4())
    before = sends.row(action_id)
    for deed in (actions.start, actions.hand_back):
        with pytest.raises(LeaseLost) as lost:
            sends.by_worker.run(lambda tx, deed=deed: deed(tx, foreign))  # type: ignore[misc]
        assert lost.type is LeaseLost  # no word that it may not start: a stranger has nothing to hand back
    assert sends.by_worker.run(lambda tx: actions.renew(tx, [foreign], lease_s=600)) == set()
    assert sends.row(action_id) == before
    assert sends.started(claimed)


def test_the_statement_before_a_call_asks_for_the_claim_itself(sends: Sends) -> None:
    """Whatever was looked at ahead of it."""
    action_id = sends.proposed()
    lease = sends.claimed().lease
    values = {"id": action_id, "version": sends.row(action_id).version, "place": ""}
    for token, found in ((uuid4(), False), (lease.token, True)):
        asked = values | {"token": token}
        row = sends.by_worker.run(lambda tx, asked=asked: tx.first(actions.START, **asked))  # type: ignore[misc]
        assert (row is not None) is found
    assert [attempt.token for attempt in sends.attempts(action_id)] == [lease.token]


def test_a_used_claim_is_lost_and_not_handed_back(sends: Sends) -> None:
    action_id = sends.proposed()
    claimed = sends.claimed()
    attempt = sends.started(claimed)
    for deed in (actions.start, actions.hand_back):
        with pytest.raises(LeaseLost) as lost:
            sends.by_worker.run(lambda tx, deed=deed: deed(tx, claimed.lease))  # type: ignore[misc]
        assert lost.type is LeaseLost
    assert sends.state(action_id) is S.SENDING
    assert sends.answered(attempt, ACCEPTED) is S.SENT


# ── answers and evidence ──────────────────────────────────────────────────────────────────────────────


def test_an_answer_belongs_to_its_action(sends: Sends) -> None:
    mine, other = sends.proposed(), sends.proposed()
    attempt = sends.started(sends.claimed())
    with pytest.raises(LeaseLost):
        sends.answered(AttemptRef(attempt.attempt_id, other, attempt.token), Accepted("<x>"))
    assert sends.state(other) is S.APPROVED and sends.attempts(mine)[0].answered_at is None


@pytest.mark.parametrize(
    ("points_to", "proof"), [(PointsTo.SENT, False), (PointsTo.NOT_SENT, False), (PointsTo.NOT_SENT, True)]
)
def test_what_does_not_settle_leaves_a_claim_alone(sends: Sends, points_to: PointsTo, proof: bool) -> None:
    action_id = sends.proposed()
    claimed = sends.claimed()
    found = Evidence("search", "a like one", points_to, proof, sends.row(action_id).claimed_at)
    assert sends.by_worker.run(lambda tx: answers.add_evidence(tx, action_id, found)) is S.SENDING
    assert sends.started(claimed)


# ── the sweep ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_rescue_marks_the_try_of_its_claim_and_no_other(sends: Sends) -> None:
    action_id = sends.proposed()
    sends.tried(action_id, None)
    first = sends.attempts(action_id)[0].abandoned_at
    sends.tried(action_id, UNKNOWN)
    sends.tried(action_id, None)
    one, two, three = sends.attempts(action_id)
    assert one.abandoned_at == first < three.abandoned_at
    assert two.abandoned_at is None


def test_a_row_that_somebody_holds_does_not_hold_up_the_sweep(sends: Sends) -> None:
    held, free = sends.proposed(), sends.proposed()
    for _ in range(2):
        sends.claimed()
    for action_id in (held, free):
        sends.run_out(action_id)
    with sends.by_owner.engine.begin() as another:
        another.execute(
            sa.text("SELECT FROM nottwice.actions WHERE id = :id FOR NO KEY UPDATE"), {"id": held}
        )
        assert [one.id for one in sends.by_worker.run(actions.rescue)] == [free]


def test_one_that_cannot_be_judged_keeps_no_other_from_its_rescue(sends: Sends) -> None:
    """Its values are beyond the calendar: it goes to a person, with why, and all others go where they belong."""
    bad, good = sends.proposed(KEYED), sends.proposed(KEYED)
    for one in (bad, good):
        sends.due_now(one)
        sends.started(sends.claimed())
        sends.run_out(one)
    sends.sql("UPDATE nottwice.actions SET retry_until = 'infinity' WHERE id = :id", id=bad)
    states = {one.id: (one.state, one.trouble) for one in sends.by_worker.run(actions.rescue)}
    assert states == {bad: (ActionState.NEEDS_REVIEW, "DataError"), good: (ActionState.APPROVED, "")}
    assert sends.state(good) is ActionState.APPROVED
    (why,) = sends.rows("SELECT found FROM nottwice.evidence WHERE action_id = :id", id=bad)
    assert why.found.startswith("What is written down of it cannot be judged (DataError)")
    assert sends.by_worker.run(actions.rescue) == []


def test_an_absurd_window_stops_neither_sweep_nor_expiry(sends: Sends) -> None:
    """As a configuration of before could write it."""
    absurd, over = sends.proposed(KEYED), sends.proposed(KEYED)
    for one in (absurd, over):
        sends.tried(one, UNKNOWN)
    sends.sql(
        "UPDATE nottwice.actions SET key_window_s = 1e13, evidence_s = 1e13, retry_until = now() WHERE id = :id",
        id=absurd,
    )
    sends.sql("UPDATE nottwice.actions SET retry_until = now() WHERE id = :id", id=over)
    assert sends.by_worker.run(lambda tx: workers.sweep(tx, sweep_s=5, lease_s=30)) is not None
    moved = {one.id: (one.state, one.trouble) for one in sends.by_worker.run(actions.expire)}
    assert moved == dict.fromkeys((absurd, over), (ActionState.NEEDS_REVIEW, ""))
