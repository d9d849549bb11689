"""Answers and observations: written once to their own attempt, whoever holds the action by then."""

from __future__ import annotations

from uuid import uuid4

import pytest

from ledger import actions
from ledger.actions import answers
from ledger.database import Transaction
from ledger.errors import LeaseLost, MayNotStart
from ledger.records import (
    Accepted,
    AttemptRef,
    Evidence,
    InFlight,
    KindRules,
    NotSent,
    PointsTo,
    Refused,
    Unknown,
)
from ledger.states import ActionState
from tests.fix_sends import ACCEPTED, KEYED, KEYLESS, UNKNOWN, Sends

S = ActionState


def counted(sends: Sends) -> dict[str, int]:
    rows = sends.rows("SELECT metric, sum(n) AS n FROM nottwice.counters GROUP BY metric")
    return {row.metric: int(row.n) for row in rows}


WAITS = "SELECT extract(epoch FROM due_at - now()) AS s FROM nottwice.actions WHERE id = :id"
PAUSE = "SELECT extract(epoch FROM paused_until - now()) AS s FROM nottwice.provider_pauses WHERE account = 'agentmail'"
AS_LONG_AGAIN = (
    "SELECT extract(epoch FROM paused_until - now() - (now() - since)) AS s FROM nottwice.provider_pauses"
)


def told_s(sends: Sends, outcome: answers.Outcome, sql: str = WAITS, *, chance: float = 0.5) -> float:
    """The next send is tried; how long it, or its account, waits at the moment of its answer, to the microsecond."""
    attempt = sends.started(sends.claimed())

    def answered(tx: Transaction) -> float:
        answers.record_answer(tx, attempt, outcome, chance=chance, writer=sends.writer)
        return float(tx.one(sql, **({"id": attempt.action_id} if sql is WAITS else {})).s)

    return sends.by_worker.run(answered)


def proof(points_to: PointsTo, sends: Sends, *, is_proof: bool = True) -> Evidence:
    now = sends.rows("SELECT now() AS now")[0].now
    return Evidence("look-up", "failed", points_to, is_proof, now, None)


# ── Once, and then the whole history ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rules", "outcome", "state", "metric"),
    [
        (KEYED, ACCEPTED, S.SENT, "sent"),
        (KEYED, Refused("no"), S.REFUSED, "refused"),
        (KEYED, NotSent("no"), S.APPROVED, "not_sent"),
        (KEYED, InFlight("busy", "409"), S.APPROVED, "in_flight"),
        (KEYED, Unknown("?"), S.APPROVED, "unknown"),
        (KEYLESS, Unknown("?"), S.NEEDS_REVIEW, "unknown"),
    ],
)
def test_each_outcome_has_its_place(
    sends: Sends, rules: KindRules, outcome: answers.Outcome, state: ActionState, metric: str
) -> None:
    action_id = sends.proposed(rules)
    sends.tried(action_id, outcome)
    assert sends.state(action_id) is state
    assert counted(sends) == {metric: 1}


def test_an_answer_is_written_once(sends: Sends) -> None:
    action_id = sends.proposed()
    attempt = sends.started(sends.claimed())
    sends.answered(attempt, ACCEPTED)
    with pytest.raises(LeaseLost, match="has its answer"):
        sends.answered(attempt, Refused("no"))
    assert sends.attempts(action_id)[0].outcome == "accepted"
    assert sends.state(action_id) is S.SENT
    assert counted(sends) == {"sent": 1}


def test_an_answer_needs_the_token_of_its_attempt(sends: Sends) -> None:
    action_id = sends.proposed()
    attempt = sends.started(sends.claimed())
    with pytest.raises(LeaseLost):
        sends.answered(AttemptRef(attempt.attempt_id, action_id, uuid4()), ACCEPTED)
    assert sends.state(action_id) is S.SENDING


def test_a_refusal_after_a_doubt_does_not_settle(sends: Sends) -> None:
    action_id = sends.proposed(KEYED)
    sends.tried(action_id, UNKNOWN)
    sends.tried(action_id, Refused("blocked", "403"))
    assert sends.state(action_id) is S.APPROVED


def test_a_key_that_is_always_busy_goes_to_a_person(sends: Sends) -> None:
    action_id = sends.proposed()
    for _ in range(5):
        assert sends.state(action_id) is S.APPROVED
        sends.tried(action_id, InFlight("conflict", "409"))
    assert sends.state(action_id) is S.NEEDS_REVIEW
    assert sends.claim_or_none() is None


def test_the_providers_words_are_stored_whatever_they_are(sends: Sends) -> None:
    action_id = sends.proposed()
    sends.tried(action_id, Refused("\x00\ud800" + "x" * 5000, "c" * 500))
    (row,) = sends.attempts(action_id)
    assert (len(row.reason), len(row.code)) == (2000, 200)


