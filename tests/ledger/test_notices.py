"""A provider's notices: what they prove, in which order they are shown, and what is only a hint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import decisions
from ledger.actions import answers
from ledger.database import Transaction
from ledger.evidence.message_ids import bare, mailbox, meeting_key
from ledger.records import Accepted, Decision, Email, Role, Unknown
from ledger.states import ActionState
from ledger.views import notices as views_notices
from tests.fix_notices import Provider
from tests.fix_sends import ACCEPTED, KEYED, KEYLESS, Sends

S = ActionState
M1, M2 = "<m-1@provider.example>", "<m-2@provider.example>"


def accepted(sends: Sends, message_id: str = M1) -> int:
    action_id = sends.proposed(KEYLESS)
    sends.tried(action_id, Accepted(message_id))
    return action_id


def said(provider: Provider, action_id: int) -> list[tuple[str, list[str]]]:
    return [(s.recipient, [one.what.value for one in s.said]) for s in provider.shown(action_id)]


# ── The two meet, whoever comes first ─────────────────────────────────────────────────────────────────


def test_a_notice_after_the_record(sends: Sends, provider: Provider) -> None:
    action_id = accepted(sends)
    assert provider.says("delivered", M1) == action_id
    assert said(provider, action_id) == [("ann@example.com", ["delivered"])]
    assert provider.evidence(action_id) == []  # the answer settled it; delivered is shown apart
    assert sends.state(action_id) is S.SENT


def test_a_notice_before_the_record(sends: Sends, provider: Provider) -> None:
    action_id = sends.proposed(KEYLESS)
    attempt = sends.started(sends.claimed())
    assert provider.says("delivered", M1) is None
    assert provider.shown(action_id) == ()
    sends.answered(attempt, Accepted(M1))
    assert said(provider, action_id) == [("ann@example.com", ["delivered"])]


def test_msg_03_brackets_and_blanks_make_no_other_message(sends: Sends, provider: Provider) -> None:
    action_id = accepted(sends, M1)
    for spelled in ("m-1@provider.example", M1, f" {M1} ", "\tm-1@provider.example\r\n"):
        assert provider.says("bounced", spelled) == action_id
    assert said(provider, action_id) == [("ann@example.com", ["bounced"] * 4)]


def test_msg_03_nothing_matches_nothing(sends: Sends, provider: Provider) -> None:
    accepted(sends, "<>")
    for nothing in ("", "  ", "<>", "< >"):
        with pytest.raises(ValueError, match="names its message"):
            provider.says("bounced", nothing)


def test_the_same_message_id_at_another_account_is_another_message(sends: Sends, provider: Provider) -> None:
    action_id = accepted(sends)
    assert provider.says("delivered", M1, account="agentmail") is None
    assert provider.shown(action_id) == ()


def test_a_very_long_message_id_meets_too(sends: Sends, provider: Provider) -> None:
    long = "<" + "🦉" * 900 + "@example.com>"  # more bytes than an index entry holds
    action_id = accepted(sends, long)
    assert provider.says("delivered", long) == action_id


# ── Proof ─────────────────────────────────────────────────────────────────────────────────────────────


WORDS = {
    "sent": "It went out",
    "delivered": "It was delivered",
    "bounced": "It went out and bounced",
    "complained": "It was delivered, and its recipient complained",
}


def test_our_mark_sent_back_settles_what_is_uncertain(sends: Sends, provider: Provider) -> None:
    for what, words in WORDS.items():
        action_id = sends.uncertain()
        assert provider.says(what, f"<{what}>", reference=sends.row(action_id).reference) == action_id
        row = sends.row(action_id)
        assert (row.state, row.message_id) == ("sent", what)
        assert provider.evidence(action_id) == [(words, "sent", True, what)]
        assert provider.says("bounced", f"<{what}>") == action_id  # from now on the message is known


def test_our_mark_settles_a_send_under_way(sends: Sends, provider: Provider) -> None:
    action_id = sends.proposed(KEYLESS)
    attempt = sends.started(sends.claimed())
    provider.says("sent", M1, reference=sends.row(action_id).reference)
    assert sends.state(action_id) is S.SENT
    assert sends.answered(attempt, Unknown("no answer")) is S.SENT


def test_the_providers_id_goes_before_our_mark(sends: Sends, provider: Provider) -> None:
    first, other = accepted(sends, M1), sends.uncertain()
    assert provider.says("delivered", M1, reference=sends.row(other).reference) == first
    assert sends.state(other) is S.NEEDS_REVIEW


def test_our_mark_of_another_account_proves_nothing(sends: Sends, provider: Provider) -> None:
    action_id = sends.uncertain()
    assert provider.says("sent", M1, account="agentmail", reference=sends.row(action_id).reference) is None
    assert sends.state(action_id) is S.NEEDS_REVIEW


def test_a_rejection_is_shown_and_proves_nothing(sends: Sends, provider: Provider) -> None:
    action_id = sends.uncertain(KEYED)
    provider.says("rejected", M1, account="agentmail", reference=sends.row(action_id).reference)
    assert sends.state(action_id) is S.NEEDS_REVIEW
    words = "It was taken, then rejected, and did not go out"
    assert provider.evidence(action_id) == [(words, "not_sent", False, "m-1@provider.example")]


def test_proof_after_a_closing_is_shown_as_a_contradiction(sends: Sends, provider: Provider) -> None:
    action_id = sends.uncertain()
    ana = sends.person("Ana")
    seen = sends.seen(action_id)
    sends.decide(
        act := sends.act(ana), lambda tx: decisions.settle(tx, action_id, seen, Decision.DO_NOT_SEND, act)
    )
    provider.says("delivered", M1, reference=sends.row(action_id).reference)
    assert sends.state(action_id) is S.CLOSED
    assert provider.evidence(action_id)[0][1:3] == ("sent", True)


def test_an_event_that_is_worked_again_says_nothing_new(sends: Sends, provider: Provider) -> None:
    action_id = sends.uncertain()
    event, notice = provider.event(), provider.notice("sent", M1, reference=sends.row(action_id).reference)
    for _ in range(2):
        provider.keep(notice, event)
    assert len(provider.evidence(action_id)) == 1
    assert [len(s.said) for s in provider.shown(action_id)] == [1]


# ── What is shown ─────────────────────────────────────────────────────────────────────────────────────


def test_snd_10_sent_is_not_delivered(sends: Sends, provider: Provider) -> None:
    action_id = accepted(sends)
    assert provider.shown(action_id) == ()
    provider.says("bounced", M1, "ann@example.com", at_s=5, detail="Permanent")
    provider.says("delivered", M1, "Bo <Bo@Example.com>", at_s=6)
    bounced, delivered = provider.shown(action_id)
    assert (bounced.recipient, bounced.now.what, bounced.now.detail) == (
        "ann@example.com",
        "bounced",
        "Permanent",
    )
    assert (delivered.recipient, delivered.now.what) == ("bo@example.com", "delivered")
    assert sends.state(action_id) is S.SENT
    assert len(sends.attempts(action_id)) == 1  # nobody sends again because of a bounce


def test_they_are_in_the_order_in_which_they_happened_however_they_arrive(
    sends: Sends, provider: Provider
) -> None:
    action_id = accepted(sends)
    for what, at_s in (("complained", 60), ("sent", -1), ("delivered", 3)):
        provider.says(what, M1, at_s=at_s)
    assert said(provider, action_id) == [("ann@example.com", ["sent", "delivered", "complained"])]


def test_snd_19_two_mails_to_one_person(sends: Sends, provider: Provider) -> None:
    first, second = accepted(sends, M1), accepted(sends, M2)
    provider.says("delivered", M2, at_s=1)
    provider.says("bounced", M1, at_s=2)
    provider.says("delivered", M2, at_s=1)
    third = sends.uncertain()
    assert provider.says("delivered", "<m-3>", reference=sends.row(third).reference) == third
    assert said(provider, first) == [("ann@example.com", ["bounced"])]
    assert said(provider, second) == [("ann@example.com", ["delivered", "delivered"])]
    assert sends.state(third) is S.SENT


def test_what_a_person_gave_as_its_number_is_shown_with_it(sends: Sends, provider: Provider) -> None:
    action_id = sends.uncertain()
    seen, act = sends.seen(action_id), sends.act(sends.person("Ana"))
    given = {"message_id": M1, "read_in": "their log"}
    sends.decide(act, lambda tx: decisions.settle(tx, action_id, seen, Decision.WAS_SENT, act, **given))
    provider.says("delivered", "m-1@provider.example")
    assert said(provider, action_id) == [("ann@example.com", ["delivered"])]
    assert provider.evidence(action_id) == []  # their word is no proof


def test_inb_11_mail_that_somebody_else_sent_is_listed_as_unmatched(sends: Sends, provider: Provider) -> None:
    ours = accepted(sends, "<ours>")
    for n in range(5):
        provider.says("delivered", f"<theirs-{n}>", f"x{n}@example.com")
    provider.says("delivered", "<ours>")
    page = sends.by_console.run(lambda tx: views_notices.unmatched(tx, most=3), role=Role.SUPPORT)
    rest = sends.by_console.run(
        lambda tx: views_notices.unmatched(tx, before=page[-1], most=3), role=Role.SUPPORT
    )
    assert [u.message_id for u in page + rest] == [f"theirs-{n}" for n in (4, 3, 2, 1, 0)]
    assert said(provider, ours) == [("ann@example.com", ["delivered"])]


@pytest.mark.parametrize("role", Role)
def test_who_sees_whom(sends: Sends, provider: Provider, role: Role) -> None:
    action_id = accepted(sends)
    provider.says("bounced", M1, "ann@example.com", detail="550 ann@example.com unknown")
    provider.says("delivered", M1, "al@example.com")
    found = [(s.recipient, s.now.detail) for s in provider.shown(action_id, role)]
    if role in (Role.VIEWER, Role.ENGINEER):
        assert found == [("a•••@example.com", ""), ("a•••@example.com", "")]
    else:
        assert found == [("al@example.com", ""), ("ann@example.com", "550 ann@example.com unknown")]


def test_one_event_with_the_send_it_is_about(sends: Sends, provider: Provider) -> None:
    action_id, event = accepted(sends), provider.event()
    provider.keep(provider.notice("bounced", M1, "a@example.com", "b@example.com"), event)

    def look(tx: Transaction) -> tuple[tuple[views_notices.Standing, ...], int | None]:
        return views_notices.of_event(tx, event)

    standings, about = sends.by_console.run(look, role=Role.SUPPORT)
    assert ([s.recipient for s in standings], about) == (["a@example.com", "b@example.com"], action_id)


# ── Hints ─────────────────────────────────────────────────────────────────────────────────────────────


def hinted(provider: Provider, action_id: int) -> list[str | None]:
    return [
        message
        for _, points, proof, message in provider.evidence(action_id)
        if points == "sent" and not proof
    ]


def test_same_recipient_and_near_in_time_is_a_hint(sends: Sends, provider: Provider) -> None:
    action_id = sends.uncertain()
    version = sends.row(action_id).version
    assert provider.says("delivered", M1, "ANN@example.com", at_s=2) is None
    assert provider.give_hints() == 1
    ((found, points_to, proof, message_id),) = provider.evidence(action_id)
    assert found.startswith("A message to the same recipient was delivered at ")
    assert (points_to, proof, message_id) == ("sent", False, "m-1@provider.example")
    assert sends.state(action_id) is S.NEEDS_REVIEW
    assert sends.row(action_id).version > version  # a page that was drawn without it is stale
    assert provider.give_hints() == 0


def test_the_doubt_may_come_after_the_notice(sends: Sends, provider: Provider) -> None:
    action_id = sends.proposed(KEYLESS)
    attempt = sends.started(sends.claimed())
    provider.says("delivered", M1)
    assert provider.give_hints() == 0
    sends.answered(attempt, Unknown("no answer"))
    assert provider.give_hints() == 1
    assert hinted(provider, action_id) == ["m-1@provider.example"]


def test_a_send_under_way_to_the_same_recipient_keeps_hints_back(sends: Sends, provider: Provider) -> None:
    """The message may be that one's; then its answer says so, and there never was a hint."""
    uncertain = sends.uncertain()
    sends.proposed(KEYLESS)
    attempt = sends.started(sends.claimed())
    provider.says("delivered", M1)
    assert provider.give_hints() == 0
    sends.answered(attempt, Accepted(M1))
    assert provider.give_hints() == 0
    assert provider.evidence(uncertain) == []


