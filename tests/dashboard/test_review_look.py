"""Look again and adopt, page by page: who sees what, in which state, and in which words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import session
from dashboard.screens.review_found import can_be_asked
from dashboard.screens.review_look import _waits_for
from ledger.database import Database
from ledger.evidence import lookups
from ledger.records import Answered, CannotBeAsked, Looked, LookUp, PointsTo, Sighting, Unanswered
from ledger.settings import ProviderSettings
from ledger.views.lookups import Looks
from tests.dashboard.conftest import App
from tests.fix_sandbox import claimed
from tests.fix_seed import ANSWER, RECEIPT, REPLY, House, mail
from worker.providers import KINDS

NOW = datetime(2026, 11, 30, 9, 41, 5, tzinfo=UTC)
HINT = Sighting("A message to the same recipient", PointsTo.SENT, False, "<m-1@x.example>")


@pytest.fixture
def send(house: House) -> int:
    return house.uncertain(REPLY, mail("ana@example.com", "Re: log in"), ago_s=600)


def looked(house: House, send: int, answer: Looked) -> None:
    """A look-up that is due, from its claim to its record."""
    house.run(
        "INSERT INTO nottwice.lookups (action_id, account, due_at) VALUES (:id, 'agentmail', now())", id=send
    )
    taken = house.db.run(lambda tx: lookups.claim(tx, house.worker, ("agentmail",), lease_s=60))
    assert taken is not None and taken.action_id == send
    house.db.run(lambda tx: lookups.record(tx, taken, answer, "AgentMail look-up"))


def page(app: App, send: int, person: int = 0) -> AppTest:
    at = app("review", person=person, send=str(send))
    assert not at.exception, at.exception
    return at


def buttons(at: AppTest) -> list[str]:
    return [button.label for button in at.button]


def shown(at: AppTest) -> str:
    return " ".join(str(block.value) for block in (*at.markdown, *at.caption, *at.get("html")))


def test_a_provider_that_can_be_asked_is_asked_by_a_button(app: App, send: int) -> None:
    at = page(app, send)
    assert "Look again" in buttons(at) and "Asks the provider now. Sends nothing." in shown(at)


def test_a_provider_that_cannot_be_asked_has_none_and_says_so(app: App, house: House) -> None:
    at = page(app, house.uncertain(RECEIPT, mail("ana@example.com", "Your receipt"), ago_s=600))
    assert "Look again" not in buttons(at)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_console_knows_who_can_be_asked(kind: str) -> None:
    question = LookUp(
        1, 1, claimed(mail("a@b.example", "x")).lease.token, kind, kind, "nt-1", b"{}", NOW, NOW
    )
    mail_server = {"base_url": "smtp://127.0.0.1:9", "user": "us"}
    more = mail_server if kind == "smtp" else {"base_url": "http://127.0.0.1:9"}
    table = ProviderSettings.model_validate({"kind": kind, "key": "k", **more})
    answer = KINDS[kind]("p", table, "key").look_up(question, 1.0)
    assert isinstance(answer, CannotBeAsked) is not can_be_asked(kind)


def test_an_engineer_reads_what_was_found_and_asks_and_adopts_nothing(
    app: App, house: House, send: int
) -> None:
    looked(house, send, Answered((HINT,), HINT.found))
    at = page(app, send, person=2)
    assert not {"Look again", "It was this one: close as sent"} & set(buttons(at))
    assert "AgentMail was asked 1 time" in shown(at)


def test_the_page_says_when_it_was_asked_last_and_what_came_of_it(app: App, house: House, send: int) -> None:
    looked(house, send, Unanswered("AgentMail could not answer. It said: 503 <b>down</b>"))
    words = shown(page(app, send))
    assert (
        "AgentMail was asked 1 time, last at" in words
        and "without an answer" in words
        and "503 &lt;b&gt;down&lt;/b&gt;" in words
    )


def test_to_press_is_to_write_a_request_and_a_second_press_finds_it_open(
    app: App, database: Database, send: int
) -> None:
    at = page(app, send)
    next(button for button in at.button if button.label == "Look again").click().run()
    assert "Look again" not in buttons(at) and "Asked by Ana Soto at" in shown(at)
    assert "No worker is running" in shown(at)
    rows = database.run(lambda tx: tx.all("SELECT asked_by, done_at FROM nottwice.lookups"))
    assert len(rows) == 1 and rows[0].asked_by and rows[0].done_at is None


def test_a_hint_is_offered_and_a_proof_or_a_hint_of_nothing_is_not(app: App, house: House, send: int) -> None:
    looked(house, send, Answered((), "No message with our mark"))
    assert "It was this one: close as sent" not in buttons(page(app, send))
    looked(house, send, Answered((HINT,), HINT.found))
    assert buttons(page(app, send)).count("It was this one: close as sent") == 1


def test_a_hint_that_may_be_another_sends_leads_to_that_send(app: App, house: House, send: int) -> None:
    other = house.uncertain(REPLY, mail("bo@example.com", "Re: log in"), ago_s=600)
    for one in (send, other):
        house.evidence(one, "Notice from inboxili", "It was delivered", "sent", message_id="m-1")
    at = page(app, send)
    assert "that of 1 other uncertain send: a notice names no subject" in shown(at)
    next(button for button in at.button if button.label == f"Open send {other}").click().run()
    assert at.query_params["send"] == str(other) and f"Open send {send}" in buttons(at)


@pytest.mark.parametrize(
    ("who", "words"),
    [
        ("Bo Lindqvist", "**Not done. Bo Lindqvist was first.** Bo Lindqvist closed this as sent at"),
        ("Ana Soto", "**Not done. It was done before in your name.** You closed this as sent at"),
    ],
)
def test_who_was_second_is_told_by_whom_and_of_oneself_as_of_oneself(
    app: App, send: int, who: str, words: str
) -> None:
    at = page(app, send)
    at.session_state["last_result"] = (send, session.Lost(who, "closed as sent", NOW, NOW))
    assert words in " ".join(info.value for info in at.run().info)


def test_what_waits_for_approval_has_nothing_to_look_for(app: App, house: House) -> None:
    at = page(app, house.proposed(ANSWER, mail("eva@example.com", "Re: refund"), about="Re: refund"))
    assert "Look again" not in buttons(at)


@pytest.mark.parametrize(
    ("in_hand", "held_until", "words"),
    [
        (True, None, "A worker asks AgentMail now."),
        (True, NOW, "A worker asks AgentMail now."),
        (False, NOW, "AgentMail is held until 09:41:05 UTC; a worker asks it then."),
    ],
)
def test_what_a_question_waits_for(in_hand: bool, held_until: datetime | None, words: str) -> None:
    looks = Looks(0, None, None, "", 1, NOW, "Ana", NOW, in_hand, held_until, NOW)
    assert _waits_for("AgentMail", looks) == words
