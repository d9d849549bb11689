"""Many sends with one cause, decided by one word: each on record, none with a new key, and above a number by two people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Barrier, Thread

import pytest
from sqlalchemy.exc import DBAPIError

from ledger import decisions, together
from ledger.actions import answers
from ledger.errors import AlreadyDecided, Declined, Incomplete, NotAllowed, NotNow
from ledger.records import Act, Decision, Evidence, PointsTo, Role, Seen
from ledger.records.together import Listed, ListState, Shared, Terms
from ledger.sign_in import people
from ledger.states import ActionState
from ledger.views import together as views_together
from tests.fix_sends import KEYED, KEYLESS, TO_APPROVE, Sends

S, D = ActionState, Decision
TERMS = Terms("Inboxili did not answer between 09:00 and 09:12 UTC", second_person_above=50)


def listed(sends: Sends, ids: Sequence[int]) -> list[Listed]:
    return [Listed(id_, sends.seen(id_)) for id_ in ids]


def decide(sends: Sends, ids: Sequence[int], decision: Decision, act: Act, *, terms: Terms = TERMS) -> Shared:
    shown = listed(sends, ids)
    return sends.decide(act, lambda tx: together.decide(tx, shown, decision, act, terms))


def hint(
    sends: Sends, action_id: int, message_id: str | None = None, points_to: PointsTo = PointsTo.SENT
) -> None:
    seen = Evidence(
        "search", "near in time", points_to, False, sends.rows("SELECT now() AS now")[0].now, message_id
    )
    sends.by_worker.run(lambda tx: answers.add_evidence(tx, action_id, seen))


def results(sends: Sends, list_id: int) -> dict[int, tuple[str, str]]:
    rows = sends.rows("SELECT * FROM nottwice.together_rows WHERE together_id = :id", id=list_id)
    return {row.action_id: (row.result, row.reason) for row in rows}


def record(sends: Sends, list_id: int) -> list[tuple[str, str]]:
    sql = "SELECT act, outcome FROM nottwice.audit WHERE entity = 'together' AND entity_id = :id ORDER BY id"
    return [(row.act, row.outcome) for row in sends.rows(sql, id=list_id)]


# ── What each decision does ───────────────────────────────────────────────────────────────────────────


def test_many_are_closed_by_one_word_each_on_its_own_record(sends: Sends) -> None:
    ids, ann = [sends.uncertain(KEYLESS) for _ in range(5)], sends.person("Ann")
    done = decide(sends, ids, D.DO_NOT_SEND, sends.act(ann))
    assert (done.state, done.going, done.left) == (ListState.DONE, 5, 0)
    assert [sends.state(id_) for id_ in ids] == [S.CLOSED] * 5
    for id_ in ids:
        (entry,) = sends.audit(id_)
        assert (entry.act, entry.person_id, entry.outcome) == ("closed without sending", ann.id, "done")
        assert (entry.why, entry.looked_at) == ("The log shows it.", ["Provider's own log"])
        assert entry.detail == f"one of 5 decided together (list {done.id})"
    assert record(sends, done.id) == [("closed without sending, together", "done")]
    assert set(results(sends, done.id).values()) == {("done", "")}


def test_the_same_key_again_goes_two_a_second(sends: Sends) -> None:
    ids = [sends.uncertain(KEYED) for _ in range(5)]
    keys = [sends.row(id_).provider_key for id_ in ids]
    done = decide(sends, ids, D.RESEND_SAME_KEY, sends.act(sends.person("Ann")))
    waits = [(sends.row(id_).due_at - done.at).total_seconds() for id_ in ids]
    assert waits == [15.0, 15.5, 16.0, 16.5, 17.0]
    assert [sends.row(id_).provider_key for id_ in ids] == keys
    assert [sends.row(id_).generation for id_ in ids] == [1] * 5


def test_it_was_sent_is_for_those_with_a_message_of_their_own(sends: Sends) -> None:
    first, unnamed, silent = (sends.uncertain(KEYLESS) for _ in range(3))
    hint(sends, first, "<m-1@provider.example>")
    hint(sends, unnamed)
    done = decide(sends, [first, unnamed, silent], D.WAS_SENT, sends.act(sends.person("Ann")))
    assert [sends.state(id_) for id_ in (first, unnamed, silent)] == [S.SENT, S.NEEDS_REVIEW, S.NEEDS_REVIEW]
    assert sends.row(first).message_id == "<m-1@provider.example>"
    told = results(sends, done.id)
    assert (told[unnamed][0], told[silent][0]) == ("left", "left")
    assert "names no message" in told[unnamed][1] and "Nothing that was found" in told[silent][1]


def test_what_points_to_a_send_is_not_closed_or_sent_again_with_the_others(sends: Sends) -> None:
    hinted, other = sends.uncertain(KEYED), sends.uncertain(KEYED)
    hint(sends, hinted)
    done = decide(sends, [hinted, other], D.DO_NOT_SEND, sends.act(sends.person("Ann")))
    assert (sends.state(hinted), sends.state(other)) == (S.NEEDS_REVIEW, S.CLOSED)
    assert "by itself" in results(sends, done.id)[hinted][1]


@pytest.mark.parametrize("spelled", ["<m-1@provider.example>", "m-1@provider.example"])
def test_a_hint_that_was_taken_back_points_nowhere_on_the_page_and_in_the_deciding(
    sends: Sends, spelled: str
) -> None:
    withdrawn, hinted = sends.uncertain(KEYLESS), sends.uncertain(KEYLESS)
    for id_ in (withdrawn, hinted):
        hint(sends, id_, "<m-1@provider.example>")
    hint(sends, withdrawn, spelled, PointsTo.NEITHER)
    hint(sends, hinted, "<m-2@provider.example>", PointsTo.NEITHER)  # of another message
    ann = sends.person("Ann")
    shown = sends.by_console.run(lambda tx: views_together.group(tx, withdrawn), role=Role.SUPPORT)
    assert shown is not None
    assert {m.id: m.rest.points_to_sent for m in shown.members} == {withdrawn: False, hinted: True}
    with pytest.raises(NotNow, match="Nothing that was found"):
        decide(sends, [withdrawn], D.WAS_SENT, sends.act(ann))
    decide(sends, [withdrawn, hinted], D.DO_NOT_SEND, sends.act(ann))
    assert (sends.state(withdrawn), sends.state(hinted)) == (S.CLOSED, S.NEEDS_REVIEW)


def test_without_a_key_none_is_sent_again_and_a_new_one_never(sends: Sends) -> None:
    ids, ann = [sends.uncertain(KEYLESS) for _ in range(2)], sends.person("Ann")
    with pytest.raises(NotNow, match="no key that would stop"):
        decide(sends, ids, D.RESEND_SAME_KEY, sends.act(ann))
    with pytest.raises(NotNow, match="never given to many"):
        decide(sends, ids, D.RESEND_NEW_KEY, sends.act(ann))
    assert sends.rows("SELECT FROM nottwice.together") == []


# ── What changed meanwhile, and who was first ─────────────────────────────────────────────────────────


def test_aud_03_what_changed_since_it_was_listed_is_left_alone_and_says_why(sends: Sends) -> None:
    ids, ann, bo = [sends.uncertain(KEYLESS) for _ in range(6)], sends.person("Ann"), sends.person("Bo")
    shown = listed(sends, ids)
    one = sends.act(bo)
    sends.decide(one, lambda tx: decisions.settle(tx, ids[0], shown[0].seen, D.WAS_SENT, one))
    hint(sends, ids[1])
    act, asked = sends.act(ann), sends.act(bo)
    sends.decide(asked, lambda tx: decisions.ask_new_key(tx, ids[2], shown[2].seen, asked))
    done = sends.decide(act, lambda tx: together.decide(tx, shown, D.DO_NOT_SEND, act, TERMS))
    assert (done.going, done.left) == (3, 3)
    told = results(sends, done.id)
    assert "it is sent now" in told[ids[0]][1]
    assert "since it was listed" in told[ids[1]][1]
    assert told[ids[2]][1] == "Bo asks a second person about it."
    assert [sends.state(id_) for id_ in ids[:3]] == [S.SENT, S.NEEDS_REVIEW, S.NEEDS_REVIEW]
    with pytest.raises(AlreadyDecided, match="Already done"):
        sends.decide(act, lambda tx: together.decide(tx, shown, D.DO_NOT_SEND, act, TERMS))
    again = replace(sends.act(ann))
    with pytest.raises(Declined):
        sends.decide(again, lambda tx: together.decide(tx, shown, D.DO_NOT_SEND, again, TERMS))
    assert len(sends.audit(ids[3])) == 1


def test_of_two_people_with_one_list_one_decides_and_the_other_is_told_who(sends: Sends) -> None:
    ids = [sends.uncertain(KEYED) for _ in range(5)]
    shown, start, told = listed(sends, ids), Barrier(2), []

    def one(act: Act, decision: Decision) -> None:
        start.wait()
        try:
            sends.decide(act, lambda tx: together.decide(tx, shown, decision, act, TERMS))
        except Declined as error:
            told.append(error)

    acts = [sends.act(sends.person(name)) for name in ("Ann", "Bo")]
    threads = [
        Thread(target=one, args=(act, decision))
        for act, decision in zip(acts, (D.DO_NOT_SEND, D.RESEND_SAME_KEY), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    (lost,) = told
    assert isinstance(lost, AlreadyDecided) and lost.who in ("Ann", "Bo")
    assert len({sends.state(id_) for id_ in ids}) == 1
    assert all(len(sends.audit(id_)) == 1 for id_ in ids)


def test_a_list_that_was_sent_on_its_way_can_be_stopped(sends: Sends) -> None:
    ids, ann = [sends.uncertain(KEYED) for _ in range(3)], sends.person("Ann")
    done = decide(sends, ids, D.RESEND_SAME_KEY, sends.act(ann))
    sends.due_now(ids[0])
    sends.claimed()
    act = sends.act(ann)
    assert sends.decide(act, lambda tx: together.take_back(tx, done.id, act)) == 2
    assert [sends.state(id_) for id_ in ids] == [S.SENDING, S.NEEDS_REVIEW, S.NEEDS_REVIEW]
    assert [entry.act for entry in sends.audit(ids[1])] == ["send again with the same key", "taken back"]
    later = sends.act(ann)
    with pytest.raises(NotNow, match="gone"):
        sends.decide(later, lambda tx: together.take_back(tx, done.id, later))


# ── Who may, and when it takes two ────────────────────────────────────────────────────────────────────


def test_why_and_what_was_looked_at_are_always_said_and_a_viewer_decides_nothing(sends: Sends) -> None:
    ids = [sends.uncertain(KEYLESS) for _ in range(2)]
    with pytest.raises(Incomplete, match="why"):
        decide(sends, ids, D.DO_NOT_SEND, replace(sends.act(sends.person("Ann")), reason=" "))
    with pytest.raises(NotAllowed):
        decide(sends, ids, D.DO_NOT_SEND, sends.act(sends.person("Vic", Role.VIEWER)))
    assert sends.state(ids[0]) is S.NEEDS_REVIEW


def test_what_a_person_decided_in_the_last_hour_counts_towards_the_second_person(sends: Sends) -> None:
    terms, ann, bo = (
        Terms("one cause", second_person_above=5),
        sends.person("Ann"),
        sends.person("Bo", Role.ADMIN),
    )
    before = [sends.uncertain(KEYLESS) for _ in range(3)]
    assert decide(sends, before, D.DO_NOT_SEND, sends.act(ann), terms=terms).because == ""
    ids = [sends.uncertain(KEYLESS) for _ in range(3)]
    asked = decide(sends, ids, D.DO_NOT_SEND, sends.act(ann), terms=terms)
    assert asked.state is ListState.WAITING
    assert asked.because == "these are 3 sends, and 3 within the last hour: together more than 5"
    assert [sends.state(id_) for id_ in ids] == [S.NEEDS_REVIEW] * 3
    own = sends.act(ann)
    with pytest.raises(NotAllowed, match="yourself"):
        sends.decide(own, lambda tx: together.agree(tx, asked.id, own))
    hint(sends, ids[0])  # one of them is no longer what was asked about
    word = replace(sends.act(bo), reason="I looked myself.")
    done = sends.decide(word, lambda tx: together.agree(tx, asked.id, word))
    assert (done.going, done.left) == (2, 1)
    assert [sends.state(id_) for id_ in ids] == [S.NEEDS_REVIEW, S.CLOSED, S.CLOSED]
    (entry,) = sends.audit(ids[1])
    assert (entry.person_id, entry.why) == (bo.id, "I looked myself.")
    assert "asked for by Ann: The log shows it." in entry.detail
    assert [act for act, _ in record(sends, asked.id)] == [
        "asked a second person: closed without sending, together",
        "agreed: closed without sending, together",
    ]
    late = sends.act(sends.person("Cy"))
    with pytest.raises(AlreadyDecided, match="Bo was first"):
        sends.decide(late, lambda tx: together.disagree(tx, asked.id, late))


def test_where_all_changed_since_it_was_asked_who_agrees_is_told_that_it_must_be_asked_again(
    sends: Sends,
) -> None:
    ids = [sends.uncertain(KEYLESS)]
    asked = decide(
        sends, ids, D.DO_NOT_SEND, sends.act(sends.person("Ann")), terms=Terms("one", second_person_above=0)
    )
    hint(sends, ids[0])
    word = sends.act(sends.person("Bo"))
    with pytest.raises(NotNow, match="Do not agree; Ann must ask again"):
        sends.decide(word, lambda tx: together.agree(tx, asked.id, word))
    assert sends.state(ids[0]) is S.NEEDS_REVIEW


def test_who_asked_is_no_second_person_signed_in_another_way(sends: Sends) -> None:
    terms, ann = Terms("one cause", second_person_above=0), sends.person("Ann")
    ids = [sends.uncertain(KEYLESS)]
    asked = decide(sends, ids, D.DO_NOT_SEND, sends.act(ann), terms=terms)
    twin = sends.act(
        sends.by_console.run(
            lambda tx: people.person(tx, "https://id.example", "7", "Ann L", "ANN@Example.com", Role.ADMIN)
        )
    )
    with pytest.raises(NotAllowed, match="signed in another way with the same e-mail address"):
        sends.decide(twin, lambda tx: together.agree(tx, asked.id, twin))
    assert sends.state(ids[0]) is S.NEEDS_REVIEW
    word = sends.act(sends.person("Bo"))
    assert sends.decide(word, lambda tx: together.agree(tx, asked.id, word)).going == 1


def test_who_asked_withdraws_and_what_is_waited_for_too_long_runs_out(sends: Sends) -> None:
    terms, ann, bo = Terms("one cause", second_person_above=0), sends.person("Ann"), sends.person("Bo")
    ids = [sends.uncertain(KEYLESS)]
    first = decide(sends, ids, D.DO_NOT_SEND, sends.act(ann), terms=terms)
    with pytest.raises(NotNow, match="Ann asks a second person"):
        decide(sends, ids, D.DO_NOT_SEND, sends.act(bo), terms=terms)
    act = sends.act(ann)
    sends.decide(act, lambda tx: together.disagree(tx, first.id, act))
    second = decide(sends, ids, D.DO_NOT_SEND, sends.act(ann), terms=terms)
    assert record(sends, first.id)[-1][0] == "withdrawn: closed without sending, together"
    sends.sql("ALTER TABLE nottwice.together DISABLE TRIGGER USER")
    sends.sql("UPDATE nottwice.together SET expires_at = now() WHERE id = :id", id=second.id)
    sends.sql("ALTER TABLE nottwice.together ENABLE TRIGGER USER")
    word = sends.act(bo)
    with pytest.raises(NotNow, match="run out"):
        sends.decide(word, lambda tx: together.agree(tx, second.id, word))
    assert sends.state(ids[0]) is S.NEEDS_REVIEW


def test_the_database_refuses_a_list_without_its_record_and_its_asker_as_second(sends: Sends) -> None:
    terms, ann, bo = Terms("one cause", second_person_above=0), sends.person("Ann"), sends.person("Bo")
    asked = decide(sends, [sends.uncertain(KEYLESS)], D.DO_NOT_SEND, sends.act(ann), terms=terms)
    sends.uncertain(KEYLESS)
    forged = [
        ("UPDATE nottwice.together SET state = 'done', decided_by = :bo, decided_at = now(), version = 2 WHERE id = :id", "answered list"),
        ("INSERT INTO nottwice.together (decision, cause, state, row_count, why, requested_by, needs_second) "
         "VALUES ('do_not_send', '', 'done', 1, 'x', :bo, false)", "without its audit row"),
        ("INSERT INTO nottwice.together_rows SELECT :id, id, version, content_digest, 'waiting', '' "
         "FROM nottwice.actions ORDER BY id DESC LIMIT 1", "frozen"),
        ("INSERT INTO nottwice.together (decision, cause, state, row_count, why, requested_by, needs_second) "
         "VALUES ('resend_new_key', '', 'done', 1, 'x', :bo, false)", "no_new_key"),
    ]  # fmt: skip
    for sql, word in forged:
        with pytest.raises(DBAPIError, match=word):
            sends.decide(sends.act(bo), lambda tx, sql=sql: tx.execute(sql, id=asked.id, bo=bo.id))
    with pytest.raises(DBAPIError, match="somebody_else|answered list"):
        sends.decide(
            sends.act(ann),
            lambda tx: tx.execute(
                "UPDATE nottwice.together SET state = 'done', decided_by = requested_by, decided_at = now(), version = 2"
            ),
        )
    with pytest.raises(DBAPIError, match="permission denied"):
        sends.decide(
            sends.act(sends.person("Eve", Role.ENGINEER)),
            lambda tx: tx.execute("UPDATE nottwice.together_rows SET result = 'done'"),
        )


# ── Contradicted later ────────────────────────────────────────────────────────────────────────────────


def test_proof_that_comes_after_a_closing_is_kept_as_its_contradiction_until_it_is_decided_anew(
    sends: Sends,
) -> None:
    closed, sent = sends.uncertain(KEYLESS), sends.uncertain(KEYLESS)
    for id_, decision in ((closed, D.DO_NOT_SEND), (sent, D.WAS_SENT)):
        act, seen = sends.act(sends.person("Ann")), sends.seen(id_)
        sends.decide(
            act, lambda tx, id_=id_, seen=seen, d=decision, act=act: decisions.settle(tx, id_, seen, d, act)
        )
    now = sends.rows("SELECT now() AS now")[0].now
    for id_, points in ((closed, PointsTo.SENT), (sent, PointsTo.NOT_SENT)):
        proof = Evidence("notice", "as it says", points, True, now, None)
        sends.by_worker.run(lambda tx, id_=id_, proof=proof: answers.add_evidence(tx, id_, proof))
    assert [sends.row(id_).contradicted_at is not None for id_ in (closed, sent)] == [True, True]
    assert (sends.state(closed), sends.state(sent)) == (S.CLOSED, S.SENT)
    act = sends.act(sends.person("Ann"))
    sends.decide(act, lambda tx: decisions.reopen(tx, sent, act))
    assert sends.row(sent).contradicted_at is None


def test_what_waits_for_approval_is_on_no_list(sends: Sends) -> None:
    id_ = sends.proposed(TO_APPROVE)
    row = sends.row(id_)
    shown = [Listed(id_, Seen(row.version, bytes(row.content_digest)))]
    act = sends.act(sends.person("Ann"))
    with pytest.raises(NotNow, match="it is proposed now"):
        sends.decide(act, lambda tx: together.decide(tx, shown, D.DO_NOT_SEND, act, TERMS))