def test_every_uncertain_send_it_may_be_about_is_told(sends: Sends, provider: Provider) -> None:
    both = [sends.uncertain(), sends.uncertain()]
    provider.says("delivered", M1)
    assert provider.give_hints() == 2
    assert all(hinted(provider, one) == ["m-1@provider.example"] for one in both)


def test_a_hint_that_was_another_sends_is_taken_back(sends: Sends, provider: Provider) -> None:
    late, other = sends.uncertain(), sends.uncertain()
    provider.says("delivered", M1)
    provider.give_hints()
    seen, act = sends.seen(late), sends.act(sends.person("Ana"))
    sends.decide(act, lambda tx: decisions.settle(tx, late, seen, Decision.WAS_SENT, act, message_id=M1))
    for _ in range(2):
        provider.give_hints()
    assert [e[1] for e in provider.evidence(other)] == ["sent", "neither"]
    assert f"that notice, {hinted(provider, other)[0]}, is another send's" in provider.evidence(other)[1][0]


def test_a_late_answer_takes_the_hint_from_the_others(sends: Sends, provider: Provider) -> None:
    other, late = sends.uncertain(), sends.proposed(KEYLESS)
    attempt = sends.tried(late, None)  # its worker vanished; the answer still comes
    assert sends.state(late) is S.NEEDS_REVIEW
    provider.says("delivered", M1)
    assert provider.give_hints() == 2
    assert sends.answered(attempt, Accepted(M1)) is S.SENT
    provider.give_hints()
    assert [e[1] for e in provider.evidence(other)] == ["sent", "neither"]


