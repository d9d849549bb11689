"""Accounts that are held: one try at a time after a pause, one alert a pause, and what new settings open again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
import sqlalchemy as sa

from ledger.accounts import pauses
from ledger.records import NotSent, Unknown, Worker
from tests.fix_sandbox import until
from tests.fix_sends import ACCEPTED, KEYED, KEYLESS, Sends
from tests.ledger.test_actions_races import race

ROUNDS = 8
LIMITED = NotSent("limited", "429", pauses=True)
KEY_REFUSED = NotSent("bad key", "401", pauses=True, by_settings=True)


def over(sends: Sends, ago_s: float = 0.0) -> None:
    sends.sql("UPDATE nottwice.provider_pauses SET paused_until = now() - make_interval(secs => :s)", s=ago_s)


def left_s(sends: Sends) -> float:
    (row,) = sends.rows(
        "SELECT CAST(extract(epoch FROM paused_until - now()) AS float8) AS s FROM nottwice.provider_pauses"
    )
    return float(row.s)


def test_after_a_pause_one_of_many_workers_tries(sends: Sends) -> None:
    workers = [Worker(uuid4(), name) for name in "abcd"]
    sends.tried(sends.proposed(), LIMITED)
    for _ in range(3):
        sends.proposed()
    for _ in range(ROUNDS):
        over(sends)
        got = race(*[lambda w=w: sends.claim_or_none(worker=w) for w in workers])  # type: ignore[misc]
        (claimed,) = [one for one in got if one is not None]
        assert sends.claim_or_none() is None, "while it is under way, nobody else does"
        sends.answered(sends.started(claimed), LIMITED)  # type: ignore[arg-type]
    (row,) = sends.rows("SELECT probes FROM nottwice.provider_pauses")
    assert row.probes == ROUNDS


SLOW_LOOK = """
CREATE OR REPLACE FUNCTION nottwice.account_is_open(wanted text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN true; END $$
"""


def test_a_worker_whose_look_is_older_than_anothers_try_does_not_try_as_well(sends: Sends) -> None:
    """It saw the world before the other one claimed, and gets the pause's row after that was committed."""
    sends.tried(sends.proposed(), LIMITED)
    over(sends)
    sends.sql(SLOW_LOOK)
    with sends.by_owner.engine.connect() as gate, ThreadPoolExecutor(1) as beside:
        gate.execute(sa.text("SELECT pg_advisory_lock(42)"))
        late = beside.submit(sends.claim_or_none)
        until(lambda: sends.rows("SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"), 20)
        sends.sql("UPDATE nottwice.provider_pauses SET probes = probes + 1")  # what a claim leaves there
        gate.execute(sa.text("SELECT pg_advisory_unlock(42)"))
        assert late.result(40) is None
    assert sends.claim_or_none() is not None


def test_each_pause_is_announced_once_and_the_next_series_again(sends: Sends) -> None:
    def announced() -> pauses.Pause | None:
        return sends.by_worker.run(lambda tx: pauses.announced(tx, "agentmail"))

    action_id = sends.proposed()
    assert announced() is None
    sends.tried(action_id, LIMITED)
    first = announced()
    assert first is not None and (first.account, first.reason) == ("agentmail", "limited")
    assert announced() is None
    over(sends)
    sends.tried(action_id, LIMITED)
    assert announced() is None, "the try that failed again is the same pause"
    over(sends)
    sends.tried(action_id, ACCEPTED)
    sends.tried(sends.proposed(), LIMITED)
    assert announced() is not None


def test_a_pause_that_nobody_came_back_to_is_not_the_beginning_of_the_next(sends: Sends) -> None:
    sends.tried(sends.proposed(), LIMITED)
    sends.by_worker.run(lambda tx: pauses.announced(tx, "agentmail"))
    sends.sql("UPDATE nottwice.provider_pauses SET since = now() - interval '1 day'")
    over(sends, ago_s=pauses.FORGOTTEN_S + 5)
    sends.tried(sends.proposed(), LIMITED)
    assert 0 < left_s(sends) <= 30
    (row,) = sends.rows(
        "SELECT told, since = paused_until - interval '30 s' AS anew FROM nottwice.provider_pauses"
    )
    assert (row.told, row.anew) == (False, True)


def test_three_doubts_hold_a_keyless_account_and_one_send_finds_out(sends: Sends) -> None:
    for _ in range(3):
        sends.tried(sends.proposed(KEYLESS), Unknown("silence"))
    for _ in range(3):
        sends.proposed(KEYLESS)
    assert sends.claim_or_none() is None
    over(sends)
    probe = sends.claimed("inboxili")
    assert sends.claim_or_none() is None
    sends.answered(sends.started(probe), Unknown("silence"))
    assert left_s(sends) > 0, "still silent: held again"
    over(sends)
    sends.answered(sends.started(sends.claimed("inboxili")), ACCEPTED)
    assert sends.rows("SELECT FROM nottwice.provider_pauses") == []


@pytest.mark.parametrize(
    ("outcome", "changed", "opens"),
    [
        (KEY_REFUSED, [], True),
        (LIMITED, [], False),  # what the provider asked for is kept
        (LIMITED, ["agentmail"], True),  # the same name is another place now
        (LIMITED, ["inboxili"], False),
    ],
)
def test_new_settings_open_what_they_may_have_mended(
    sends: Sends, outcome: NotSent, changed: list[str], opens: bool
) -> None:
    sends.tried(sends.proposed(KEYED), outcome)
    found = sends.by_worker.run(lambda tx: pauses.reopen(tx, ["agentmail", "inboxili"], changed))
    assert found == (["agentmail"] if opens else [])
    assert (left_s(sends) <= 0) == opens
    assert (sends.claim_or_none() is not None) == opens
