"""Races, each of fifty rounds behind a barrier, on the connections of two processes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import pytest

from ledger import actions, decisions
from ledger.actions import answers
from ledger.errors import AlreadyDecided, LeaseLost
from ledger.records import (
    Accepted,
    Act,
    AttemptRef,
    ClaimedAction,
    Decision,
    Email,
    Proposal,
    Proposed,
    Rescued,
    Seen,
    Settled,
    Worker,
)
from ledger.states import ActionState
from tests.fix_sends import KEYED, KEYLESS, Sends

ROUNDS = 50
S = ActionState


def race(*runners: Callable[[], object]) -> list[object]:
    """All at once; what each returned, or the ledger's error it raised."""
    gate = Barrier(len(runners))

    def run(body: Callable[[], object]) -> object:
        gate.wait(40)
        try:
            return body()
        except (LeaseLost, AlreadyDecided) as error:
            return error

    with ThreadPoolExecutor(len(runners)) as pool:
        return list(pool.map(run, runners))


def test_two_workers_claim_one_action(sends: Sends) -> None:
    workers = [Worker(uuid4(), name) for name in "ab"]
    for _ in range(ROUNDS):
        action_id = sends.proposed()
        got = race(*[lambda w=w: sends.claim_or_none(worker=w) for w in workers])  # type: ignore[misc]
        (claimed,) = [one for one in got if one is not None]
        assert isinstance(claimed, ClaimedAction)
        assert claimed.lease.action_id == action_id


def test_start_against_the_sweep(sends: Sends) -> None:
    """Whoever wins: a call that may be made has its attempt, and a claim taken back can no longer call."""
    seen = set()
    for n in range(ROUNDS):
        action_id = sends.proposed(KEYLESS)
        claimed = sends.claimed()
        sends.sql("UPDATE nottwice.actions SET lease_until = clock_timestamp() + make_interval(secs => :s) WHERE id = :id",
                  id=action_id, s=0.001 + 0.0002 * n)  # fmt: skip
        started, rescued = race(lambda: sends.started(claimed), lambda: swept(sends))  # noqa: B023
        attempts = sends.attempts(action_id)
        if isinstance(started, AttemptRef):
            assert [a.id for a in attempts] == [started.attempt_id]
        else:
            assert isinstance(started, LeaseLost)
            assert attempts == []
        sends.run_out(action_id)
        sends.by_worker.run(actions.rescue)
        assert sends.state(action_id) is (S.NEEDS_REVIEW if attempts else S.APPROVED)
        seen.add((isinstance(started, AttemptRef), bool(rescued)))
        sends.sql("DELETE FROM nottwice.provider_pauses")
        sends.sql(
            "UPDATE nottwice.actions SET state = 'closed', due_at = NULL, review_since = NULL, settled_at = now()"
        )
    assert len({won for won, _ in seen}) == 2, f"one side always won: {seen}"


def swept(sends: Sends) -> list[Rescued]:
    """The sweep, again and again for a few milliseconds, as the lease ends."""
    deadline = time.monotonic() + 0.012
    while not (rescued := sends.by_worker.run(actions.rescue)) and time.monotonic() < deadline:
        pass
    return rescued


def test_a_late_acceptance_against_a_new_claim(sends: Sends) -> None:
    """No call starts after the acceptance is on record, and the acceptance is never lost."""
    for n in range(ROUNDS):
        action_id = sends.proposed(KEYED)
        late = sends.tried(action_id, None)
        sends.due_now(action_id)

        def go_on() -> object:
            time.sleep(random.uniform(0, 0.004))
            claimed = sends.claim_or_none()
            return claimed and sends.started(claimed)

        told, started = race(lambda: sends.answered(late, Accepted(f"<{n}>")), go_on)  # noqa: B023
        assert told is S.SENT
        assert sends.row(action_id).message_id == f"<{n}>"
        assert sends.state(action_id) is S.SENT
        first, *more = sends.attempts(action_id)
        assert len(more) == isinstance(started, AttemptRef)
        assert all(a.started_at < first.answered_at for a in more)


def test_one_answer_recorded_by_two(sends: Sends) -> None:
    for n in range(ROUNDS):
        sends.proposed()
        attempt = sends.started(sends.claimed())
        got = race(*[lambda: sends.answered(attempt, Accepted(f"<{n}>"))] * 2)  # noqa: B023
        assert sorted(type(one) is LeaseLost for one in got) == [False, True]


def test_webhook_against_record(sends: Sends) -> None:
    """Whoever comes first: the second one finds the other under the message."""
    for n in range(ROUNDS):
        action_id, message = sends.proposed(), f"<{n}@provider.example>"
        attempt = sends.started(sends.claimed())

        def webhook() -> int | None:
            def body(tx: object) -> int | None:
                return answers.meet(tx, "agentmail", message, None)  # type: ignore[arg-type] # noqa: B023

            return sends.by_worker.run(body)

        race(lambda: sends.answered(attempt, Accepted(message)), webhook)  # noqa: B023
        assert webhook() == action_id


@pytest.mark.parametrize("other", [Decision.DO_NOT_SEND, Decision.RESEND_SAME_KEY])
def test_ui_07_two_opposite_decisions(sends: Sends, other: Decision) -> None:
    ann, bo = sends.person("Ann"), sends.person("Bo")
    for _ in range(ROUNDS // 2):
        action_id = sends.uncertain(KEYED)
        seen = sends.seen(action_id)

        def decide(act: Act, decision: Decision) -> Settled:
            return sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, decision, act))  # noqa: B023

        acts = [(sends.act(ann), Decision.WAS_SENT), (sends.act(bo), other)]
        got = race(*[lambda a=a, d=d: decide(a, d) for a, d in acts])  # type: ignore[misc]
        (won,), (lost,) = (
            [one for one in got if isinstance(one, kind)] for kind in (Settled, AlreadyDecided)
        )
        winner = acts[got.index(won)]
        assert isinstance(lost, AlreadyDecided)
        assert (lost.who, lost.what) == (winner[0].person.name, decisions.WORDS[winner[1]])
        (entry,) = sends.audit(action_id)
        assert (lost.at, entry.person_id) == (entry.at, winner[0].person.id)


def test_ui_05_the_same_form_twice_at_once(sends: Sends) -> None:
    ann = sends.person("Ann")
    for _ in range(ROUNDS):
        action_id = sends.uncertain()
        act, seen = sends.act(ann), sends.seen(action_id)

        def click(act: Act = act, action_id: int = action_id, seen: Seen = seen) -> Settled:
            return sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.WAS_SENT, act))

        got = race(click, click)
        (twin,) = [one for one in got if isinstance(one, AlreadyDecided)]
        assert twin.same_form
        assert len(sends.audit(action_id)) == 1


def test_snd_16_two_roads_to_one_reply(sends: Sends) -> None:
    """Two texts for one key: one row, one text, and the loser is given the row that stands."""
    for n in range(ROUNDS):

        def propose(text: str) -> Proposed:
            email = Email(("ann@example.com",), "Re: hello", text)
            proposal = Proposal("acme", f"reply:{n}", KEYED, email.content(), email.to)  # noqa: B023
            return sends.by_worker.run(lambda tx: actions.propose(tx, proposal))

        first, second = race(lambda: propose("one"), lambda: propose("two"))
        assert isinstance(first, Proposed)
        assert isinstance(second, Proposed)
        assert first.action_id == second.action_id
        assert sorted([first.created, second.created]) == [False, True]
        winner = "one" if first.created else "two"
        claimed = sends.claimed()
        assert f'"text":"{winner}"'.encode() in claimed.content