# ── Late answers ──────────────────────────────────────────────────────────────────────────────────────


def test_a_late_acceptance_settles_what_a_rescue_left(sends: Sends) -> None:
    action_id = sends.proposed(KEYLESS)
    attempt = sends.tried(action_id, None)
    assert sends.state(action_id) is S.NEEDS_REVIEW
    assert sends.answered(attempt, ACCEPTED) is S.SENT
    assert counted(sends) == {"sent": 1, "late_answer": 1}
    assert sends.row(action_id).message_id == ACCEPTED.message_id


def test_a_late_acceptance_ends_a_new_claim(sends: Sends) -> None:
    action_id = sends.proposed(KEYED)
    attempt = sends.tried(action_id, None)
    sends.due_now(action_id)
    second = sends.claimed()
    assert sends.answered(attempt, ACCEPTED) is S.SENT
    with pytest.raises(LeaseLost):
        sends.started(second)


def test_a_late_acceptance_while_the_next_call_runs(sends: Sends) -> None:
    action_id = sends.proposed(KEYED)
    first = sends.tried(action_id, None)
    sends.due_now(action_id)
    second = sends.started(sends.claimed())
    assert sends.answered(first, ACCEPTED) is S.SENT
    assert sends.answered(second, UNKNOWN) is S.SENT
    assert [a.outcome for a in sends.attempts(action_id)] == ["accepted", "unknown"]


def test_a_late_refusal_leaves_a_living_claim_alone(sends: Sends) -> None:
    action_id = sends.proposed(KEYED)
    first = sends.tried(action_id, None)
    sends.due_now(action_id)
    claimed = sends.claimed()
    assert sends.answered(first, Refused("no")) is S.SENDING
    with pytest.raises(MayNotStart, match="refused"):
        sends.started(claimed)
    assert sends.by_worker.run(lambda tx: actions.hand_back(tx, claimed.lease)) is S.REFUSED


def test_a_late_refusal_settles_nothing_but_its_own_try(sends: Sends) -> None:
    """Another try that nobody knows about may have gone out all the same."""
    action_id = sends.proposed(KEYED)
    first, _ = sends.tried(action_id, None), sends.tried(action_id, UNKNOWN)
    assert sends.answered(first, Refused("no")) is S.APPROVED
    assert [a.outcome for a in sends.attempts(action_id)] == ["refused", "unknown"]


@pytest.mark.parametrize(("outcome", "state"), [(Refused("no"), S.REFUSED), (NotSent("no"), S.NEEDS_REVIEW)])
def test_a_late_fact_on_the_desk(sends: Sends, outcome: answers.Outcome, state: ActionState) -> None:
    action_id = sends.proposed(KEYLESS)
    attempt = sends.tried(action_id, None)
    version = sends.row(action_id).version
    assert sends.answered(attempt, outcome) is state
    row = sends.row(action_id)
    assert row.verdict == "was_not_sent"
    assert row.version > version, "the page that was drawn before it is stale"


# ── Waiting ───────────────────────────────────────────────────────────────────────────────────────────


def test_backoff_grows_over_the_whole_interval_up_to_ten_minutes(sends: Sends) -> None:
    action_id = sends.proposed()
    for n, ceiling in enumerate((4, 8, 16, 32), 1):
        sends.due_now(action_id)
        assert told_s(sends, NotSent("no"), chance=0.0) == ceiling
        assert sends.row(action_id).failures == n
    sends.sql("UPDATE nottwice.actions SET failures = 60")
    sends.due_now(action_id)
    assert told_s(sends, NotSent("no"), chance=0.0) == 600


@pytest.mark.parametrize(("asked", "kept_s"), [(90.0, 90), (1e12, 600), (-5.0, 2), (0.0, 2), (None, 2)])
def test_snd_08_a_providers_wish_is_kept_within_bounds(
    sends: Sends, asked: float | None, kept_s: float
) -> None:
    sends.proposed()
    assert told_s(sends, NotSent("later", "429", retry_after_s=asked)) == kept_s


@pytest.mark.parametrize(("asked", "kept_s"), [(45.0, 45), (1e12, 600), (-5.0, 30), (None, 30)])
def test_a_pause_is_bounded(sends: Sends, asked: float | None, kept_s: float) -> None:
    sends.proposed()
    assert told_s(sends, NotSent("later", "429", retry_after_s=asked, pauses=True), PAUSE) == kept_s


def test_a_pause_holds_the_account_and_not_the_action(sends: Sends) -> None:
    action_id = sends.proposed()
    assert told_s(sends, NotSent("bad key", "401", pauses=True)) <= 0
    assert sends.row(action_id).failures == 0
    assert sends.claim_or_none() is None


