"""Pages by their headings: the answer, as a sentence, in every state; roles; what the door says."""

from __future__ import annotations

from uuid import uuid4

import pytest
from streamlit import config
from streamlit.testing.v1 import AppTest

from dashboard.screens.overview import _workers, answer
from ledger.accounts import endpoints, pauses
from ledger.accounts.endpoints import Endpoint, Off
from ledger.database import Transaction
from ledger.figures import refusals
from ledger.figures.refusals import Refusal
from ledger.views import Snapshot
from tests.dashboard.conftest import App, seen_at_900_px
from tests.fix_seed import RECEIPT, House, desk, full, mail


def titles(at: AppTest) -> list[str]:
    assert not at.exception, at.exception
    return [title.value for title in at.title]


def test_support_begins_at_review_and_finds_it_empty(app: App) -> None:
    at = app()
    assert titles(at) == ["Nothing waits for a decision."]
    assert any("nobody can know whether it went out" in block.value for block in at.markdown)


def test_an_engineer_begins_at_the_overview_and_finds_it_empty(app: App) -> None:
    at = app(person=2)
    assert titles(at) == ["Nothing has arrived yet."]
    assert "nottwice simulate shop --copies 5" in [block.value for block in at.code]


def test_a_full_queue_says_how_many_and_how_long(app: App, house: House) -> None:
    desk(house)
    at = app()
    assert titles(at) == ["7 sends wait for a decision. The oldest has waited 18 h 42 min."]
    table = at.dataframe[0].value
    assert list(table["What"])[:2] == ["Refund notice", "Receipt"]
    assert {"What", "About", "To", "What we know", "Waiting"} <= set(seen_at_900_px(at.dataframe[0]))
    assert table["To"][3].startswith("⚠ ") and table["Safe key"][1] == "Inboxili has none"
    assert not any("text" in name.lower() for name in table.columns)


def test_a_full_overview_answers_in_its_heading(app: App, house: House) -> None:
    full(house)
    at = app(person=2)
    assert titles(at)[0].startswith("Work is moving. 7 sends wait for a person, ")
    labels = {metric.label: metric.value for metric in at.metric}
    assert labels["Waiting for a person"] == "7 sends" and labels["Workers"] == "4 of 5"


def test_pay_09_what_was_turned_away_is_counted_on_the_overview_by_its_source(app: App, house: House) -> None:
    full(house)
    counts = {("shop", Refusal.TOO_LARGE): 3, ("shop", Refusal.CODED): 1, ("", Refusal.UNKNOWN_SOURCE): 9}
    house.db.run(lambda tx: refusals.add(tx, uuid4(), counts))
    said = [one.value for one in app(person=2).caption if "Turned away" in one.value]
    assert said == [
        ":material/block: Turned away in the last hour: 3 of shop (too large), 1 of shop (compressed)."
    ]


def test_an_endpoint_that_is_off_or_not_known_is_said_on_overview_and_events(app: App, house: House) -> None:
    full(house)
    switched_off(house)
    at = app(person=2)
    assert titles(at)[0].endswith(", 1 webhook endpoint is off.")
    for page in (at, app("events", person=2)):
        (notice,) = page.error  # nothing comes through any other: nottwice check calls it critical
        assert "**AgentMail has switched off our webhook endpoint**" in notice.value
        assert any(
            "AgentMail still posts to our webhook endpoints is not known" in one.value for one in page.info
        )
        assert not any("evil" in one.value for one in (*page.error, *page.info)), "an address is not ours"
        named = [str(block.proto.body) for block in page.main if block.type == "html"]
        assert any("ep_[x](https://evil.example), https://evil.example/**</bdi>" in words for words in named)


def test_what_is_not_sent_is_said_with_until_when_and_why(app: App, house: House) -> None:
    full(house)
    house.db.run(lambda tx: pauses.pause(tx, "post-[x](https://evil.example)", "It said: 429 **slow down**"))
    house.run("UPDATE nottwice.installation SET place = 'server 1, database 2, table 3'")
    at = app(person=2)
    assert "sending is held, 1 account is paused" in titles(at)[0]
    (held,) = [one.value for one in at.error]
    assert held.startswith("**Nothing is sent**, and ") and "nottwice release" in held
    (paused,) = [one.value for one in at.warning]
    assert paused.startswith("**Account post") and "is paused.**" in paused and "(https://evil" not in paused
    told = [str(block.proto.body) for block in at.main if block.type == "html"]
    assert any("It is in another database than it was." in words for words in told)
    assert any("Until " in words and "It said: 429 **slow down**" in words for words in told)


