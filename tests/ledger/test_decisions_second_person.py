"""A send with a new key: one person asks, another agrees, and the database refuses anything else."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import actions, decisions, together
from ledger.actions import answers
from ledger.errors import AlreadyDecided, Incomplete, NotAllowed, NotNow, Stale
from ledger.records import Act, Decision, Evidence, KindRules, NotSent, Person, PointsTo, Role, Seen, Settled
from ledger.records.together import Listed, Terms
from ledger.sign_in import people
from ledger.states import ActionState
from ledger.views import review
from tests.fix_sends import ACCEPTED, KEYED, KEYLESS, UNKNOWN, Sends

S = ActionState


def ask(sends: Sends, action_id: int, who: Person) -> int:
    act, seen = sends.act(who), sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.ask_new_key(tx, action_id, seen, act))


def agree(sends: Sends, request_id: int, who: Person, seen: Seen | None = None) -> Settled:
    """Having looked just now, unless `seen` is an older look."""
    act = sends.act(who)
    looked = seen or sends.seen(request(sends, request_id).action_id)  # type: ignore[attr-defined]
    return sends.decide(act, lambda tx: decisions.agree(tx, request_id, looked, act))


def request(sends: Sends, request_id: int) -> object:
    return sends.rows("SELECT * FROM nottwice.requests WHERE id = :id", id=request_id)[0]


def prove(sends: Sends, action_id: int) -> ActionState:
    now = sends.rows("SELECT now() AS now")[0].now
    proof = Evidence("webhook", "delivered", PointsTo.SENT, True, now, "<m>")
    return sends.by_worker.run(lambda tx: answers.add_evidence(tx, action_id, proof))


def test_two_people_make_a_new_generation(sends: Sends) -> None:
    old, ann, bo = sends.uncertain(KEYED), sends.person("Ann"), sends.person("Bo", Role.ADMIN)
    request_id = ask(sends, old, ann)
    assert sends.claim_or_none() is None
    done = agree(sends, request_id, bo)
    before, after = sends.row(old), sends.row(done.action_id)
    assert (before.state, after.state) == (S.CLOSED, S.APPROVED)
    assert (after.generation, after.decided_send) == (2, True)
    assert after.provider_key != before.provider_key
    assert after.reference != before.reference
    assert after.content_digest == before.content_digest
    assert done.goes_at == after.due_at
    assert (done.goes_at - done.at).total_seconds() == 15.0
    sends.due_now(done.action_id)
    claimed = sends.claimed()
    contents = sends.rows("SELECT DISTINCT content, recipients FROM nottwice.action_contents")
    assert len(contents) == 1
    assert claimed.content == bytes(contents[0].content)
    sends.answered(sends.started(claimed), ACCEPTED)
    assert sends.state(done.action_id) is S.SENT
    assert [e.act for e in sends.audit(old)] == [
        "asked a second person: send again with a new key",
        "agreed: send again with a new key",
    ]
    assert [(e.act, e.person_id) for e in sends.audit(done.action_id)] == [
        ("send again with a new key", bo.id)
    ]
    asked = f"asked by Ann, request {request_id}"
    assert asked in sends.audit(old)[1].detail
    assert sends.audit(done.action_id)[0].detail == f"in place of send {old}; {asked}"


def test_what_two_agreed_to_and_one_took_back_is_agreed_to_anew(sends: Sends) -> None:
    old, ann, bo = sends.uncertain(KEYED), sends.person("Ann"), sends.person("Bo")
    made = agree(sends, ask(sends, old, ann), bo).action_id
    back = sends.act(bo)
    sends.decide(back, lambda tx: decisions.take_back(tx, made, back))
    act, seen = sends.act(ann), sends.seen(made)
    with pytest.raises(NotNow, match="agree anew"):
        sends.decide(act, lambda tx: decisions.settle(tx, made, seen, Decision.RESEND_SAME_KEY, act))
    assert sends.state(made) is S.NEEDS_REVIEW and sends.claim_or_none() is None
    again = agree(sends, ask(sends, made, ann), bo)
    assert (sends.state(made), sends.row(again.action_id).generation) == (S.CLOSED, 3)


def again(sends: Sends, action_id: int, who: Person) -> Settled:
    """One person, the same key."""
    act, seen = sends.act(who), sends.seen(action_id)
    return sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.RESEND_SAME_KEY, act))


def agreed_and_uncertain(sends: Sends, rules: KindRules) -> tuple[int, int]:
    """A send and the one that two people agreed to in its place, which is uncertain too and on the desk."""
    old = sends.uncertain(rules)
    made = agree(sends, ask(sends, old, sends.person("Ann")), sends.person("Bo")).action_id
    sends.tried(made, UNKNOWN)
    sends.sql(
        "UPDATE nottwice.actions SET retry_until = now() WHERE id = :id AND state = 'approved'", id=made
    )
    sends.by_worker.run(actions.expire)
    sends.sql("UPDATE nottwice.actions SET evidence_until = now() WHERE id = :id", id=made)
    assert sends.state(made) is S.NEEDS_REVIEW
    return old, made


def test_what_two_agreed_to_is_one_email_that_one_person_sends_again_under_its_own_key(sends: Sends) -> None:
    _, made = agreed_and_uncertain(sends, KEYED)
    key = sends.row(made).provider_key
    assert again(sends, made, sends.person("Ann")).state is S.APPROVED
    sends.due_now(made)
    claimed = sends.claimed()
    assert (claimed.lease.action_id, claimed.provider_key) == (made, key)
    assert len(sends.rows("SELECT FROM nottwice.actions")) == 2


def test_what_two_agreed_to_without_a_key_takes_two_each_time(sends: Sends) -> None:
    _, made = agreed_and_uncertain(sends, KEYLESS)
    with pytest.raises(NotNow, match="no key that would stop a second copy"):
        again(sends, made, sends.person("Ann"))


def test_proof_that_the_first_went_out_ends_what_two_agreed_to(sends: Sends) -> None:
    old, made = agreed_and_uncertain(sends, KEYED)
    assert prove(sends, old) is S.CLOSED
    ann = sends.person("Ann")
    with pytest.raises(NotNow, match=f"Send {old}, in whose place it stands, went out after all"):
        again(sends, made, ann)
    act, shown = sends.act(ann), [Listed(made, sends.seen(made))]
    with pytest.raises(NotNow, match="went out after all"):
        sends.decide(act, lambda tx: together.decide(tx, shown, Decision.RESEND_SAME_KEY, act, Terms("one")))
    send = sends.by_console.run(lambda tx: review.send(tx, Role.SUPPORT, made), role=Role.SUPPORT)
    assert send is not None and send.earlier_went
    third = agree(sends, ask(sends, made, ann), sends.person("Bo"))
    assert sends.row(third.action_id).generation == 3


def test_a_keyless_one_stays_keyless(sends: Sends) -> None:
    old = sends.uncertain(KEYLESS)
    done = agree(sends, ask(sends, old, sends.person("Ann")), sends.person("Bo"))
    assert sends.row(done.action_id).provider_key is None


def test_nobody_agrees_with_himself(sends: Sends) -> None:
    action_id, ann = sends.uncertain(), sends.person("Ann")
    request_id = ask(sends, action_id, ann)
    with pytest.raises(NotAllowed, match="yourself"):
        agree(sends, request_id, ann)
    assert sends.state(action_id) is S.NEEDS_REVIEW


def test_nobody_agrees_with_himself_signed_in_another_way(sends: Sends) -> None:
    """By the ledger in words, and by the database, whoever writes it."""
    action_id, ann = sends.uncertain(), sends.person("Ann")
    twin = sends.by_console.run(
        lambda tx: people.person(tx, "https://id.example", "7", "Ann L", "ANN@Example.com", Role.ADMIN)
    )
    request_id = ask(sends, action_id, ann)
    with pytest.raises(NotAllowed, match="signed in another way with the same e-mail address"):
        agree(sends, request_id, twin)
    sql = """UPDATE nottwice.requests SET decision = 'agreed', decided_at = now(), decided_by = :who, version = version + 1
             WHERE id = :id"""
    with pytest.raises(DBAPIError, match="under another sign-in"):
        sends.by_owner.run(lambda tx: tx.execute(sql, id=request_id, who=twin.id) and None)
    assert sends.state(action_id) is S.NEEDS_REVIEW
    assert agree(sends, request_id, sends.person("Bo")).state is S.APPROVED


def test_the_database_refuses_an_agreement_with_oneself(sends: Sends) -> None:
    ann = sends.person("Ann")
    request_id = ask(sends, sends.uncertain(), ann)
    sql = "UPDATE nottwice.requests SET decision = 'agreed', decided_at = now(), decided_by = :who WHERE id = :id"
    for who in (ann.id, None):
        with pytest.raises(DBAPIError, match="agreeing_takes_a_second_person"):
            sends.by_owner.run(lambda tx, who=who: tx.execute(sql, id=request_id, who=who) and None)  # type: ignore[misc]


def test_the_database_makes_no_generation_without_an_agreement(sends: Sends) -> None:
    action_id = sends.uncertain()
    ask(sends, action_id, sends.person("Ann"))
    with pytest.raises(DBAPIError, match="agreement of a second person"):
        sends.by_console.run(
            lambda tx: tx.execute("SELECT nottwice.next_generation(:id, 0)", id=action_id) and None,
            role=Role.SUPPORT,
        )


@pytest.mark.parametrize("role", [Role.VIEWER, Role.ENGINEER, Role.AUDITOR])
def test_others_neither_ask_nor_agree(sends: Sends, role: Role) -> None:
    action_id, eve = sends.uncertain(), sends.person("Eve", role)
    with pytest.raises(NotAllowed):
        ask(sends, action_id, eve)
    request_id = ask(sends, action_id, sends.person("Ann"))
    with pytest.raises(NotAllowed):
        agree(sends, request_id, eve)


def test_both_say_what_they_looked_at_and_why(sends: Sends) -> None:
    action_id, ann, bo = sends.uncertain(), sends.person("Ann"), sends.person("Bo")
    seen = sends.seen(action_id)
    silent = Act(ann, uuid4())
    with pytest.raises(Incomplete):
        sends.decide(silent, lambda tx: decisions.ask_new_key(tx, action_id, seen, silent))
    request_id, silent = ask(sends, action_id, ann), Act(bo, uuid4(), "", ("Only this page",))
    seen = sends.seen(action_id)
    with pytest.raises(Incomplete, match="why"):
        sends.decide(silent, lambda tx: decisions.agree(tx, request_id, seen, silent))
    assert len(sends.rows("SELECT FROM nottwice.actions")) == 1


def test_an_open_question_is_asked_once_and_holds_other_decisions(sends: Sends) -> None:
    action_id, ann, bo = sends.uncertain(), sends.person("Ann"), sends.person("Bo")
    ask(sends, action_id, ann)
    with pytest.raises(NotNow, match="Ann asks a second person"):
        ask(sends, action_id, bo)
    act, seen = sends.act(bo), sends.seen(action_id)
    with pytest.raises(NotNow, match="Ann asks a second person"):
        sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.DO_NOT_SEND, act))


def test_a_question_runs_out_and_can_be_asked_again(sends: Sends) -> None:
    action_id, ann, bo = sends.uncertain(), sends.person("Ann"), sends.person("Bo")
    old = ask(sends, action_id, ann)
    sends.sql("UPDATE nottwice.requests SET expires_at = now()")
    with pytest.raises(NotNow, match="run out"):
        agree(sends, old, bo)
    assert agree(sends, ask(sends, action_id, ann), bo).state is S.APPROVED


def test_proof_voids_the_question(sends: Sends) -> None:
    action_id = sends.uncertain()
    request_id = ask(sends, action_id, sends.person("Ann"))
    assert prove(sends, action_id) is S.SENT
    with pytest.raises(NotNow, match="what we found settled"):
        agree(sends, request_id, sends.person("Bo"))
    assert len(sends.rows("SELECT FROM nottwice.actions")) == 1


def hinted(sends: Sends, action_id: int) -> int:
    """Something is found about it that proves nothing; returns its number."""
    now = sends.rows("SELECT now() AS now")[0].now
    hint = Evidence("search", "like it", PointsTo.SENT, False, now)
    sends.by_worker.run(lambda tx: answers.add_evidence(tx, action_id, hint))
    return int(sends.rows("SELECT max(id) AS id FROM nottwice.evidence")[0].id)


def test_what_was_found_since_it_was_asked_is_shown_agreed_to_and_on_record(sends: Sends) -> None:
    """Who asked need not ask again: it is the second person's page that must be of now."""
    action_id = sends.uncertain()
    earlier = hinted(sends, action_id)
    request_id = ask(sends, action_id, sends.person("Ann"))
    looked = sends.seen(action_id)
    news = [hinted(sends, action_id), hinted(sends, action_id)]
    bo = sends.person("Bo")
    with pytest.raises(Stale, match="while you had it open"):
        agree(sends, request_id, bo, looked)
    assert sends.state(action_id) is S.NEEDS_REVIEW
    send = sends.by_console.run(lambda tx: review.send(tx, Role.SUPPORT, action_id), role=Role.SUPPORT)
    assert send is not None and send.request is not None
    assert (len(send.evidence), send.request.found_then) == (3, 1)
    now = Seen(send.version, send.content_digest)
    assert agree(sends, request_id, bo, now).state is S.APPROVED
    assert request(sends, request_id).seen_version == now.version  # type: ignore[attr-defined]
    detail = sends.audit(action_id)[-1].detail
    assert detail.endswith(f"found since it was asked, and seen: evidence {news[0]}, {news[1]}")
    assert f"evidence {earlier}," not in detail


