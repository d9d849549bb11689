"""What is said of many at once, "It was sent", is never said of one that did not go out: each has a message of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger import audit, decisions
from ledger.errors import NotNow
from ledger.evidence import rests
from ledger.records import Decision, PointsTo, Role
from ledger.states import ActionState
from tests.fix_notices import Provider
from tests.fix_sends import EMAIL, KEYLESS, Sends
from tests.ledger.test_together import decide, hint, results

S, D = ActionState, Decision


def to(sends: Sends, mailbox: str) -> int:
    return sends.uncertain(KEYLESS, email=replace(EMAIL, to=(mailbox,)))


def test_of_nine_that_share_notices_only_those_with_one_of_their_own_are_closed_as_sent(
    sends: Sends, provider: Provider
) -> None:
    """Nine sends, of which five went out; of the four that did not, each has another's notice as its hint."""
    went = {
        "ann": [True, False, True],
        "bo": [True, False],
        "cy": [True],
        "di": [True],
        "eve": [False, False],
    }
    truth: dict[int, bool] = {}
    for name, out in went.items():
        mailbox = f"{name}@example.com"
        truth |= {to(sends, mailbox): gone for gone in out}
        for n in range(sum(out)):
            provider.says("delivered", f"<{name}-{n}@x>", mailbox)
    provider.says("delivered", "<eve-of-old@x>", "eve@example.com")
    provider.give_hints()
    seen = sends.by_console.run(lambda tx: rests.of_each(tx, list(truth)), role=Role.SUPPORT)
    assert sorted(len(rest.rivals) for rest in seen.values()) == [0, 0, 1, 1, 1, 1, 2, 2, 2]
    done = decide(sends, list(truth), D.WAS_SENT, sends.act(sends.person("Ann")))
    closed = [id_ for id_ in truth if sends.state(id_) is S.SENT]
    assert (done.going, done.left) == (2, 7)
    assert all(truth[id_] for id_ in closed)
    assert {sends.row(id_).message_id for id_ in closed} == {"cy-0@x", "di-0@x"}
    (entry,) = sends.audit(closed[0])
    assert entry.known.endswith(" 1 hint of 1 message that may be it. No other send may be the same.")
    told = [reason for result, reason in results(sends, done.id).values() if result == "left"]
    assert (
        told.count("What points to it may be the message of 2 other sends as well. Decide it by itself.") == 3
    )
    with pytest.raises(NotNow, match="may be the message of"):
        decide(sends, [id_ for id_ in truth if id_ not in closed], D.WAS_SENT, sends.act(sends.person("Bo")))
    with pytest.raises(NotNow, match="points to its having gone out"):
        decide(
            sends, [id_ for id_ in truth if id_ not in closed], D.DO_NOT_SEND, sends.act(sends.person("Bo"))
        )


def test_a_send_that_was_closed_without_a_number_may_be_the_message_still(sends: Sends) -> None:
    one, other = sends.uncertain(KEYLESS), sends.uncertain(KEYLESS)
    hint(sends, one, "<m-1@x.example>")
    hint(sends, other, "m-1@x.example")
    act, seen = sends.act(sends.person("Ann")), sends.seen(one)
    sends.decide(act, lambda tx: decisions.settle(tx, one, seen, D.WAS_SENT, act))
    with pytest.raises(NotNow, match="the message of another send as well"):
        decide(sends, [other], D.WAS_SENT, sends.act(sends.person("Ann")))


def test_what_is_known_as_another_sends_by_a_number_stands_in_nobodys_way(sends: Sends) -> None:
    one, other = sends.uncertain(KEYLESS), sends.uncertain(KEYLESS)
    for id_ in (one, other):
        hint(sends, id_, "<m-1@x.example>")
        hint(sends, id_, "<m-2@x.example>")
    act, seen = sends.act(sends.person("Ann")), sends.seen(one)
    sends.decide(act, lambda tx: decisions.settle(tx, one, seen, D.WAS_SENT, act, message_id="m-1@x.example"))
    decide(sends, [other], D.WAS_SENT, sends.act(sends.person("Ann")))
    assert sends.row(other).message_id == "<m-2@x.example>"


def test_neither_two_messages_nor_an_early_one_nor_one_with_a_word_against_it_are_said_in_common(
    sends: Sends, provider: Provider
) -> None:
    two, early, denied = (
        to(sends, "ann@example.com"),
        to(sends, "bo@example.com"),
        to(sends, "cy@example.com"),
    )
    for what, number, whose, at_s in (
        ("delivered", "<m-1@x>", "ann", 1.0),
        ("delivered", "<m-2@x>", "ann", 2.0),
        ("delivered", "<m-3@x>", "bo", -60.0),
        ("delivered", "<m-4@x>", "cy", 1.0),
    ):
        provider.says(what, number, f"{whose}@example.com", at_s=at_s)
    provider.give_hints()
    hint(sends, denied, points_to=PointsTo.NOT_SENT)
    with pytest.raises(NotNow, match="2 messages may be it"):
        decide(sends, [two], D.WAS_SENT, sends.act(sends.person("Ann")))
    with pytest.raises(NotNow, match="before our request left"):
        decide(sends, [early], D.WAS_SENT, sends.act(sends.person("Ann")))
    with pytest.raises(NotNow, match="not having gone out as well"):
        decide(sends, [denied], D.WAS_SENT, sends.act(sends.person("Ann")))


def test_the_record_of_a_decision_says_which_hints_there_were_and_whose_else_they_may_be(
    sends: Sends,
) -> None:
    one, other = sends.uncertain(KEYLESS), sends.uncertain(KEYLESS)
    for id_ in (one, one, other):
        hint(sends, id_, "<m-1@x.example>")
    ann = sends.person("Ann")
    hint(sends, one, "<m-2@x.example>")
    act = sends.act(ann)
    sends.decide(
        act,
        lambda tx: audit.refused(
            tx, act, "closed as sent", "action", one, "It changed.", rests.known_now(tx, one)
        ),
    )
    act, seen = sends.act(ann), sends.seen(one)
    sends.decide(act, lambda tx: decisions.settle(tx, one, seen, D.DO_NOT_SEND, act))
    refused, done = sends.audit(one)
    assert done.known.startswith("nobody_knows: A request went to inboxili at ")
    assert done.known.endswith(" 3 hints of 2 messages that may be it. The same may be that of 1 other send.")
    assert refused.known.startswith(done.known + " Found last, at ")
    assert refused.known.endswith(" UTC: search, which points to sent.")