def test_what_is_no_hint(sends: Sends, provider: Provider) -> None:
    action_id = sends.uncertain()
    provider.says("delivered", "<1>", "bo@example.com")
    provider.says("delivered", "<2>", account="agentmail")
    provider.says("delivered", "<3>", at_s=-1000.0)
    provider.says("delivered", "<4>", at_s=7200.0)
    provider.says("delivered", "<5>", "")
    assert provider.give_hints() == 0
    assert provider.evidence(action_id) == []


def test_what_is_certain_gets_no_hint(sends: Sends, provider: Provider) -> None:
    done, waiting = accepted(sends, M2), sends.proposed(KEYLESS)
    provider.says("delivered", M1)
    assert provider.give_hints() == 0
    assert provider.evidence(done) == provider.evidence(waiting) == []


def test_a_notice_without_recipients_is_kept_and_hints_at_nothing(sends: Sends, provider: Provider) -> None:
    sends.uncertain(KEYED)
    notice = provider.notice("rejected", M1, account="agentmail")
    provider.keep(type(notice)(notice.account, M1, notice.what, notice.occurred_at))
    assert provider.give_hints() == 0
    assert len(sends.by_console.run(views_notices.unmatched, role=Role.VIEWER)) == 1  # type: ignore[arg-type]


# ── Spelling ──────────────────────────────────────────────────────────────────────────────────────────

TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\x00"), max_size=40)


@given(TEXT)
def test_a_key_is_its_own_key(text: str) -> None:
    assert meeting_key(meeting_key(text)) == meeting_key(text)
    assert bare(f" <{text}> ") == bare(text)


ADDRESSES = [
    "a@b.example",
    "A@B.Example",
    " Ann Ü <ÄNN@b.example> ",
    '"x <y>" <z@b.example>',
    "<a@b>",
    "",
    "<",
    "a>b",
    "<a@b>\r\n",
]


MASKED = {
    "ana@example.com": "a•••@example.com",
    "Søren Holm <soren.holm@example.org>": "s•••@example.org",
    '"Holm, Søren" <soren.holm@example.org>': "s•••@example.org",
    '"eve@home.example" <x@example.org>': "e•••@home.example, x•••@example.org",
    "Ana <ana@example.com>, Bo <bo@example.com>; cy@example.com": "a•••@example.com, b•••@example.com, c•••@example.com",
    '"ana ruiz"@example.com': "a•••@example.com",
    '"a@b c"@example.com': "a•••@example.com",
    "soren (Søren Holm) @": "s•••",
    "+4512345678": "+•••",
    "": "•••",
}


def test_a_masked_recipient_keeps_a_letter_and_the_domain_of_each_address(sends: Sends) -> None:
    for address, masked in MASKED.items():
        (row,) = sends.rows("SELECT nottwice.masked(:a) AS found", a=address)
        assert row.found == masked, address


def test_the_database_finds_the_same_mailbox(sends: Sends) -> None:
    for address in ADDRESSES:
        (row,) = sends.rows("SELECT nottwice.mailbox(:a) AS found", a=address)
        assert row.found == mailbox(address), address


def test_the_answers_side_spells_it_so_too(sends: Sends) -> None:
    accepted(sends, M1)
    (row,) = sends.rows("SELECT message_id FROM nottwice.messages")
    assert row.message_id == meeting_key(M1) == "m-1@provider.example"
    assert ACCEPTED.message_id == M1
    assert sends.by_worker.run(lambda tx: answers.meet(tx, "inboxili", M1, None)) is not None


def test_an_address_that_is_no_text_is_kept_visibly(sends: Sends, provider: Provider) -> None:
    action_id = accepted(sends)
    provider.says("delivered", M1, "nul\x00\ud800@example.com")
    ((recipient, _),) = said(provider, action_id)
    assert recipient.endswith("@example.com")


def test_a_crowd_of_recipients_is_one_row_each(sends: Sends, provider: Provider) -> None:
    email = Email(tuple(f"p{n}@example.com" for n in range(60)), "Hello", "Hi", sender="shop@example.org")
    action_id = sends.proposed(KEYLESS, email=email)
    sends.tried(action_id, Accepted(M1))
    provider.says("sent", M1, *email.to)
    assert len(provider.shown(action_id)) == 60
    provider.says("sent", M2, *(f"p{n}@example.com" for n in range(3000)))  # nobody's, and beyond all use
    assert (
        sends.rows("SELECT count(*) AS n FROM nottwice.notices WHERE message_id = 'm-2@provider.example'")[
            0
        ].n
        == 1000
    )