def test_each_further_pause_is_longer_until_a_call_succeeds(sends: Sends) -> None:
    action_id = sends.proposed()
    sends.tried(action_id, NotSent("refused", pauses=True))
    for lasted_s in (60, 240):
        sends.sql(
            "UPDATE nottwice.provider_pauses SET paused_until = now(), since = now() - make_interval(secs => :s)",
            s=lasted_s,
        )
        sends.due_now(action_id)
        assert told_s(sends, NotSent("refused", pauses=True), AS_LONG_AGAIN) == 0
    sends.sql("UPDATE nottwice.provider_pauses SET paused_until = now()")
    sends.tried(action_id, ACCEPTED)
    assert sends.rows("SELECT FROM nottwice.provider_pauses") == []


def test_a_longer_pause_is_never_shortened(sends: Sends) -> None:
    first, second = sends.proposed(), sends.proposed()
    one, two = sends.started(sends.claimed()), sends.started(sends.claimed())
    sends.answered(one, NotSent("later", retry_after_s=500, pauses=True))
    sends.answered(two, NotSent("later", retry_after_s=5, pauses=True))
    (pause,) = sends.rows(
        "SELECT paused_until - since >= interval '490 s' AS stands FROM nottwice.provider_pauses"
    )
    assert pause.stands
    assert {one.action_id, two.action_id} == {first, second}


def test_three_doubts_in_a_row_hold_an_account_without_keys(sends: Sends) -> None:
    outcomes = [UNKNOWN, UNKNOWN, ACCEPTED, UNKNOWN, UNKNOWN]
    for outcome in outcomes:
        sends.tried(sends.proposed(KEYLESS), outcome)
    assert sends.rows("SELECT FROM nottwice.provider_pauses") == []
    sends.tried(sends.proposed(KEYLESS), UNKNOWN)
    (pause,) = sends.rows("SELECT * FROM nottwice.provider_pauses")
    assert pause.account == "inboxili"
    assert sends.proposed(KEYLESS)
    assert sends.claim_or_none() is None


def test_doubts_do_not_hold_an_account_with_keys(sends: Sends) -> None:
    action_id = sends.proposed(KEYED)
    for _ in range(4):
        sends.tried(action_id, UNKNOWN)
    assert sends.rows("SELECT FROM nottwice.provider_pauses") == []


# ── Evidence ──────────────────────────────────────────────────────────────────────────────────────────


def test_proof_of_sending_settles_whoever_holds_it(sends: Sends) -> None:
    action_id = sends.proposed()
    claimed = sends.claimed()
    seen = proof(PointsTo.SENT, sends)
    assert sends.by_worker.run(lambda tx: answers.add_evidence(tx, action_id, seen)) is S.SENT
    with pytest.raises(LeaseLost):
        sends.started(claimed)


def test_a_hint_settles_nothing_but_makes_the_page_stale(sends: Sends) -> None:
    action_id = sends.uncertain()
    version = sends.row(action_id).version
    hint = proof(PointsTo.SENT, sends, is_proof=False)
    assert sends.by_worker.run(lambda tx: answers.add_evidence(tx, action_id, hint)) is S.NEEDS_REVIEW
    assert sends.row(action_id).version == version + 1


def test_proof_of_not_sending_on_the_desk_is_said_and_left_to_the_person(sends: Sends) -> None:
    action_id = sends.uncertain()
    seen = proof(PointsTo.NOT_SENT, sends)
    assert sends.by_worker.run(lambda tx: answers.add_evidence(tx, action_id, seen)) is S.NEEDS_REVIEW
    assert sends.row(action_id).verdict == "was_not_sent"
    assert sends.claim_or_none() is None


def test_proof_during_a_call_waits_for_its_answer(sends: Sends) -> None:
    action_id = sends.proposed()
    attempt = sends.started(sends.claimed())
    seen = proof(PointsTo.NOT_SENT, sends)
    assert sends.by_worker.run(lambda tx: answers.add_evidence(tx, action_id, seen)) is S.SENDING
    assert sends.answered(attempt, ACCEPTED) is S.SENT


def test_webhook_and_record_meet_on_one_row(sends: Sends) -> None:
    action_id = sends.proposed()
    attempt = sends.started(sends.claimed())
    message = Accepted("<early@provider.example>")
    meet = answers.meet
    assert sends.by_worker.run(lambda tx: meet(tx, "agentmail", message.message_id, None)) is None
    sends.answered(attempt, message)
    assert sends.by_worker.run(lambda tx: meet(tx, "agentmail", message.message_id, None)) == action_id
    assert sends.by_worker.run(lambda tx: meet(tx, "other", message.message_id, None)) is None
