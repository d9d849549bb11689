"""UI-16 at the review desk: nothing of one person is shown to another, and nobody acts on what was true a while ago."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from dashboard.words import span
from tests.dashboard.conftest import App
from tests.fix_seed import RECEIPT, House, mail

SUPPORT, ENGINEER = 0, 2


def opened(app: App, send: int, person: int) -> AppTest:
    at = app("review", person=person, send=str(send))
    assert not at.exception, at.exception
    return at


def pages(at: AppTest) -> str:
    return " ".join(block.proto.body for block in at.get("html"))


def test_ui_16_what_one_role_saw_is_not_shown_to_the_next(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana.ruiz@example.com", "Your receipt"), ago_s=600)
    assert "ana.ruiz@example.com" in pages(opened(app, send, SUPPORT))
    masked = pages(opened(app, send, ENGINEER))
    assert "a•••@example.com" in masked and "ana.ruiz" not in masked
    table = app("review", person=SUPPORT).dataframe[0].value
    assert list(table["To"]) == ["ana.ruiz@example.com"]
    assert list(app("review", person=ENGINEER).dataframe[0].value["To"]) == ["a•••@example.com"]


def test_ui_16_after_an_act_the_actors_next_view_is_fresh(app: App, house: House) -> None:
    first, _ = (house.uncertain(RECEIPT, mail("ana@example.com", f"Receipt {n}"), ago_s=600) for n in (1, 2))
    assert app("review").title[0].value.startswith("2 sends wait for a decision.")
    at = opened(app, first, SUPPORT)
    at.radio[0].set_value(at.radio[0].options[-1]).run()
    at.button_group[0].set_value(["Only this page"])
    at.text_input(key=next(box.key for box in at.text_input if str(box.key).startswith("why_"))).set_value(
        "They called"
    )
    next(button for button in at.button if button.label == "Close without sending").click().run()
    assert not at.exception, at.exception
    assert app("review").title[0].value == f"1 send waits for a decision. The oldest has waited {span(600)}."


def test_ui_16_a_row_that_somebody_changes_is_shown_as_it_is_at_the_next_look(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    at = opened(app, send, SUPPORT)
    assert at.radio[0].label == "**What should happen?**"
    house.evidence(send, "Notice from inboxili", "It was delivered", "sent", proof=True)
    at.run()
    assert not at.exception and not at.radio
    assert "It went out." in pages(at)


def test_a_reason_that_is_too_long_is_told_and_not_dropped(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt"), ago_s=600)
    at = opened(app, send, SUPPORT)
    at.radio[0].set_value(at.radio[0].options[-1]).run()
    at.button_group[0].set_value(["Only this page"])
    box = at.text_input(key=next(box.key for box in at.text_input if str(box.key).startswith("why_")))
    box.set_value("They called. " * 100)
    next(button for button in at.button if button.label == "Close without sending").click().run()
    assert [warning.value for warning in at.warning] == [
        "That has 1,300 characters; the audit keeps 1,000. Please shorten it.",
        "Nothing was done. Please say why.",
    ]
    assert at.radio, "it waits for a decision as before"


def test_a_hint_does_not_look_like_a_proof_and_the_subject_can_be_copied(app: App, house: House) -> None:
    send = house.uncertain(RECEIPT, mail("ana@example.com", "Receipt 7"), ago_s=600)
    house.evidence(send, "Notice from inboxili", "A message was delivered", "sent", proof=False)
    at = opened(app, send, SUPPORT)
    assert "▲ may be it" in pages(at) and "▲ it went out" not in pages(at)
    assert "Receipt 7" in [block.value for block in at.code]