def switched_off(house: House) -> None:
    """A provider that said so two hours ago, and has not answered since."""
    hostile = Endpoint("ep_[x](https://evil.example)", "https://evil.example/**", "disabled")

    def said(tx: Transaction) -> None:
        asked_at = endpoints.ask(tx, "acme", "AgentMail", every_s=0)
        assert asked_at is not None and endpoints.answered(tx, "acme", asked_at, [hostile])
        tx.execute("UPDATE nottwice.endpoint_polls SET answered_at = now() - interval '2 h'")

    house.db.run(said)


@pytest.mark.parametrize(
    ("workers", "silent", "words"),
    [
        (3, (), ("3", "all give signs", "gray")),
        (0, (), ("0", "none runs", "red")),
        (3, (("w-1", 74.0),), ("3 of 4", "w-1 silent for 74 s", "red")),
        (3, (("w-1", 74.0), ("w-2", 12.0)), ("3 of 5", "2 silent for 12 s to 74 s", "red")),
    ],
)
def test_the_workers_that_work_and_those_that_give_no_sign(
    workers: int, silent: tuple[tuple[str, float], ...], words: tuple[str, str, str]
) -> None:
    assert _workers(snapshot(workers=workers, silent=silent)) == words


@pytest.mark.parametrize("address", ["0", "x", "١", "1e3", "999999999999999999", "9" * 40, ""])
def test_an_address_that_names_nothing_says_one_sentence(app: App, address: str) -> None:
    at = app("review", send=address)
    assert titles(at) == ["There is nothing here, or you may not see it."]


def test_one_send_for_who_may_not_decide_has_no_buttons_to_decide(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"))
    at = app("review", person=2, send=str(send))
    assert "You can read this. Support or admin decides." in [caption.value for caption in at.caption]
    assert not at.radio and "Close without sending" not in [button.label for button in at.button]


def test_it_refuses_an_address_beyond_this_machine(app: App) -> None:
    config.set_option("server.address", "0.0.0.0")
    assert titles(app()) == ["The console does not listen beyond this machine without sign-in."]


OFF = Off("ep_1", "https://example.com/", "disabled", "acme", "AgentMail", 60.0, True)


def snapshot(**differs: object) -> Snapshot:
    quiet: dict[str, object] = dict.fromkeys(Snapshot.__slots__, 0) | {
        "any_event": True,
        "workers": 3,
        "silent": (),
    }
    return Snapshot(**(quiet | differs))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (snapshot(done_lately=1), "Work is moving. Nothing needs you."),
        (snapshot(processing=1, pending=1), "Work is moving. Nothing needs you."),
        (snapshot(), "No work waits for a worker. Nothing needs you."),
        (
            snapshot(pending=10_595, unhandled=10_595),
            "No work waits for a worker. 10,595 pieces of work are stuck.",
        ),
        (
            snapshot(pending=2, processing=1, expired_leases=1),
            "Work waits, and nothing was done in the last minute. 1 piece of work is stuck.",
        ),
        (
            snapshot(done_lately=1, conflicts=1, quarantined=10_001),
            "Work is moving. 1 conflict is open, more than 10,000 contents are in quarantine.",
        ),
        (
            snapshot(done_lately=1, needs_review=3, proposed=1, failed=3),
            "Work is moving. 4 sends wait for a person, 3 pieces of work are stuck.",
        ),
        (snapshot(done_lately=1, needs_review=1), "Work is moving. 1 send waits for a person."),
        (snapshot(done_lately=1, endpoints_off=(OFF,)), "Work is moving. 1 webhook endpoint is off."),
        (snapshot(workers=0, last_sign_s=74.0), "Work stands still: no worker has given a sign for 74 s."),
        (snapshot(workers=0, last_sign_s=None), "Work stands still: no worker has ever run."),
        (snapshot(any_event=False), "Nothing has arrived yet."),
    ],
)
def test_the_heading_is_the_answer(now: Snapshot, words: str) -> None:
    assert answer(now) == words