def test_proof_that_it_went_out_is_never_agreed_away(sends: Sends) -> None:
    """It settles the send and voids the request; where it did neither, the agreement is refused all the same."""
    action_id = sends.uncertain()
    request_id = ask(sends, action_id, sends.person("Ann"))
    sends.sql(
        """INSERT INTO nottwice.evidence (action_id, source, found, points_to, proof)
           VALUES (:id, 'webhook', 'delivered', 'sent', true)""",
        id=action_id,
    )
    with pytest.raises(NotNow, match="says that it went out"):
        agree(sends, request_id, sends.person("Bo"))
    assert len(sends.rows("SELECT FROM nottwice.actions")) == 1


def test_other_content_than_was_asked_about_is_asked_for_anew(sends: Sends) -> None:
    action_id = sends.uncertain()
    request_id = ask(sends, action_id, sends.person("Ann"))
    sends.sql("UPDATE nottwice.requests SET content_digest = '\\x00'")
    with pytest.raises(NotNow, match="Do not agree; Ann must ask again"):
        agree(sends, request_id, sends.person("Bo"))
    assert sends.state(action_id) is S.NEEDS_REVIEW


def test_agreed_twice_is_told(sends: Sends) -> None:
    request_id = ask(sends, sends.uncertain(), sends.person("Ann"))
    agree(sends, request_id, sends.person("Bo"))
    with pytest.raises(AlreadyDecided) as lost:
        agree(sends, request_id, sends.person("Cy"))
    assert (lost.value.who, lost.value.what) == ("Bo", "agreed: a new key")


