"""No two sends are closed under one message number, whoever gives it, also at the same moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread

import pytest
from sqlalchemy.exc import IntegrityError

from ledger import decisions, together
from ledger.actions import answers
from ledger.errors import NotNow
from ledger.evidence.message_ids import meeting_key
from ledger.records import Act, Decision, Evidence, PointsTo
from ledger.records.together import Listed, Terms
from ledger.states import ActionState
from tests.fix_events import WAIT_S
from tests.fix_sends import KEYLESS, Sends

HELD_UP = "SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
NUMBER = "<m-8@provider.example>"
SPELLED = [NUMBER, "m-1@x", " <m-1@x>\r\n", "<>", " < > ", "<<m-2@x>>", "M-1@X\u00a0", "ü" * 500, "ü" * 501, f"<{'é' * 900}>"]  # fmt: skip


def test_the_database_spells_a_number_as_the_code_does(sends: Sends) -> None:
    rows = sends.rows("SELECT one, nottwice.meeting_key(one) AS key FROM unnest(CAST(:a AS text[])) AS one", a=SPELLED)  # fmt: skip
    assert {row.one: row.key for row in rows} == {one: meeting_key(one) for one in SPELLED}


def hinted(sends: Sends, message_id: str = NUMBER) -> int:
    action_id = sends.uncertain(KEYLESS)
    now = sends.rows("SELECT now() AS at")[0].at
    hint = Evidence("notice", "to the same recipient", PointsTo.SENT, False, now, message_id)
    sends.by_worker.run(lambda tx: answers.add_evidence(tx, action_id, hint))
    return action_id


def asked(sends: Sends, action_id: int) -> int:
    """A list of one send for which a second person is waited; its number."""
    act, terms = sends.act(sends.person("Ann")), Terms("one cause", second_person_above=0)
    shown = [Listed(action_id, sends.seen(action_id))]
    return sends.decide(act, lambda tx: together.decide(tx, shown, Decision.WAS_SENT, act, terms)).id


def agree(sends: Sends, list_id: int, act: Act) -> None:
    sends.decide(act, lambda tx: together.agree(tx, list_id, act))


def close(sends: Sends, action_id: int, act: Act) -> None:
    seen = sends.seen(action_id)
    sends.decide(
        act, lambda tx: decisions.settle(tx, action_id, seen, Decision.WAS_SENT, act, message_id="m-8@provider.example")
    )  # fmt: skip


def while_one_is_open(sends: Sends, list_id: int, act: Act, other: Callable[[], None]) -> list[Exception]:
    """Agree to a list, and before that is committed begin `other` on a connection of its own; what `other` raised."""
    raised: list[Exception] = []

    def caught() -> None:
        try:
            other()
        except NotNow as error:
            raised.append(error)

    beside = Thread(target=caught)
    with sends.by_console.transaction(act.person.role) as tx:
        together.agree(tx, list_id, act)
        beside.start()
        until = time.monotonic() + WAIT_S
        while beside.is_alive() and tx.first(HELD_UP) is None and time.monotonic() < until:
            time.sleep(0.002)
    beside.join(WAIT_S)
    assert not beside.is_alive()
    return raised


def test_a_list_is_not_agreed_to_once_another_send_may_be_the_message(sends: Sends) -> None:
    first = hinted(sends)
    listed, act = asked(sends, first), sends.act(sends.person("Bo"))
    second = hinted(sends, "m-8@provider.example")
    with pytest.raises(NotNow, match="the message of another send as well"):
        agree(sends, listed, act)
    with pytest.raises(NotNow, match="the message of another send as well"):
        asked(sends, second)
    assert [sends.state(one) for one in (first, second)] == [ActionState.NEEDS_REVIEW] * 2


def test_a_number_given_by_hand_at_the_moment_of_a_list_is_refused(sends: Sends) -> None:
    first, second = hinted(sends), sends.uncertain(KEYLESS)
    listed, act = asked(sends, first), sends.act(sends.person("Cy"))
    (error,) = while_one_is_open(
        sends, listed, sends.act(sends.person("Bo")), lambda: close(sends, second, act)
    )
    assert f"known as send {first}'s" in str(error)
    assert sends.state(second) is ActionState.NEEDS_REVIEW


def test_the_database_gives_no_number_twice_whoever_writes_it(sends: Sends) -> None:
    first, second = hinted(sends), hinted(sends)
    close(sends, first, sends.act(sends.person("Bo")))
    sql = """UPDATE nottwice.actions SET state = 'sent', settled_at = now(), review_since = NULL,
                    message_id = ' <<m-8@provider.example> ' WHERE id = :id"""
    with pytest.raises(IntegrityError, match="one_send_a_number"):
        sends.sql(sql, id=second)
    act = sends.act(sends.person("Cy"))
    with pytest.raises(NotNow, match=f"known as send {first}'s"):
        close(sends, second, act)
