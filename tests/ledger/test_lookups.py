"""Look-ups: planned while a send is in doubt, one worker at a time, kept once a finding, and settling only by proof."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from ledger import actions, decisions
from ledger.actions import answers
from ledger.errors import LeaseLost, NotAllowed, NotNow
from ledger.evidence import lookups
from ledger.records import (
    Answered,
    CannotBeAsked,
    Decision,
    Looked,
    LookUp,
    NotSent,
    PointsTo,
    Policy,
    Role,
    Sighting,
    Unanswered,
    Unknown,
    Worker,
)
from ledger.states import ActionState
from tests.fix_sends import ACCEPTED, KEYED, KEYLESS, UNKNOWN, Sends

WAITS_S = (5.0, 30.0, 120.0)
BOTH = ("agentmail", "inboxili")
SOURCE = "AgentMail look-up"
NOTHING = Answered((), "No message with our mark.")
PROOF = Sighting("A message with our mark.", PointsTo.SENT, True, "<m-7@provider.example>")
HINT = Sighting("A message to the same recipient.", PointsTo.SENT, False, "<m-8@provider.example>")


def found(*sightings: Sighting) -> Answered:
    return Answered(sightings, sightings[0].found)


def plan(sends: Sends) -> bool:
    return sends.by_worker.run(lambda tx: lookups.plan(tx, BOTH, WAITS_S))


def claim(sends: Sends, worker: Worker | None = None, lease_s: float = 60.0) -> LookUp | None:
    return sends.by_worker.run(lambda tx: lookups.claim(tx, worker or sends.worker, BOTH, lease_s=lease_s))


def record(sends: Sends, lookup: LookUp, looked: Looked) -> ActionState:
    return sends.by_worker.run(lambda tx: lookups.record(tx, lookup, looked, SOURCE))


def open_of(sends: Sends, action_id: int) -> list[float]:
    """When the open look-ups are due, in seconds since nobody knows what became of the send."""
    rows = sends.rows(
        """SELECT CAST(extract(epoch FROM l.due_at - a.review_since) AS float8) AS due_s
           FROM nottwice.lookups l JOIN nottwice.actions a ON a.id = l.action_id
           WHERE l.action_id = :id AND l.done_at IS NULL""",
        id=action_id,
    )
    return [row.due_s for row in rows]


def in_doubt(sends: Sends) -> int:
    """On the desk, with evidence waited for."""
    action_id = sends.uncertain(KEYED)
    sends.sql(
        "UPDATE nottwice.actions SET review_since = now(), evidence_until = now() + interval '5 min' WHERE id = :id",
        id=action_id,
    )
    return action_id


def taken(sends: Sends, action_id: int) -> LookUp:
    plan(sends)
    sends.sql("UPDATE nottwice.lookups SET due_at = now() WHERE done_at IS NULL")
    lookup = claim(sends)
    assert lookup is not None and lookup.action_id == action_id
    return lookup


def evidence(sends: Sends, action_id: int) -> list[tuple[str, str, bool, str | None]]:
    rows = sends.rows("SELECT * FROM nottwice.evidence WHERE action_id = :id ORDER BY id", id=action_id)
    return [(row.found, row.points_to, row.proof, row.message_id) for row in rows]


def test_a_look_up_knows_what_the_provider_called_the_try_and_our_key(sends: Sends) -> None:
    """Mailera may say that it does not know, under an id that can be asked about: the last one of them."""
    first = sends.proposed(KEYED)
    for outcome in (
        Unknown("Unknown.", "unknown", "snd_1"),
        Unknown("Unknown.", "unknown", "snd_2"),
        UNKNOWN,
    ):
        sends.tried(first, outcome)
    sends.sql("UPDATE nottwice.actions SET retry_until = now() WHERE id = :id", id=first)
    sends.by_worker.run(actions.expire)
    lookup = taken(sends, first)
    (key,) = sends.rows("SELECT provider_key FROM nottwice.actions WHERE id = :id", id=first)
    assert (lookup.sent_as, lookup.provider_key) == ("snd_2", key.provider_key)
    assert taken(sends, in_doubt(sends)).sent_as is None


# ── When ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_is_due_after_the_first_wait_and_each_is_planned_once(sends: Sends) -> None:
    action_id = in_doubt(sends)
    assert plan(sends) and plan(sends)
    (due_s,) = open_of(sends, action_id)
    assert due_s == 5
    assert claim(sends) is None


@pytest.mark.parametrize(
    ("looks", "ago_s", "due_s"), [(1, 5, 25), (2, 30, 90), (3, 120, 120), (4, 240, None)]
)
def test_further_ones_follow_the_waits_until_evidence_is_no_longer_waited_for(
    sends: Sends, looks: int, ago_s: float, due_s: float | None
) -> None:
    action_id = in_doubt(sends)
    for _ in range(looks):
        record(sends, taken(sends, action_id), Unanswered("not now"))
    sends.sql(
        """UPDATE nottwice.actions SET review_since = review_since - make_interval(secs => :s),
                  evidence_until = evidence_until - make_interval(secs => :s) WHERE id = :id""",
        id=action_id,
        s=ago_s,
    )
    plan(sends)
    found_s = open_of(sends, action_id)
    assert (found_s == []) if due_s is None else (0 <= found_s[0] - (ago_s + due_s) < 15)


def test_one_look_comes_even_when_no_worker_was_there_in_time(sends: Sends) -> None:
    action_id = sends.uncertain(KEYED)
    sends.aged(action_id, 3600)
    plan(sends)
    lookup = claim(sends)
    assert lookup is not None
    record(sends, lookup, NOTHING)
    plan(sends)
    assert open_of(sends, action_id) == []


def test_nobody_looks_where_the_same_key_is_tried_again_anyway(sends: Sends) -> None:
    action_id = sends.proposed(KEYED)
    sends.tried(action_id, UNKNOWN)
    assert (sends.state(action_id), sends.row(action_id).verdict) == (
        ActionState.APPROVED,
        "safe_to_try_again",
    )
    assert not plan(sends)


def test_before_a_try_that_may_make_a_second_copy_somebody_looks(sends: Sends) -> None:
    action_id = sends.proposed(replace(KEYLESS, policy=Policy.RESEND))
    sends.tried(action_id, UNKNOWN)
    assert sends.state(action_id) is ActionState.APPROVED
    assert plan(sends) and len(open_of(sends, action_id)) == 1
    assert record(sends, taken(sends, action_id), found(PROOF)) is ActionState.SENT


@pytest.mark.parametrize("outcome", [ACCEPTED, NotSent("refused connection")])
def test_what_is_certain_is_not_looked_up(sends: Sends, outcome: object) -> None:
    sends.tried(sends.proposed(KEYED), outcome)  # type: ignore[arg-type]
    assert not plan(sends)


def test_what_was_settled_meanwhile_is_forgotten(sends: Sends) -> None:
    action_id = in_doubt(sends)
    plan(sends)
    act, seen = sends.act(sends.person("Ann")), sends.seen(action_id)
    sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.DO_NOT_SEND, act))
    plan(sends)
    assert open_of(sends, action_id) == []


# ── By whom ───────────────────────────────────────────────────────────────────────────────────────────


def test_one_worker_at_a_time_and_another_after_its_lease(sends: Sends) -> None:
    action_id = in_doubt(sends)
    first = taken(sends, action_id)
    assert claim(sends, Worker(uuid4(), "w-2")) is None
    sends.sql("UPDATE nottwice.lookups SET lease_until = now() - interval '1 ms' WHERE id = :id", id=first.id)
    second = claim(sends, Worker(uuid4(), "w-2"))
    assert second is not None and (second.id, second.token != first.token) == (first.id, True)
    with pytest.raises(LeaseLost):
        record(sends, first, found(PROOF))
    assert (sends.state(action_id), evidence(sends, action_id)) == (ActionState.NEEDS_REVIEW, [])
    record(sends, second, found(PROOF))
    assert sends.state(action_id) is ActionState.SENT
    with pytest.raises(LeaseLost):
        record(sends, second, found(PROOF))
    assert len(evidence(sends, action_id)) == 1


def test_a_pause_is_respected_and_neither_begun_nor_ended(sends: Sends) -> None:
    action_id = in_doubt(sends)
    lookup = taken(sends, action_id)
    record(sends, lookup, Unanswered("rate limit", 60.0))
    assert sends.rows("SELECT FROM nottwice.provider_pauses") == []
    sends.by_worker.run(lambda tx: answers.pause(tx, "agentmail", "rate limit", pause_s=60))
    plan(sends)
    sends.sql("UPDATE nottwice.lookups SET due_at = now() WHERE done_at IS NULL")
    assert claim(sends) is None
    sends.sql("UPDATE nottwice.provider_pauses SET paused_until = now()")
    assert claim(sends) is not None


# ── What comes of it ──────────────────────────────────────────────────────────────────────────────────


def test_proof_settles_and_names_the_message(sends: Sends) -> None:
    action_id = in_doubt(sends)
    assert record(sends, taken(sends, action_id), found(PROOF)) is ActionState.SENT
    assert sends.row(action_id).message_id == PROOF.message_id
    (met,) = sends.rows("SELECT account, message_id, action_id FROM nottwice.messages")
    assert tuple(met) == ("agentmail", "m-7@provider.example", action_id)


def test_not_found_is_never_not_sent(sends: Sends) -> None:
    action_id = in_doubt(sends)
    assert record(sends, taken(sends, action_id), NOTHING) is ActionState.NEEDS_REVIEW
    assert evidence(sends, action_id) == [(NOTHING.words, "neither", False, None)]


@pytest.mark.parametrize("looked", [Unanswered("no connection"), CannotBeAsked("cannot be asked")])
def test_without_an_answer_nothing_is_known_and_no_page_becomes_stale(sends: Sends, looked: Looked) -> None:
    action_id = in_doubt(sends)
    lookup, version = taken(sends, action_id), sends.row(action_id).version
    record(sends, lookup, looked)
    assert evidence(sends, action_id) == [] and sends.row(action_id).version == version
    (row,) = sends.rows("SELECT outcome, words FROM nottwice.lookups WHERE done_at IS NOT NULL")
    assert row.words == looked.reason  # type: ignore[union-attr]


def test_who_cannot_be_asked_is_asked_once(sends: Sends) -> None:
    action_id = in_doubt(sends)
    record(sends, taken(sends, action_id), CannotBeAsked("cannot be asked"))
    plan(sends)
    assert open_of(sends, action_id) == []


@pytest.mark.parametrize("looked", [NOTHING, found(HINT)], ids=["nothing", "hint"])
def test_the_same_finding_is_kept_once(sends: Sends, looked: Answered) -> None:
    action_id = in_doubt(sends)
    record(sends, taken(sends, action_id), looked)
    version = sends.row(action_id).version
    for _ in range(3):
        record(sends, taken(sends, action_id), looked)
    assert len(evidence(sends, action_id)) == 1
    assert sends.row(action_id).version == version
    assert len(sends.rows("SELECT FROM nottwice.lookups WHERE done_at IS NOT NULL")) == 4


def test_a_hint_settles_nothing(sends: Sends) -> None:
    action_id = in_doubt(sends)
    assert record(sends, taken(sends, action_id), found(HINT)) is ActionState.NEEDS_REVIEW
    assert sends.rows("SELECT FROM nottwice.messages") == []


@pytest.mark.parametrize("sighting", [PROOF, HINT], ids=["proof", "hint"])
def test_a_message_of_another_send_says_nothing_about_this_one(sends: Sends, sighting: Sighting) -> None:
    other = sends.proposed(KEYED)
    sends.tried(other, ACCEPTED)
    action_id = in_doubt(sends)
    seen = replace(sighting, message_id=ACCEPTED.message_id)
    assert record(sends, taken(sends, action_id), found(seen)) is ActionState.NEEDS_REVIEW
    (kept,) = evidence(sends, action_id)
    assert kept[1:] == ("neither", False, ACCEPTED.message_id) and lookups.NOT_ITS_OWN in kept[0]


# ── Asked by a person ─────────────────────────────────────────────────────────────────────────────────


def test_a_person_asks_and_the_audit_has_it(sends: Sends) -> None:
    action_id, act = sends.uncertain(KEYED), sends.act(sends.person("Ann"))
    id_ = sends.decide(act, lambda tx: lookups.ask(tx, action_id, act))
    (row,) = sends.audit(action_id)
    assert (row.act, row.outcome, row.entity_version) == ("look again", "done", None)
    lookup = claim(sends)
    assert lookup is not None and lookup.id == id_
    assert sends.state(action_id) is ActionState.NEEDS_REVIEW


def test_asking_makes_an_open_one_due_now_and_goes_first(sends: Sends) -> None:
    waiting, asked = in_doubt(sends), in_doubt(sends)
    plan(sends)
    sends.sql(
        "UPDATE nottwice.lookups SET due_at = now() - interval '1 min' WHERE action_id = :id", id=waiting
    )
    act = sends.act(sends.person("Ann"))
    sends.decide(act, lambda tx: lookups.ask(tx, asked, act))
    assert len(open_of(sends, asked)) == 1
    lookup = claim(sends)
    assert lookup is not None and lookup.action_id == asked


def test_asking_twice_is_one_look_up(sends: Sends) -> None:
    action_id = sends.uncertain(KEYED)
    ids = set()
    for name in ("Ann", "Bo"):
        act = sends.act(sends.person(name))
        ids.add(sends.decide(act, lambda tx, act=act: lookups.ask(tx, action_id, act)))  # type: ignore[misc]
    assert len(ids) == 1 and len(sends.audit(action_id)) == 2


@pytest.mark.parametrize("role", [Role.VIEWER, Role.ENGINEER, Role.AUDITOR])
def test_who_may_not_decide_does_not_ask(sends: Sends, role: Role) -> None:
    action_id, act = sends.uncertain(KEYED), sends.act(sends.person("Eva", role))
    with pytest.raises(NotAllowed):
        sends.decide(act, lambda tx: lookups.ask(tx, action_id, act))


def test_nothing_is_asked_about_what_is_known_or_was_never_tried(sends: Sends) -> None:
    known = sends.proposed(KEYED)
    sends.tried(known, ACCEPTED)
    for action_id in (known, sends.proposed(KEYED)):
        act = sends.act(sends.person("Ann"))
        with pytest.raises(NotNow):
            sends.decide(act, lambda tx, id_=action_id, act=act: lookups.ask(tx, id_, act))  # type: ignore[misc]


def test_a_closed_send_can_be_looked_up_and_proof_contradicts_its_closing(sends: Sends) -> None:
    action_id, act = sends.uncertain(KEYED), sends.act(sends.person("Ann"))
    seen = sends.seen(action_id)
    sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.DO_NOT_SEND, act))
    again = sends.act(sends.person("Ann"))
    sends.decide(again, lambda tx: lookups.ask(tx, action_id, again))
    lookup = claim(sends)
    assert lookup is not None
    record(sends, lookup, found(PROOF))
    assert sends.state(action_id) is ActionState.CLOSED
    assert evidence(sends, action_id)[0][2]


def test_the_database_takes_no_question_without_its_audit_row(sends: Sends) -> None:
    action_id, act = sends.uncertain(KEYED), sends.act(sends.person("Ann"))
    sends.decide(act, lambda tx: lookups.ask(tx, action_id, act))
    (row,) = sends.audit(action_id)
    for sql in (f"SELECT nottwice.ask_lookup({row.id})", "INSERT INTO nottwice.lookups DEFAULT VALUES"):
        with pytest.raises(Exception, match="audit row|permission denied"):
            sends.by_console.run(lambda tx, sql=sql: tx.execute(sql) and None, role=Role.ADMIN)  # type: ignore[misc]