@pytest.mark.parametrize(("who", "decision"), [("Bo", "disagreed"), ("Ann", "withdrawn")])
def test_a_question_is_turned_down_or_taken_back(sends: Sends, who: str, decision: str) -> None:
    action_id = sends.uncertain()
    request_id, act = ask(sends, action_id, sends.person("Ann")), sends.act(sends.person(who))
    sends.decide(act, lambda tx: decisions.disagree(tx, request_id, act))
    assert request(sends, request_id).decision == decision  # type: ignore[attr-defined]
    assert sends.audit(action_id)[-1].act == f"{decision}: a new key"
    assert sends.state(action_id) is S.NEEDS_REVIEW
    assert ask(sends, action_id, sends.person("Ann")) > request_id


def test_the_new_one_can_be_taken_back_and_the_old_one_not_opened(sends: Sends) -> None:
    old, ann, bo = sends.uncertain(), sends.person("Ann"), sends.person("Bo")
    new = agree(sends, ask(sends, old, ann), bo).action_id
    act = sends.act(ann)
    assert sends.decide(act, lambda tx: decisions.take_back(tx, new, act)).state is S.NEEDS_REVIEW
    again = sends.act(ann)
    with pytest.raises(NotNow, match="new key"):
        sends.decide(again, lambda tx: decisions.reopen(tx, old, again))


