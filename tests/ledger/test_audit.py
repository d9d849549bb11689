"""The record: no change without its row, no row without its change, and a chain that shows what was touched."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import audit, decisions
from ledger.errors import Incomplete, NotAllowed
from ledger.kept import reveals
from ledger.records import Act, Decision, Role, canonical_json
from ledger.states import ActionState
from tests.fix_sends import EMAIL, KEYED, TO_APPROVE, Sends

S = ActionState
PEOPLE = ", ".join(f"nottwice_{role.value}" for role in Role)
Attempted = Callable[[Sends, Act], object]


def closes(sends: Sends, act: Act) -> object:
    action_id = sends.uncertain()
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.DO_NOT_SEND, act))


def resends(sends: Sends, act: Act) -> object:
    action_id = sends.uncertain(KEYED)
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.RESEND_SAME_KEY, act))


def approves(sends: Sends, act: Act) -> object:
    action_id = sends.proposed(TO_APPROVE)
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.approve(tx, action_id, seen, act))


def declines(sends: Sends, act: Act) -> object:
    action_id = sends.proposed(TO_APPROVE)
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.decline(tx, action_id, seen, act))


def asks(sends: Sends, act: Act) -> object:
    action_id = sends.uncertain()
    seen = sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.ask_new_key(tx, action_id, seen, act))


def reads(sends: Sends, act: Act) -> object:
    return reveals.reveal(sends.by_console, "action", sends.proposed(), act)


ATTEMPTED: tuple[Attempted, ...] = (closes, resends, approves, declines, asks, reads)


def standing(sends: Sends) -> tuple[list[str], int, int]:
    """The states of all actions that no process moves, and how many requests and audit rows there are."""
    states = sends.rows("SELECT state FROM nottwice.actions ORDER BY id")
    counts = sends.rows(
        "SELECT (SELECT count(*) FROM nottwice.requests) AS r, (SELECT count(*) FROM nottwice.audit) AS a"
    )[0]
    return [row.state for row in states], counts.r, counts.a


@pytest.mark.parametrize("attempted", ATTEMPTED)
def test_aud_01_no_act_without_its_audit_row(sends: Sends, attempted: Attempted) -> None:
    ann = sends.person("Ann")
    sends.sql(f"REVOKE INSERT ON nottwice.audit FROM {PEOPLE}")
    with pytest.raises(DBAPIError, match="permission denied for table audit"):
        attempted(sends, sends.act(ann))
    states, requests, entries = standing(sends)
    assert set(states) <= {S.NEEDS_REVIEW, S.PROPOSED, S.APPROVED}
    assert (requests, entries) == (0, 0)
    sends.sql(f"GRANT INSERT ON nottwice.audit TO {PEOPLE}")
    attempted(sends, sends.act(ann))
    assert standing(sends)[2] == 1


def test_an_entry_cannot_be_changed_or_removed(sends: Sends) -> None:
    closes(sends, sends.act(sends.person("Ann")))
    for sql in ("UPDATE nottwice.audit SET why = 'other'", "DELETE FROM nottwice.audit"):
        with pytest.raises(DBAPIError, match="never changed"):
            sends.sql(sql)


# ── Reveal ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_is_shown_behind_its_entry(sends: Sends) -> None:
    action_id, act = sends.proposed(), sends.act(sends.person("Ann"))
    assert reveals.reveal(sends.by_console, "action", action_id, act) == canonical_json(EMAIL.content())
    (entry,) = sends.audit(action_id)
    assert (entry.act, entry.outcome, entry.entity_version) == ("reveal", "done", None)


def test_a_reveal_needs_an_entry_that_was_committed_before(sends: Sends) -> None:
    action_id, act = sends.proposed(), sends.act(sends.person("Ann"))

    def at_once(tx: audit.Transaction) -> None:
        entry = audit.done(tx, act, "reveal", "action", action_id, version=None, before=None, after=None)
        tx.execute("SELECT nottwice.reveal(:id)", id=entry)

    with pytest.raises(DBAPIError, match="nothing is shown"):
        sends.decide(act, at_once)
    assert sends.audit(action_id) == []


def test_a_reveal_is_of_the_role_that_asked(sends: Sends) -> None:
    action_id, act = sends.proposed(), sends.act(sends.person("Ann"))
    reveals.reveal(sends.by_console, "action", action_id, act)
    (entry,) = sends.audit(action_id)
    with pytest.raises(DBAPIError, match="nothing is shown"):
        sends.by_console.run(
            lambda tx: tx.execute("SELECT nottwice.reveal(:id)", id=entry.id) and None,
            role=Role.AUDITOR,
        )


def test_viewers_see_no_text_and_some_say_why(sends: Sends) -> None:
    action_id = sends.proposed()
    with pytest.raises(NotAllowed):
        reveals.reveal(sends.by_console, "action", action_id, sends.act(sends.person("Vi", Role.VIEWER)))
    for role in (Role.ENGINEER, Role.AUDITOR):
        silent = Act(sends.person("Eve", role), uuid4())
        with pytest.raises(Incomplete):
            reveals.reveal(sends.by_console, "action", action_id, silent)
        assert reveals.reveal(sends.by_console, "action", action_id, sends.act(silent.person, "Ticket 7"))
    assert len(sends.audit(action_id)) == 2
