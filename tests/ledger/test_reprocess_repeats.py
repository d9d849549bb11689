"""Actions sent again: only what was chosen, only by two people, and only as it was when both looked at it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import audit, reprocess
from ledger.actions import answers
from ledger.actions.proposals import provider_key
from ledger.database import Transaction
from ledger.errors import AlreadyDecided, Declined, Incomplete, NotAllowed, NotNow
from ledger.kept import reveals
from ledger.records import Act, Evidence, Role
from ledger.records.reprocess import RunMode
from ledger.sign_in import people
from tests.fix_reprocess import PACE, Shop

REPEAT = RunMode.REPEAT


def sent(shop: Shop, n: int = 1) -> list[int]:
    """So many actions that went out."""
    shop.sell(n)
    shop.settle()
    return [action[0] for action in shop.actions()]


def action(shop: Shop, action_id: int) -> Any:
    sql = """SELECT a.*, c.content, c.recipients FROM nottwice.actions a JOIN nottwice.action_contents c ON c.action_id = a.id
             WHERE a.id = :id"""
    return shop.workshop.rows(sql, id=action_id)[0]


def test_a_repeat_is_the_next_generation_with_the_same_content_and_a_key_of_its_own(shop: Shop) -> None:
    one, other = sent(shop, 2)
    run = shop.repeat(action_ids=(one,))
    assert shop.finish(run) == [("done", "")]
    (*_, (made, key, generation, state)) = shop.actions()
    assert (len(shop.actions()), generation, state) == (3, 2, "approved")
    old, new = action(shop, one), action(shop, made)
    assert (new.action_key, new.content, new.recipients, new.content_digest) == (
        key,
        old.content,
        old.recipients,
        old.content_digest,
    )
    assert key == old.action_key
    installation = shop.workshop.value("SELECT id FROM nottwice.installation")
    assert (
        new.provider_key
        == provider_key(installation, "acme", "post", bytes(old.key_digest), 2)
        != old.provider_key
    )
    assert new.decided_send and action(shop, other).state == "sent"
    assert shop.entries("action") == [("repeat", "Engineer", None, "approved")]
    assert shop.workshop.value("SELECT made_action_id FROM nottwice.reprocess_rows") == made


def test_a_repeat_differs_from_what_it_repeats_only_where_it_must(shop: Shop) -> None:
    """Whatever an action is given later on, its repeat has it too."""
    (one,) = sent(shop)
    shop.workshop.run(
        "UPDATE nottwice.actions SET about = 'INV-1', tells = true, send_before = now() + interval '1 day', version = version + 1"
    )
    shop.finish(shop.repeat(action_ids=(one,)))
    rows = shop.workshop.rows("SELECT to_jsonb(a) AS a FROM nottwice.actions a ORDER BY id")
    old, new = (row.a for row in rows)
    its_own = {"id", "generation", "provider_key", "reference", "created_at", "retry_until", "version"}
    of_its_way = {"state", "due_at", "decided_send", "settled_at"}
    assert {name for name in old if old[name] != new[name]} == its_own | of_its_way


def test_it_can_be_taken_back_before_it_goes_out(shop: Shop) -> None:
    (one,) = sent(shop)
    shop.repeat(action_ids=(one,))
    shop.turn(wait_s=15.0)
    made = shop.actions()[-1][0]
    act = Act(shop.person(Role.SUPPORT), uuid4(), "not so fast", ("the list",))
    settled = shop.by_console.run(lambda tx: _take_back(tx, made, act), role=Role.SUPPORT)
    assert settled == "needs_review"


def _take_back(tx: Transaction, action_id: int, act: Act) -> str:
    from ledger.decisions import take_back

    return take_back(tx, action_id, act).state.value


WORDS = {
    "approved": "It is not over",
    "needs_review": "It waits in Review",
    "declined": "It was declined",
    "sent": "",
    "refused": "",
    "failed": "",
    "closed": "",
}


def test_only_what_has_gone_its_way_may_go_out_again(shop: Shop) -> None:
    (one,) = sent(shop)
    refusals = {}
    for state in WORDS:
        shop.workshop.run(
            """UPDATE nottwice.actions SET state = :state, due_at = CASE WHEN :state = 'approved' THEN now() END,
                      review_since = CASE WHEN :state = 'needs_review' THEN now() END,
                      settled_at = CASE WHEN :state NOT IN ('approved', 'needs_review') THEN now() END""",
            state=state,
        )
        refusals[state] = shop.plan(REPEAT, action_ids=(one,)).rows[0].refusal.split(":")[0]
    assert refusals == WORDS


def test_what_is_no_longer_kept_does_not_go_out(shop: Shop) -> None:
    one, two, three = sent(shop, 3)
    run = shop.repeat(action_ids=(two,))
    for stripped in (one, two):
        shop.workshop.run("DELETE FROM nottwice.action_contents WHERE action_id = :id", id=stripped)
        shop.workshop.run(
            "UPDATE nottwice.actions SET content_gone = true, version = version + 1 WHERE id = :id",
            id=stripped,
        )
    shop.workshop.run("UPDATE nottwice.actions SET key_digest = NULL WHERE id = :id", id=three)
    refusals = [row.refusal for row in shop.plan(REPEAT, action_ids=(one, three, 99)).rows]
    assert [words.split(" (")[0].split("[")[0] for words in refusals] == [
        "Its content is no longer kept ".rstrip(),
        "Its key is no longer kept",
        "It does not exist.",
    ]
    assert shop.finish(run) == [
        ("skipped", "It changed, or something was observed about it, since it was asked for.")
    ]
    assert len(shop.actions()) == 3


def test_once_ever_takes_an_explicit_word(shop: Shop) -> None:
    shop.kind = "welcome"
    (one,) = sent(shop)
    assert "once ever" in shop.plan(REPEAT, action_ids=(one,)).rows[0].refusal
    with pytest.raises(NotNow):
        shop.ask(shop.plan(REPEAT, action_ids=(one,)))
    assert shop.finish(shop.repeat(action_ids=(one,), even_once_ever=True)) == [("done", "")]


def test_the_same_again_needs_the_newest(shop: Shop) -> None:
    (one,) = sent(shop)
    shop.finish(shop.repeat(action_ids=(one,)))
    assert "choose the newest" in shop.plan(REPEAT, action_ids=(one,)).rows[0].refusal
    shop.settle()
    shop.finish(shop.repeat(action_ids=(shop.actions()[-1][0],)))
    assert [generation for _, _, generation, _ in shop.actions()] == [1, 2, 3]


def test_a_worker_that_dies_in_its_turn_has_sent_nothing_and_the_next_turn_does_it_once(shop: Shop) -> None:
    (one,) = sent(shop)
    run = shop.repeat(action_ids=(one,))
    rules = shop.workshop.settings().rules
    with pytest.raises(ZeroDivisionError):
        shop.by_worker.run(lambda tx: (reprocess.turn(tx, rules), 1 // 0))
    assert len(shop.actions()) == 1
    shop.finish(run)
    shop.turn()
    assert len(shop.actions()) == 2


# ── What a handler proposed anew ──────────────────────────────────────────────────────────────────────


def found(shop: Shop) -> list[int]:
    return [row.id for row in shop.workshop.rows("SELECT id FROM nottwice.reprocess_findings ORDER BY id")]


def test_new_content_goes_out_as_it_was_previewed(shop: Shop) -> None:
    (event,) = shop.sell()
    shop.settle()
    shop.text, shop.keys = "Paid in full.", ("receipt:{id}", "thanks:{id}")
    shop.finish(shop.recompute(event, mode=RunMode.PREVIEW))
    differs, new = found(shop)
    text = reveals.reveal(shop.by_console, "finding", differs, Act(shop.person(Role.SUPPORT), uuid4(), ""))
    assert b"Paid in full." in text
    run = shop.repeat(finding_ids=(differs, new))
    assert shop.finish(run) == [("done", "")] * 2
    assert [row[1:] for row in shop.actions()[1:]] == [
        (f"receipt:{event}", 2, "approved"),
        (f"thanks:{event}", 1, "approved"),
    ]
    for made, *_ in shop.actions()[1:]:
        assert b"Paid in full." in bytes(action(shop, made).content) and action(shop, made).decided_send
    again = [row.refusal for row in shop.plan(REPEAT, finding_ids=(differs, new)).rows]
    assert again == [
        "It went out again already: choose the newest of its key.",
        "An action of this key exists by now.",
    ]


def test_what_would_go_out_otherwise_by_now_does_not(shop: Shop) -> None:
    """The account of its kind was changed between the agreement and the turn."""
    (event,) = shop.sell()
    shop.settle()
    shop.keys = ("thanks:{id}",)
    shop.finish(shop.recompute(event, mode=RunMode.PREVIEW))
    run = shop.repeat(finding_ids=tuple(found(shop)))
    other = shop.workshop.settings(more=_elsewhere()).rules
    shop.by_worker.run(lambda tx: reprocess.turn(tx, other))
    ((state, reason),) = shop.rows(run)
    assert state == "skipped" and "it would go out by another account" in reason
    assert len(shop.actions()) == 1


def _elsewhere() -> str:
    from tests.fix_reprocess import POST

    return POST.replace('key = "post-key"', 'key = "post-key"\naccount = "elsewhere"')


# ── Two people ────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_goes_out_before_a_second_person_agrees(shop: Shop) -> None:
    (one,) = sent(shop)
    plan = shop.plan(REPEAT, action_ids=(one,))
    support = shop.person(Role.SUPPORT)
    run = shop.ask(plan, support).run_id
    assert shop.turn() is None and shop.state(run) == "waiting"
    assert "yourself" in shop.refused(reprocess.agree, run, support)
    assert "agrees to it" in shop.refused(reprocess.agree, run, shop.person(Role.ENGINEER))
    shop.decide(reprocess.agree, run, shop.person(Role.ADMIN))
    assert "Admin was first: agreed" in shop.refused(reprocess.agree, run, shop.person(Role.SUPPORT, "Ben"))
    assert shop.finish(run) == [("done", "")]
    assert [entry[:2] for entry in shop.entries("reprocess")] == [
        ("asked a second person: repeat external actions", "Support"),
        ("agreed: repeat external actions", "Admin"),
    ]


def test_who_asked_is_no_second_person_signed_in_another_way(shop: Shop) -> None:
    (one,) = sent(shop)
    run = shop.ask(shop.plan(REPEAT, action_ids=(one,)), shop.person(Role.SUPPORT)).run_id
    twin = shop.by_console.run(
        lambda tx: people.person(tx, "https://id.example", "7", "Sue", "SUPPORT@Example.com", Role.ADMIN)
    )
    assert "signed in another way with the same e-mail address" in shop.refused(reprocess.agree, run, twin)
    by_twin = {"run": run, "person": twin.id, "role": "admin"}
    assert "under another sign-in" in denied(shop, Role.ADMIN, NOTE, AGREE, **by_twin)
    assert shop.state(run) == "waiting"
    shop.decide(reprocess.agree, run, shop.person(Role.ADMIN))


def test_who_waits_too_long_asks_anew_and_a_declined_run_does_nothing(shop: Shop) -> None:
    one, two = sent(shop, 2)
    late = shop.ask(shop.plan(REPEAT, action_ids=(one,))).run_id
    shop.workshop.run("UPDATE nottwice.reprocess_runs SET expires_at = now()")
    assert "waited for too long" in shop.refused(reprocess.agree, late, shop.person(Role.SUPPORT))
    declined = shop.ask(shop.plan(REPEAT, action_ids=(two,))).run_id
    shop.decide(reprocess.decline, declined, shop.person(Role.SUPPORT))
    assert (shop.turn(), shop.state(declined), len(shop.actions())) == (None, "declined", 2)


def test_evidence_that_comes_meanwhile_voids_the_request(shop: Shop) -> None:
    """Proof after it was closed: the action stays as it is, and nobody may agree to what they do not know of."""
    one, two = sent(shop, 2)
    asked = shop.ask(shop.plan(REPEAT, action_ids=(one,))).run_id
    agreed = shop.repeat(action_ids=(two,))
    for action_id in (one, two):
        _observe(shop, action_id)
    assert f"Send {one} (receipt) changed, or something was observed" in shop.refused(
        reprocess.agree, asked, shop.person(Role.SUPPORT)
    )
    shop.turn()
    assert shop.rows(agreed)[0][0] == "skipped" and len(shop.actions()) == 2


def _observe(shop: Shop, action_id: int) -> None:
    from ledger.records import PointsTo

    evidence = Evidence("webhook", "bounced", PointsTo.SENT, False, _now(shop))
    shop.by_worker.run(lambda tx: answers.add_evidence(tx, action_id, evidence))


def _now(shop: Shop) -> Any:
    return shop.workshop.value("SELECT now()")


def test_many_events_take_a_second_person_counted_over_an_hour(shop: Shop) -> None:
    ids = shop.sell(11)
    asked = shop.ask(shop.plan(event_ids=tuple(ids)))
    assert (asked.state, "more than 10" in asked.second_because) == ("waiting", True)
    first = shop.ask(shop.plan(event_ids=tuple(ids[:6])))
    second = shop.ask(shop.plan(event_ids=tuple(ids[6:])))
    assert (first.second_because, second.state) == ("", "waiting")
    assert "6 were asked for within the hour" in second.second_because
    assert shop.ask(shop.plan(event_ids=tuple(ids[6:])), shop.person(name="Eve")).second_because == ""
    assert "yourself" in shop.refused(reprocess.agree, asked.run_id, shop.person())
    shop.decide(reprocess.agree, asked.run_id, shop.person(Role.ADMIN))
    assert shop.state(asked.run_id) == "running"


def test_who_may_ask_for_what(shop: Shop) -> None:
    (one,) = sent(shop)
    plans = {
        plan.wanted.mode: plan for plan in (shop.plan(event_ids=(1,)), shop.plan(REPEAT, action_ids=(one,)))
    }
    allowed = set()
    for mode, plan in plans.items():
        for role in Role:
            with suppress(NotAllowed):
                shop.ask(plan, shop.person(role))
                allowed.add((mode.value, role.value))
    events = {("recompute", "engineer"), ("recompute", "admin")}
    assert allowed == events | {("repeat", role) for role in ("engineer", "admin", "support")}


def test_a_request_says_why_and_the_same_twice_is_one(shop: Shop) -> None:
    (one,) = shop.sell()
    plan, person = shop.plan(event_ids=(one,)), shop.person()
    with pytest.raises(Incomplete):
        shop.ask(plan, why=" ")
    form = shop.by_console.run(lambda tx: reprocess.form_of(tx, plan, person), role=person.role)
    act = Act(person, form, "twice")

    def ask() -> object:
        return shop.by_console.run(
            lambda tx: reprocess.request(tx, plan, act, PACE, expires_s=60), role=person.role
        )

    ask()
    with pytest.raises(AlreadyDecided, match="Run 1 asks for exactly this and is under way"):
        ask()
    shop.finish(1)
    with pytest.raises(AlreadyDecided, match="Nothing was done twice"):
        ask()


def test_recipients_are_for_those_who_may_see_them(shop: Shop) -> None:
    (one,) = sent(shop)
    seen = {role: shop.plan(REPEAT, role, action_ids=(one,)).rows[0].recipients for role in Role}
    who = {role for role, recipients in seen.items() if recipients == ("ann@example.com",)}
    assert who == {Role.SUPPORT, Role.AUDITOR, Role.ADMIN}
    assert {seen[role] for role in set(Role) - who} == {None}


# ── The database's own walls, by plain SQL under a person's role ──────────────────────────────────────


def denied(shop: Shop, under: Role, /, *statements: str, **values: Any) -> str:
    def body(tx: Transaction) -> None:
        for sql in statements:
            tx.execute(sql, **{name: value for name, value in values.items() if f":{name}" in sql})

    with pytest.raises(DBAPIError) as error:
        shop.by_console.run(body, role=under)
    return str(error.value.orig)


NOTE = """INSERT INTO nottwice.audit (person_id, role, act, entity, entity_id, entity_version, outcome, why, state_before, state_after)
          VALUES (:person, :role, 'agreed', 'reprocess', :run, 2, 'done', 'x', 'waiting', 'running')"""
AGREE = """UPDATE nottwice.reprocess_runs SET state = 'running', agreed_by = :person, agreed_at = now(), next_at = now(), begun_at = now(),
                  version = version + 1 WHERE id = :run"""


def test_by_sql_nobody_agrees_to_their_own_request(shop: Shop) -> None:
    (one,) = sent(shop)
    support, other = shop.person(Role.SUPPORT), shop.person(Role.SUPPORT, "Ben")
    run = shop.ask(shop.plan(REPEAT, action_ids=(one,)), support).run_id
    by_self = {"run": run, "person": support.id, "role": "support"}
    assert "who_agrees_is_somebody_else" in denied(shop, Role.SUPPORT, NOTE, AGREE, **by_self)
    assert "agreed to run" in denied(
        shop, Role.SUPPORT, AGREE, run=run, person=other.id
    )  # without an audit row
    engineer = shop.person()
    by_engineer = {"run": run, "person": engineer.id, "role": "engineer"}
    assert "agreed to run" in denied(shop, Role.ENGINEER, NOTE, AGREE, **by_engineer)
    forced = "UPDATE nottwice.reprocess_runs SET state = 'running', next_at = now(), version = version + 1 WHERE id = :run"
    assert "nothing_runs_before_it_is_agreed" in denied(shop, Role.SUPPORT, NOTE, forced, **by_self)
    assert (shop.state(run), shop.turn()) == ("waiting", None)


def test_by_sql_no_run_begins_without_its_record(shop: Shop) -> None:
    (one,) = shop.sell()
    person = shop.person()
    insert = """INSERT INTO nottwice.reprocess_runs (mode, state, selection, why, requested_by, requested_role, row_count, list_digest,
                    needs_second, pace_per_s, under_way_max, next_at, begun_at)
                VALUES ('recompute', 'running', 'x', 'x', :person, 'engineer', 1, '', false, 1, 1, now(), now())"""
    assert "no run without its audit row" in denied(shop, Role.ENGINEER, insert, person=person.id)
    run = shop.recompute(one)
    more = "INSERT INTO nottwice.reprocess_rows (run_id, event_id, state) VALUES (:run, :event, 'waiting')"
    assert "frozen" in denied(shop, Role.ENGINEER, more, run=run, event=one)
    cancel = """UPDATE nottwice.reprocess_runs SET state = 'cancelled', next_at = NULL, ended_at = now(), version = version + 1
                WHERE id = :run"""
    assert "no change without its audit row" in denied(shop, Role.ENGINEER, cancel, run=run)
    with pytest.raises(DBAPIError, match="frozen"):
        shop.workshop.run(more, run=run, event=one)  # not even as the owner


NO_PERSON_MAY = (
    "UPDATE nottwice.reprocess_rows SET state = 'waiting'",
    "UPDATE nottwice.reprocess_runs SET requested_by = 1",
    "UPDATE nottwice.reprocess_runs SET list_digest = ''",
    "DELETE FROM nottwice.reprocess_rows",
    "SELECT content FROM nottwice.reprocess_findings",
    "INSERT INTO nottwice.reprocess_findings DEFAULT VALUES",
)


def test_by_sql_no_person_may(shop: Shop) -> None:
    for role in (Role.ENGINEER, Role.ADMIN):
        for sql in NO_PERSON_MAY:
            assert "permission denied" in denied(shop, role, sql), sql


def test_by_sql_no_worker_makes_a_further_generation_by_itself(shop: Shop) -> None:
    (one,) = sent(shop)
    copy = """INSERT INTO nottwice.actions (namespace, action_key, key_digest, generation, kind, provider, account, reference, policy, cost,
                  content_digest, key_margin_s, evidence_s, retry_until, state, due_at)
              SELECT namespace, action_key, key_digest, 2, kind, provider, account, reference, policy, cost, content_digest, key_margin_s,
                  evidence_s, retry_until, 'approved', now() FROM nottwice.actions WHERE id = :id"""
    with pytest.raises(DBAPIError, match="takes the agreement of a second person"):
        shop.by_worker.run(lambda tx: tx.execute(copy, id=one) and None)
    forged = "UPDATE nottwice.reprocess_runs SET agreed_by = 1"
    with pytest.raises(DBAPIError, match="permission denied"):
        shop.by_worker.run(lambda tx: tx.execute(forged) and None)


def test_a_refused_try_is_on_record(shop: Shop) -> None:
    (one,) = sent(shop)
    person = shop.person()
    run = shop.ask(shop.plan(REPEAT, action_ids=(one,)), person).run_id
    act = Act(person, uuid4(), "me too")
    with pytest.raises(Declined):
        shop.by_console.run(lambda tx: reprocess.agree(tx, run, act), role=person.role)
    shop.by_console.run(lambda tx: audit.refused(tx, act, "agree", "reprocess", run, "no"), role=person.role)
    (entry,) = [e for e in shop.entries("reprocess") if e[0] == "agree"]
    assert entry[2:] == ("waiting", "waiting")