@pytest.mark.parametrize("tried", [False, True])
def test_proof_about_the_first_stops_a_second_that_has_not_gone(sends: Sends, tried: bool) -> None:
    """Never tried, or turned away and about to go again."""
    old = sends.uncertain()
    new = agree(sends, ask(sends, old, sends.person("Ann")), sends.person("Bo")).action_id
    if tried:
        sends.tried(new, NotSent("turned away"))
    sends.due_now(new)
    assert prove(sends, old) is S.CLOSED
    assert sends.state(new) is S.NEEDS_REVIEW
    assert sends.claim_or_none() is None


def test_whoever_proposes_again_meets_the_newest_generation(sends: Sends) -> None:
    old = sends.proposed(key="receipt:9")
    sends.tried(old, None)
    sends.sql("UPDATE nottwice.actions SET retry_until = now()")
    sends.by_worker.run(actions.expire)
    sends.sql("UPDATE nottwice.actions SET evidence_until = now()")
    new = agree(sends, ask(sends, old, sends.person("Ann")), sends.person("Bo")).action_id
    assert sends.proposed(key="receipt:9") == new


def test_a_new_generation_tells_when_it_was_sent_as_the_first_would_have(sends: Sends) -> None:
    old = sends.uncertain(replace(KEYLESS, tells=True))
    done = agree(sends, ask(sends, old, sends.person("Ann")), sends.person("Bo"))
    sends.tried(done.action_id, ACCEPTED)
    (told,) = sends.rows("SELECT event_key FROM nottwice.events WHERE type = 'action.sent'")
    assert told.event_key == f"action:{done.action_id}:sent"
