"""The verdict: a table of cases, and every short history against what must hold for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from ledger.records import Attempt, Evidence, OutcomeKind, PointsTo, Policy, Window
from ledger.states import ACTION_TRANSITIONS, FINAL_ACTIONS, ActionState
from ledger.verdict import IN_FLIGHT_MAX, VerdictWord, is_contradicted, key_ends, unsettled, verdict

NOW = datetime(2026, 11, 30, 14, 58, tzinfo=UTC)
DAY = timedelta(days=1)
A, R, N, F, U = (OutcomeKind(k) for k in ("accepted", "refused", "not_sent", "in_flight", "unknown"))
GONE = None  # the worker vanished
KEY, NO_KEY = 86_400.0, None
SENT, NOT_SENT = PointsTo.SENT, PointsTo.NOT_SENT
S = ActionState


def tries(
    *outcomes: OutcomeKind | None, first_ago: timedelta = timedelta(hours=1), account: str = "a"
) -> list[Attempt]:
    return [
        Attempt(
            number,
            account,
            started_at=NOW - first_ago + timedelta(seconds=number),
            answered_at=None
            if outcome is GONE
            else NOW - first_ago + timedelta(seconds=number, milliseconds=300),
            outcome=outcome,
            abandoned=outcome is GONE,
            message_id="<m>" if outcome is A else None,
        )
        for number, outcome in enumerate(outcomes, 1)
    ]


def window(
    key: float | None = KEY, *, over: bool = False, decided: bool = False, moved: bool = False
) -> Window:
    return Window(key, 900.0, NOW - DAY if over else NOW + DAY, decided=decided, moved=moved)


def seen(points_to: PointsTo, *, proof: bool = True, ago: timedelta = timedelta(seconds=5)) -> Evidence:
    return Evidence("look-up", "found", points_to, proof, NOW - ago, "<e>" if points_to is SENT else None)


OLD = timedelta(hours=23, minutes=50)  # past 24 h less 15 min
CASES = [
    # attempts, evidence, window, policy, state, word
    ("never tried", tries(), [], window(), Policy.REVIEW, S.APPROVED, "was_not_sent"),
    ("never tried in time", tries(), [], window(over=True), Policy.REVIEW, S.FAILED, "was_not_sent"),
    ("accepted", tries(A), [], window(), Policy.REVIEW, S.SENT, "was_sent"),
    ("accepted after a doubt", tries(U, A), [], window(NO_KEY), Policy.REVIEW, S.SENT, "was_sent"),
    ("a refusal after an acceptance", tries(A, R), [], window(), Policy.REVIEW, S.SENT, "was_sent"),
    ("refused", tries(R), [], window(), Policy.REVIEW, S.REFUSED, "was_not_sent"),
    ("refused after not sent", tries(N, R), [], window(), Policy.REVIEW, S.REFUSED, "was_not_sent"),
    ("refused after a doubt, key", tries(U, R), [], window(), Policy.REVIEW, S.APPROVED, "safe_to_try_again"),
    ("refused after a doubt, none", tries(U, R), [], window(NO_KEY), Policy.REVIEW, S.NEEDS_REVIEW, "nobody_knows"),
    ("not sent after a doubt", tries(U, N), [], window(NO_KEY), Policy.REVIEW, S.NEEDS_REVIEW, "nobody_knows"),
    ("vanished, key", tries(GONE), [], window(), Policy.REVIEW, S.APPROVED, "safe_to_try_again"),
    ("vanished, none", tries(GONE), [], window(NO_KEY), Policy.REVIEW, S.NEEDS_REVIEW, "nobody_knows"),
    ("key window over", tries(U, first_ago=OLD), [], window(), Policy.REVIEW, S.NEEDS_REVIEW, "nobody_knows"),
    ("in flight", tries(F), [], window(), Policy.REVIEW, S.APPROVED, "safe_to_try_again"),
    ("in flight too often", tries(*[F] * 5), [], window(), Policy.REVIEW, S.NEEDS_REVIEW, "nobody_knows"),
    ("an alarm is not dropped", tries(*[F] * 5), [], window(), Policy.DROP, S.NEEDS_REVIEW, "nobody_knows"),
    ("a person after the alarm", tries(*[F] * 5), [], window(decided=True), Policy.REVIEW, S.APPROVED, "safe_to_try_again"),
    ("not sent", tries(N), [], window(), Policy.REVIEW, S.APPROVED, "was_not_sent"),
    ("not sent, time over", tries(N), [], window(over=True), Policy.REVIEW, S.FAILED, "was_not_sent"),
    ("not sent, key over", tries(N, first_ago=OLD), [], window(), Policy.REVIEW, S.FAILED, "was_not_sent"),
    ("not sent, a person asks", tries(N), [], window(over=True, decided=True), Policy.REVIEW, S.APPROVED, "was_not_sent"),
    ("patience over, key safe", tries(U), [], window(over=True), Policy.REVIEW, S.NEEDS_REVIEW, "safe_to_try_again"),
    ("a person asks, key over", tries(U, first_ago=OLD), [], window(decided=True), Policy.REVIEW, S.NEEDS_REVIEW, "nobody_knows"),
    ("resend, once", tries(U), [], window(NO_KEY), Policy.RESEND, S.APPROVED, "nobody_knows"),
    ("resend, not twice", tries(U, U), [], window(NO_KEY), Policy.RESEND, S.NEEDS_REVIEW, "nobody_knows"),
    ("resend, never past a key", tries(U, first_ago=OLD), [], window(), Policy.RESEND, S.NEEDS_REVIEW, "nobody_knows"),
    ("drop", tries(U), [], window(NO_KEY), Policy.DROP, S.CLOSED, "nobody_knows"),
    ("drop, key safe", tries(U), [], window(), Policy.DROP, S.APPROVED, "safe_to_try_again"),
    ("drop, patience over", tries(U), [], window(over=True), Policy.DROP, S.CLOSED, "safe_to_try_again"),
    ("proof of sent", tries(U), [seen(SENT)], window(NO_KEY), Policy.REVIEW, S.SENT, "was_sent"),
    ("proof of sent beats refused", tries(R), [seen(SENT)], window(), Policy.REVIEW, S.SENT, "was_sent"),
    ("a hint settles nothing", tries(U), [seen(SENT, proof=False)], window(NO_KEY), Policy.REVIEW, S.NEEDS_REVIEW, "nobody_knows"),
    ("proof of not sent", tries(U), [seen(NOT_SENT)], window(NO_KEY), Policy.REVIEW, S.APPROVED, "was_not_sent"),
    ("proof of not sent, refused", tries(U, R), [seen(NOT_SENT)], window(NO_KEY), Policy.REVIEW, S.REFUSED, "was_not_sent"),
    ("proof of not sent, late", tries(U), [seen(NOT_SENT)], window(NO_KEY, over=True), Policy.REVIEW, S.FAILED, "was_not_sent"),
    ("moved, never tried", [], [], window(moved=True), Policy.REVIEW, S.NEEDS_REVIEW, "was_not_sent"),
    ("moved, not sent", tries(N), [], window(moved=True), Policy.REVIEW, S.NEEDS_REVIEW, "was_not_sent"),
    ("moved, decided", tries(N), [], window(moved=True, decided=True), Policy.REVIEW, S.NEEDS_REVIEW, "was_not_sent"),
    ("moved, time over", tries(N), [], window(moved=True, over=True), Policy.REVIEW, S.FAILED, "was_not_sent"),
    ("moved, unknown", tries(U), [], window(moved=True), Policy.REVIEW, S.NEEDS_REVIEW, "nobody_knows"),
    ("moved, keyless, resend", tries(U), [], window(NO_KEY, moved=True), Policy.RESEND, S.NEEDS_REVIEW, "nobody_knows"),
    ("moved, accepted", tries(U, A), [], window(moved=True), Policy.REVIEW, S.SENT, "was_sent"),
    ("moved, refused", tries(R), [], window(moved=True), Policy.REVIEW, S.REFUSED, "was_not_sent"),
    ("proof from before the try", tries(U), [seen(NOT_SENT, ago=2 * DAY)], window(NO_KEY), Policy.REVIEW, S.NEEDS_REVIEW, "nobody_knows"),
]  # fmt: skip


@pytest.mark.parametrize(("attempts", "evidence", "span", "policy", "state", "word"), [c[1:] for c in CASES],
                         ids=[c[0] for c in CASES])  # fmt: skip
def test_table(
    attempts: list[Attempt],
    evidence: list[Evidence],
    span: Window,
    policy: Policy,
    state: ActionState,
    word: str,
) -> None:
    found = verdict(attempts, evidence, span, NOW, policy=policy)
    assert (found.state, found.verdict.value) == (state, word)
    assert found.reasons


def test_two_accounts_share_no_key() -> None:
    attempts = tries(U) + tries(N, account="b")
    assert verdict(attempts, [], window(), NOW).state is S.NEEDS_REVIEW
    assert key_ends(attempts, window()) is None


def test_the_window_counts_from_the_first_start_whatever_came_of_it() -> None:
    attempts = tries(N, U)
    assert verdict(attempts, [], window(), NOW).key_until == attempts[0].started_at + timedelta(
        seconds=KEY - 900
    )


def test_the_key_is_safe_to_its_last_moment_and_no_longer() -> None:
    until = key_ends(tries(U), window())
    assert until is not None
    patient = Window(KEY, 900.0, until + DAY)
    just_before, just_then = until - timedelta(microseconds=1), until
    assert verdict(tries(U), [], patient, just_before).state is S.APPROVED
    assert verdict(tries(U), [], patient, just_then).state is S.NEEDS_REVIEW


def test_a_running_attempt_is_not_judged() -> None:
    running = [Attempt(1, "a", NOW, None, None, abandoned=False)]
    assert verdict(running, [], window(), NOW).state is S.SENDING
    assert verdict(tries(R) + running, [], window(), NOW).state is S.SENDING
    assert verdict(running, [seen(SENT)], window(), NOW).state is S.SENT


def test_reasons_name_the_provider_and_say_times() -> None:
    safe = verdict(tries(U), [], window(), NOW, provider="AgentMail")
    assert (
        safe.reasons[0]
        == "AgentMail keeps a key for 24 h; ours was first used at 13:58:01 UTC. We stop 15 min early."
    )
    old = verdict(tries(U, first_ago=OLD), [], window(), NOW, provider="AgentMail")
    assert old.reasons[1].startswith("The key window is over")
    assert "29 Nov at 15:08:01 UTC" in old.reasons[0]


def test_reasons_carry_nothing_from_outside() -> None:
    hostile = "<script>alert(1)</script>"
    attempts = [
        Attempt(1, hostile, NOW, NOW, U, False, reason=hostile, code=hostile, message_id=None, worker=hostile)
    ]
    evidence = [Evidence(hostile, hostile, SENT, proof, NOW, hostile) for proof in (False, True)]
    for clues in ([], evidence[:1], evidence):
        found = verdict(attempts, clues, window(), NOW, provider="AgentMail")
        assert not any("script" in reason for reason in found.reasons)


def test_too_many_busy_answers_say_how_many() -> None:
    found = verdict(tries(*[F] * IN_FLIGHT_MAX), [], window(), NOW, provider="AgentMail")
    assert "5 times" in found.reasons[1]


def test_a_keyless_acceptance_after_a_doubt_warns_of_two() -> None:
    assert "twice" in verdict(tries(U, A), [], window(NO_KEY), NOW).reasons[-1]
    assert "twice" not in verdict(tries(U, A), [], window(), NOW).reasons[-1]


def test_a_decision_that_proof_contradicts_is_seen() -> None:
    proven, disproven = verdict(tries(U), [seen(SENT)], window(), NOW), verdict(tries(N), [], window(), NOW)
    assert is_contradicted(S.CLOSED, proven)
    assert is_contradicted(S.SENT, disproven)
    assert not is_contradicted(S.SENT, proven)
    assert not is_contradicted(S.CLOSED, disproven)


# ── Every history of up to three attempts ─────────────────────────────────────────────────────────────


def histories() -> Iterator[tuple[OutcomeKind | None, ...]]:
    for length in range(4):
        yield from product((A, R, N, F, U, GONE), repeat=length)


CLUES: Sequence[list[Evidence]] = ([], [seen(SENT, proof=False)], [seen(SENT)], [seen(NOT_SENT)])


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("clues", CLUES, ids=["none", "hint", "sent", "not sent"])
def test_every_short_history(policy: Policy, clues: list[Evidence]) -> None:
    for outcomes, key, old, over, decided in product(histories(), (KEY, NO_KEY), *[(False, True)] * 3):
        attempts = tries(*outcomes, first_ago=OLD if old else timedelta(hours=1))
        found = verdict(attempts, clues, window(key, over=over, decided=decided), NOW, policy=policy)
        open_ = unsettled(attempts, clues)
        protected = key is not None and not old
        proven = A in outcomes or any(c.proof and c.points_to is SENT for c in clues)
        assert (found.state is S.SENT) == proven
        if found.state in (S.REFUSED, S.FAILED):
            assert not open_, "what may have gone out is never called refused or failed"
        if found.state is S.APPROVED and open_ and not protected:
            assert policy is Policy.RESEND and key is None and len(open_) == 1 and found.extra_attempt
        if found.state is S.CLOSED:
            assert policy is Policy.DROP and open_
        assert found.extra_attempt <= (found.state is S.APPROVED)
        assert found.reasons
        assert (found.verdict is VerdictWord.NOBODY_KNOWS) <= bool(open_)
        backwards = verdict(
            attempts[::-1], clues, window(key, over=over, decided=decided), NOW, policy=policy
        )
        assert backwards.state is found.state, "the last answer is worth no more than any other"


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("clues", CLUES, ids=["none", "hint", "sent", "not sent"])
def test_no_short_history_lets_anything_out_too_late(policy: Policy, clues: list[Evidence]) -> None:
    short = [
        outcomes for outcomes in histories() if len(outcomes) < 3
    ]  # a third changes nothing here, and costs six times as much
    for outcomes, key, decided in product(short, (KEY, NO_KEY), (False, True)):
        attempts, before = tries(*outcomes), window(key, decided=decided)
        late = replace(before, send_before=NOW)
        found, in_time = (verdict(attempts, clues, one, NOW, policy=policy) for one in (late, before))
        assert found.state is not S.APPROVED
        assert in_time.state in (found.state, S.APPROVED), (
            "it closes what would be tried, and changes nothing else"
        )
        assert found.verdict is in_time.verdict, "being late makes nobody know more or less"
        if found.state is S.CLOSED and unsettled(attempts, clues):
            assert policy is Policy.DROP
        far = replace(before, send_before=NOW + timedelta(microseconds=1))
        assert verdict(attempts, clues, far, NOW, policy=policy) == in_time


def test_each_state_a_verdict_can_give_is_a_known_transition() -> None:
    steps = {(t.source, t.target) for t in ACTION_TRANSITIONS}
    for state in (S.APPROVED, S.NEEDS_REVIEW, *FINAL_ACTIONS - {S.DECLINED}):
        assert ("sending", state.value) in steps
